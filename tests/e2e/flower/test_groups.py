"""Groups as a page may meet them: thousands in line, and a viewer whose clock is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.e2e.flower.browser import Tab
from tests.e2e.flower.pages import settled

MANY = 10_000
SINCE = "2026-03-01T10:00:00+00:00"
ANSWERED = "Sun, 01 Mar 2026 10:07:00 GMT"


def waiter(number: int) -> dict[str, Any]:
    return {
        "fire_id": f"f{number}", "task_id": f"f{number}", "schedule_id": f"s{number}", "name": f"report {number}",
        "kind": "report", "due_at": SINCE, "state": "waiting", "since": SINCE, "until": None, "worker": "",
        "attempt": 1,
    }  # fmt: skip


def shown(tab: Tab, waiting: int) -> Locator:
    """The card of a group that somebody holds, with so many in line."""
    holder = {**waiter(0), "state": "running", "fire_id": "holder"}
    line = [waiter(number) for number in range(waiting)]
    group = {"name": "gpu", "limit": "group:gpu", "capacity": 1, "holders": [holder], "waiting": line}
    answer = {"items": [group]}
    tab.page.route("**/parrot/api/groups", lambda route: route.fulfill(json=answer, headers={"Date": ANSWERED}))
    page = tab.go("/parrot/groups")
    settled(page)
    return page.get_by_role("region", name="Group gpu")


@pytest.mark.usefixtures("long_form")
def test_a_line_of_thousands_is_told_and_its_beginning_shown(tab: Tab) -> None:
    """All rows at once held the browser up for ten seconds, each time that somebody came or went."""
    card = shown(tab, MANY)
    expect(card).to_contain_text("10000 in line")
    expect(card).to_contain_text("And 9,900 more.")
    assert card.locator("table").nth(1).locator("tbody tr").count() == 100


@pytest.mark.usefixtures("long_form")
def test_how_long_ago_is_by_the_clock_of_the_server(tab: Tab) -> None:
    """The viewer's is months ahead."""
    expect(shown(tab, 0).locator("[data-distance]")).to_have_text("7 min ago")
