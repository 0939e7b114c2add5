"""Where the pages are, and when one is there."""

from __future__ import annotations

from typing import Final

from playwright.sync_api import Page, expect

from tests.e2e.flower.data import WANTED
from tests.e2e.flower.stage import Stage

#: Ours that have no argument.
PLAIN: Final = ("schedules", "fires", "timeline", "groups", "beats")


def paths(stage: Stage) -> dict[str, str]:
    """Every page of ours by a short name."""
    return {
        **{name: f"/parrot/{name}" for name in PLAIN},
        "schedule": "/parrot/schedules/pulse",
        "edit": stage.path_of(WANTED),
        "new": "/parrot/schedules/new",
    }


def settled(page: Page) -> None:
    """Wait until the page has been filled."""
    expect(page.locator("#parrot-page")).to_be_visible()
    expect(page.locator("#parrot-page [aria-busy=true]")).to_have_count(0)
