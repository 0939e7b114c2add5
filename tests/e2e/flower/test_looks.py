"""Every page, wide and narrow, dark and light: judged by rules, and kept as pictures for people to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.e2e.flower import looks
from tests.e2e.flower.browser import SCHEMES, Tab
from tests.e2e.flower.pages import EVERY, path_to, settled
from tests.e2e.flower.stage import Stage
from tests.support.procs import ROOT

PICTURES: Final = ROOT / "build" / "screenshots"
WIDTHS: Final = (1280, 390)
#: The narrowest at which rows are rows, not cards.
NARROW_TABLES: Final = 1100
#: px; a list of fifty schedules is longer than anybody looks at.
HIGHEST: Final = 1800


@pytest.mark.parametrize("name", EVERY)
def test_each_page(busy_stage: Stage, tab: Tab, name: str) -> None:
    """Nothing sticks out, nothing overlaps, every text can be read, whatever can be used has a name."""
    page = tab.go(path_to(name, busy_stage))
    settled(page)
    if name == "edit":
        page.get_by_role("button", name="Edit", exact=True).click()
        page.locator(".parrot-preview tbody tr").first.wait_for()
    faults: list[str] = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for scheme in SCHEMES:
            page.emulate_media(color_scheme=scheme)
            page.locator(f"html[data-bs-theme={scheme}]").wait_for()
            faults += [f"{width}, {scheme}: {fault}" for fault in looks.faults(page)]
            _picture(tab, PICTURES / f"{name}-{width}-{scheme}.png")
    page.set_viewport_size({"width": NARROW_TABLES, "height": 900})
    faults += [f"{NARROW_TABLES}: {fault}" for fault in looks.faults(page)]
    faults += looks.injected(page)
    faults += [f"a {role} has no name for screen readers" for role in looks.nameless(page)]
    assert not faults, "\n".join(faults)


def _picture(tab: Tab, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    width, high = tab.page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
    clip = {"x": 0, "y": 0, "width": width, "height": min(high, HIGHEST)}
    tab.page.screenshot(path=path, full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]  # a TypedDict of Playwright's own
