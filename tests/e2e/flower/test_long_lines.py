"""More in line than a page can draw at once."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.e2e.flower.browser import Tab
from tests.e2e.flower.pages import settled

MANY = 10_000
NOW = "2026-03-01T10:00:00+00:00"


def test_a_line_of_thousands_is_told_and_its_beginning_shown(tab: Tab) -> None:
    """All rows at once held the browser up for ten seconds, each time that somebody came or went."""
    line = [
        {
            "fire_id": f"f{number}", "task_id": f"f{number}", "schedule_id": f"s{number}", "name": f"report {number}",
            "kind": "report", "due_at": NOW, "state": "waiting", "since": NOW, "until": None, "worker": "",
            "attempt": 1,
        }
        for number in range(MANY)
    ]  # fmt: skip
    holder = {**line[0], "state": "running", "fire_id": "holder"}
    group = {"name": "gpu", "limit": "group:gpu", "capacity": 1, "holders": [holder], "waiting": line}
    tab.page.route("**/parrot/api/groups", lambda route: route.fulfill(json={"items": [group]}))
    page = tab.go("/parrot/groups")
    settled(page)
    shown = page.get_by_role("region", name="Group gpu")
    expect(shown).to_contain_text("10000 in line")
    expect(shown).to_contain_text("And 9,900 more.")
    assert shown.locator("table").nth(1).locator("tbody tr").count() == 100
