"""One stage and one browser for every scene: they start once, in one process."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.e2e.flower.browser import Tab, new_context, open_browser
from tests.e2e.flower.data import ANSWERS, FAILS, PAUSED, PLOTS
from tests.e2e.flower.hostile import LONG, MARKUP, NAMES
from tests.e2e.flower.stage import PASSWORD, USER, Stage, open_stage

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("flower"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failing scene what the processes of the stage logged last."""
    report = yield
    stage = getattr(item, "funcargs", {}).get("stage")
    if report.failed and isinstance(stage, Stage):
        report.sections += stage.procs.report_sections()
    return report


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    yield from open_browser()


@pytest.fixture(scope="package")
def stage(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """After the browser: nothing is started where there is none to look."""
    yield from open_stage(tmp_path_factory.mktemp("stage"))


@pytest.fixture(scope="package")
def busy_stage(stage: Stage) -> Stage:
    """The stage when each page has something to show: outcomes with hostile words, a group with a line, a note."""
    stage.run(FAILS, ANSWERS, *NAMES, *PLOTS)
    stage.client.pause(PAUSED, note=MARKUP + LONG, actor=USER)
    stage.wait_for(FAILS, "error")
    for name in (ANSWERS, *NAMES):
        stage.wait_for(name, "success")
    stage.wait_for(PLOTS[0], "running")
    return stage


@pytest.fixture
def make_tab(browser: Browser, stage: Stage) -> Iterator[Callable[..., Tab]]:
    """Tabs of this test. At its end none may have met an error."""
    tabs: list[Tab] = []

    def make(*, width: int = 1280) -> Tab:
        context = new_context(browser, USER, PASSWORD, width=width)
        context.set_default_timeout(10_000)
        tabs.append(Tab(context, stage.url))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.page.context.close()
    for tab in tabs:
        tab.check()


@pytest.fixture
def tab(make_tab: Callable[..., Tab]) -> Tab:
    return make_tab()
