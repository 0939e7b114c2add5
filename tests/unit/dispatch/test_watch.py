"""What a beat says about the coordinator and about its own clock, and how often."""

from __future__ import annotations

import logging

import pytest

from celery_parrot.dispatch.watch import Watch
from celery_parrot.model import events
from celery_parrot.testing import FakeClock, RecordingEvents


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def sink() -> RecordingEvents:
    return RecordingEvents()


@pytest.fixture
def watch(clock: FakeClock, sink: RecordingEvents) -> Watch:
    return Watch(clock, sink, max_clock_skew=5.0)


def test_an_outage_is_said_at_once_then_every_ten_seconds_then_its_end(
    clock: FakeClock, sink: RecordingEvents, watch: Watch
) -> None:
    """Once a second it is noticed; the log does not fill."""
    for _ in range(26):
        watch.unreachable("no route")
        clock.advance(1)
    said = sink.named(events.LOCK_UNAVAILABLE)
    assert [event.fields["for"] for event in said] == [0.0, 10.0, 20.0]
    assert all(event.level == logging.WARNING and "no route" in event.text for event in said)
    watch.reachable()
    watch.reachable()
    (back,) = sink.named(events.COORDINATOR_BACK)
    assert back.fields["for"] == 26.0


def test_status_names_the_outage_and_since_when(clock: FakeClock, watch: Watch) -> None:
    """``ok`` before and after."""
    assert watch.status == ("ok", 0.0, "")
    clock.advance(3)
    watch.unreachable("gone")
    clock.advance(2)
    watch.unreachable("")
    assert watch.status == ("lock_unavailable", 3.0, "unreachable")
    clock.advance(1)
    watch.reachable()
    assert watch.status == ("ok", 6.0, "")


@pytest.mark.parametrize(
    ("skew", "level"),
    [(0.4, None), (-0.4, None), (0.6, logging.WARNING), (-4.0, logging.WARNING), (30.0, logging.ERROR)],
)
def test_skew_warns_and_over_the_bound_loudly(
    sink: RecordingEvents, watch: Watch, skew: float, level: int | None
) -> None:
    """Half a second is nothing; over ``parrot_max_clock_skew`` it is an error. Due times do not depend on it."""
    watch.skew(skew)
    said = sink.named(events.CLOCK_SKEW)
    assert [event.level for event in said] == ([] if level is None else [level])
    if said:
        assert ("ahead of" if skew > 0 else "behind") in said[0].text
        assert "due times follow the coordinator's" in said[0].text


def test_skew_is_repeated_once_a_minute(clock: FakeClock, sink: RecordingEvents, watch: Watch) -> None:
    """And at once after it had been right in between."""
    for _ in range(125):
        watch.skew(2.0)
        clock.advance(1)
    assert len(sink.events) == 3
    watch.skew(0.0)
    watch.skew(2.0)
    assert len(sink.events) == 4


def test_a_step_of_the_coordinators_clock_is_said(sink: RecordingEvents, watch: Watch) -> None:
    """With what follows from it."""
    watch.stepped()
    assert "two readings agree" in sink.named(events.CLOCK_STEP)[0].text
