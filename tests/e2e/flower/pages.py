"""Where our pages are, and when one is there."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, expect

from tests.e2e.flower.data import WANTED
from tests.e2e.flower.stage import Stage

#: Short names of all of them; ``schedule`` has a long history, ``edit`` can be edited.
EVERY: Final = ("schedules", "schedule", "edit", "new", "fires", "timeline", "groups", "beats")


def path_to(name: str, stage: Stage) -> str:
    """The path of a page."""
    paths = {
        "schedule": "/parrot/schedules/pulse",
        "edit": stage.path_of(WANTED),
        "new": "/parrot/schedules/new",
    }
    return paths.get(name, f"/parrot/{name}")


def settled(page: Page) -> None:
    """Wait until the page has been filled."""
    expect(page.locator("#parrot-page")).to_be_visible()
    expect(page.locator("#parrot-page [aria-busy=true]")).to_have_count(0)
