"""Figures that tests measure, shown after pytest's own summary: also those of tests that ran in another process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_NAME = "figures"


def teller(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Takes a line for the summary of the whole run. Its test's report carries it there."""
    return lambda line: request.node.user_properties.append((_NAME, line))


def show(terminalreporter: pytest.TerminalReporter) -> None:
    """Write what was told."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    called = [report for report in reports if getattr(report, "when", "") == "call"]
    lines = [line for report in called for name, line in report.user_properties if name == _NAME]
    if lines:
        terminalreporter.section("every due time exactly once")
        for line in lines:
            terminalreporter.write_line(line)
