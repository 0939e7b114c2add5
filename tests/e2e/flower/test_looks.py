"""Every page, wide and narrow, dark and light: judged by rules, and kept as pictures for people to look at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.flower import looks
from tests.e2e.flower.browser import Scheme, Tab
from tests.e2e.flower.pages import paths, settled
from tests.e2e.flower.stage import Stage
from tests.support.procs import ROOT

PICTURES = ROOT / "build" / "screenshots"
#: px; a list of a hundred schedules is longer than anybody looks at.
HIGHEST = 2400


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page(busy_stage: Stage, make_tab: Callable[..., Tab], width: int, scheme: Scheme) -> None:
    """Nothing sticks out, nothing overlaps, every text can be read, whatever can be used has a name."""
    tab = make_tab(width=width, scheme=scheme)
    PICTURES.mkdir(parents=True, exist_ok=True)
    faults: list[str] = []
    for name, path in paths(busy_stage).items():
        page = tab.go(path)
        settled(page)
        _picture(tab, PICTURES / f"{name}-{width}-{scheme}.png")
        faults += [f"{name}: {fault}" for fault in looks.faults(page)]
    assert not faults, "\n".join(faults)


def _picture(tab: Tab, path: Path) -> None:
    high = tab.page.evaluate("document.documentElement.scrollHeight")
    width = (tab.page.viewport_size or {"width": 0})["width"]
    clip = {"x": 0, "y": 0, "width": width, "height": min(high, HIGHEST)}
    tab.page.screenshot(path=path, full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]  # a TypedDict of Playwright's own
