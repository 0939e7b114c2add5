"""What ``health`` makes of the beats it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from celery_parrot.cli.commands.health import _noted
from celery_parrot.client import health
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Coordinator, Timing
from celery_parrot.testing import FakeClock

NOW = datetime(2026, 5, 1, tzinfo=UTC)
BEAT = Beat(owner="a", host="h", pid=1, version="1", started=NOW, seen=NOW)


class Known:
    """The part of a coordinator that a judgement needs."""

    timing = Timing(heartbeat=3.0)

    def __init__(self, beats: Sequence[Beat]) -> None:
        self.beats = lambda: beats

    def attach(self) -> SimpleNamespace:
        return SimpleNamespace(now=NOW)


def judge(*beats: Beat) -> tuple[bool, str]:
    views, _ = health.beats(cast(Coordinator, Known(beats)), FakeClock(NOW))
    found = health.judge(views, "scheduler_manager", "Redis at redis://h")
    return found.healthy, found.reason


@pytest.mark.parametrize(
    ("failing", "expected"),
    [
        ({}, (True, "")),
        ({"db": 29.9}, (True, "")),
        ({"db": 30.0}, (False, "store db has been out of reach for 30 s")),
    ],
)
def test_a_store_may_be_away_for_half_a_minute(failing: dict[str, float], expected: tuple[bool, str]) -> None:
    """From then on a probe fails, and the sentence names the store."""
    assert judge(BEAT, replace(BEAT, owner="b", failing=failing)) == expected


def test_what_a_silent_beat_said_of_a_store_does_not_count() -> None:
    """Its last words are as old as it is."""
    silent = replace(BEAT, owner="b", seen=NOW - timedelta(seconds=60), failing={"db": 100.0})
    assert judge(BEAT, silent) == (True, "")
    assert judge(silent) == (False, "no beat of scheduler_manager is alive (1 went silent)")


def test_a_short_absence_is_told_beside_the_ok() -> None:
    """Healthy still, but a person who looks should see it."""
    assert _noted({"db": 4.2}) == "; store db out of reach for 4 s"
    assert _noted({}) == ""
