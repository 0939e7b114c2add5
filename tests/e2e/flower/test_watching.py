"""What the pages that only show things let a person do."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.flower.browser import Tab
from tests.e2e.flower.data import RENDERS
from tests.e2e.flower.pages import settled
from tests.e2e.flower.stage import Stage


@pytest.mark.usefixtures("long_form")
def test_fires_are_filtered_and_held(stage: Stage, tab: Tab) -> None:
    """The filter stands in the address and holds for what comes; held still, rows stay until the page goes on."""
    page = tab.go("/parrot/fires?text=puls&status=success")
    settled(page)
    rows = page.locator("#over tbody tr")
    expect(page.get_by_label("Search")).to_have_value("puls")
    before = rows.count()
    expect(rows.nth(before)).to_be_attached()  # one more came by itself
    assert set(rows.locator("th").all_inner_texts()) == {"pulse"}
    assert page.url.endswith("/parrot/fires?text=puls&status=success")

    page.get_by_role("button", name="Hold still").click()
    held = rows.count()
    expect(page.get_by_role("button", name=re.compile(r"Go on \(\d+ changed\)"))).to_be_visible()
    assert rows.count() == held
    page.get_by_role("button", name="Go on").click()
    expect(rows.nth(held)).to_be_attached()


@pytest.mark.usefixtures("long_form")
def test_a_strip_is_read_with_the_keyboard(stage: Stage, tab: Tab) -> None:
    """Arrow keys go cell by cell, and what is said follows."""
    page = tab.go("/parrot/timeline")
    settled(page)
    strip = page.get_by_role("slider", name=re.compile("^All kinds:"))
    strip.focus()
    first = strip.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    expect(strip).to_have_attribute("aria-valuenow", "1")
    assert strip.get_attribute("aria-valuetext") != first
    expect(page.locator(".parrot-tip:visible")).to_have_text(strip.get_attribute("aria-valuetext") or "")
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    expect(strip).to_have_attribute("aria-valuenow", "143")


def test_a_group_is_released(stage: Stage, tab: Tab) -> None:
    """Only when confirmed; the fire is abandoned, with the name of whoever did it, and the next one runs."""
    first, second, _ = RENDERS
    stage.run(first)
    stage.wait_for(first, "running")
    stage.run(second)
    page = tab.go("/parrot/groups")
    settled(page)
    group = page.get_by_role("region", name="Group gpu")
    holder = group.locator("table").nth(0).locator("tbody tr")
    release = page.get_by_role("button", name=f"Release gpu: end the fire of {first}")
    release.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is not stopped")
    dialog.get_by_role("button", name="Cancel").click()
    expect(holder).to_contain_text(first)
    release.click()
    dialog.get_by_role("button", name="Release").click()
    expect(holder).to_contain_text(second)
    (fire,) = stage.client.fires(first, limit=1)
    assert (fire.status, fire.reason) == ("abandoned", "released by ann")
    stage.end(first)
    stage.end(second)
    expect(group).to_have_count(0)
