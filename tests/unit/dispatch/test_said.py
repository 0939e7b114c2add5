"""What a beat says beside what it does: ticks, and fires that were sent late."""

from __future__ import annotations

import logging

import pytest

from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.testing import ManualBeat, RecordingEvents
from tests.simulation.rig import Rig, every


def said(beat: ManualBeat, name: str) -> list[Event]:
    assert isinstance(beat.events, RecordingEvents)
    return beat.events.named(name)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_each_tick_says_that_it_began_and_ended(rig: Rig) -> None:
    """For the log only, at DEBUG, with the seconds it took."""
    beat = rig.beat("B1", every(60))
    beat.tick()
    beat.tick()
    assert len(said(beat, events.TICK_STARTED)) == 2
    completed = said(beat, events.TICK_COMPLETED)
    assert [event.level for event in completed] == [logging.DEBUG] * 2
    assert all(event.fields["took"] >= 0 for event in completed)


@pytest.mark.parametrize(("asleep", "late"), [(60.0, []), (61.0, [61.0])])
def test_a_fire_sent_over_a_minute_late_is_said_to_be(rig: Rig, asleep: float, late: list[float]) -> None:
    """By the coordinator's clock, from the instant it was to be sent at; a minute is the bound."""
    beat = rig.beat("B1", every(600))
    beat.tick()
    rig.clock.advance(600)
    rig.clock.advance(asleep)
    beat.tick()
    assert len(said(beat, events.FIRE_SENT)) == 1
    assert [event.fields["late"] for event in said(beat, events.FIRE_LATE)] == late
