"""Counts per second over the last minute."""

from __future__ import annotations

from celery_parrot.dispatch.pace import LOOKS_BACK, Pace
from celery_parrot.testing import FakeClock


def test_a_young_beat_is_judged_by_its_own_time() -> None:
    """Ten in the first five seconds are two a second; in less than one second they are not more than ten."""
    clock = FakeClock()
    pace = Pace(clock)
    pace.count(10)
    assert pace.per_second == 10.0
    clock.advance(5)
    assert pace.per_second == 2.0


def test_what_is_older_is_forgotten() -> None:
    """A burst leaves the figure a minute later."""
    clock = FakeClock()
    pace = Pace(clock)
    pace.count(600)
    clock.advance(30)
    pace.count(30)
    pace.count(30)
    pace.count(0)
    clock.advance(LOOKS_BACK - 30)
    assert pace.per_second == 11.0
    clock.advance(1)
    assert pace.per_second == 1.0
    clock.advance(LOOKS_BACK)
    assert pace.per_second == 0.0
