"""Texts that others wrote stay texts: in names, notes, prompts, arguments, results, errors and groups.

That the lists of all pages stand them is shown by ``test_looks.py``, which looks at the same stage.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.flower import looks
from tests.e2e.flower.browser import Tab
from tests.e2e.flower.data import ANSWERS, FAILS, PAUSED
from tests.e2e.flower.hostile import LONG, MARKUP, NAMES
from tests.e2e.flower.pages import settled
from tests.e2e.flower.stage import Stage

WIDTH: Final = 390  # where a long word breaks out first
AS_TYPED: Final = {"new": "%6Eew"}  # its plain address is that of the empty form


def assert_inert(page: Page) -> None:
    """No text did anything, and nothing sticks out."""
    assert looks.injected(page) == []
    assert looks.faults(page) == []


@pytest.fixture
def narrow(busy_stage: Stage, make_tab: Callable[..., Tab]) -> Tab:
    return make_tab(width=WIDTH)


def test_each_name(busy_stage: Stage, narrow: Tab) -> None:
    """A schedule of any name is found, shown and run under that name."""
    page = narrow.go("/parrot/schedules")
    for name in NAMES:
        settled(page)
        page.get_by_label("Search").fill(name)
        link = page.locator("tbody tr").get_by_role("link", name=name, exact=True)
        expect(link).to_be_visible()
        expect(link).to_have_attribute("href", busy_stage.path_of(name))
    assert_inert(page)
    for name in NAMES:
        page = narrow.go(f"/parrot/schedules/{AS_TYPED.get(name, quote(name, safe=''))}")
        expect(page.locator("h1")).to_have_text(name)
        settled(page)
        expect(page.locator("#history")).to_contain_text("success")
        assert_inert(page)


@pytest.mark.parametrize(("name", "where"), [(FAILS, "#history"), (ANSWERS, "#history"), (PAUSED, "#state")])
def test_each_text(busy_stage: Stage, narrow: Tab, name: str, where: str) -> None:
    """An error, a result and a note are there to the letter, and in the story of why as well."""
    page = narrow.go(busy_stage.path_of(name))
    settled(page)
    if name != PAUSED:
        page.locator(where).locator("summary").first.click()
    expect(page.locator(where)).to_contain_text(MARKUP[:200])
    expect(page.locator(where)).to_contain_text(LONG[:100])
    if name != PAUSED:
        page.get_by_role("button", name="Why").first.click()
        expect(page.locator("#why ol li").first).to_be_visible()
    assert_inert(page)


def test_an_editor_of_them(busy_stage: Stage, narrow: Tab) -> None:
    """In the fields of the form, too."""
    page = narrow.go(busy_stage.path_of(NAMES[0]))
    settled(page)
    page.get_by_role("button", name="Edit", exact=True).click()
    form = page.get_by_role("region", name="Edit")
    expect(form.get_by_label("Name (required)")).to_have_value(NAMES[0])
    expect(form.locator(".parrot-preview tbody tr").first).to_be_visible()
    for summary in form.locator("summary").all():
        summary.click()
    expect(form.get_by_label("Prompt")).to_have_value(MARKUP + LONG)
    assert_inert(page)
