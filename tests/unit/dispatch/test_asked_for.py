"""Fires that a person asked for, on their way to the broker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.dispatch.routing import HEADER, Router
from celery_parrot.model import events
from celery_parrot.model.fire import FireKey, Namespace, Origin, Status
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import Demand, DemandVerdict
from celery_parrot.testing import ManualBeat, RecordingEvents
from tests.simulation.rig import Rig, every, key_of, sent

HOUR = 3600.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _ask(rig: Rig, origin: Origin = Origin.RUN_NOW, *, seconds: float = 0, **changes: Any) -> FireKey:
    nonce = "n" if origin is Origin.RUN_NOW else ""
    key = FireKey("s", rig.at(seconds), nonce)
    (reply,) = rig.coordinator.demand([Demand(key=key, name="s", kind="task", origin=origin, **changes)])
    assert reply.verdict is DemandVerdict.ASKED
    return key


def _woken(beat: ManualBeat) -> ManualBeat:
    beat.ticker.woken()
    beat.tick()
    return beat


def test_a_woken_beat_sends_it_at_once(rig: Rig) -> None:
    """With the same sender and options as any fire; its header says what it is."""
    beat = rig.beat("B1", every(HOUR, args=[1]))
    beat.tick()
    rig.clock.advance(0.2)
    key = _ask(rig, seconds=0.2)
    _woken(beat)
    (message,) = beat.sent
    header = message.headers[HEADER]
    assert key_of(message).due_at == key.due_at
    assert (header["origin"], header["nonce"], header["attempt"]) == ("run_now", "n", 1)
    assert (message.task, list(message.args)) == ("tasks.work", [1])
    assert rig.status(key) is Status.SENT
    assert isinstance(beat.events, RecordingEvents)
    assert events.TAKEN_OVER not in {event.name for event in beat.events.events}


@pytest.mark.parametrize("by", ["person", "failures"])
def test_neither_a_pause_nor_lateness_stops_it(rig: Rig, by: str) -> None:
    """A backfilled due time is as old as it is: not too late, and not said to be."""
    beat = rig.beat("B1", every(HOUR))
    beat.tick()
    rig.coordinator.hold(["s"], by, "")
    run_now, old = _ask(rig), _ask(rig, Origin.BACKFILL, seconds=-10 * HOUR)
    _woken(beat)
    assert {rig.status(run_now), rig.status(old)} == {Status.SENT}
    assert isinstance(beat.events, RecordingEvents)
    assert events.FIRE_LATE not in {event.name for event in beat.events.events}
    assert sorted(sent(beat)) == sorted([FireKey("s", run_now.due_at), old])


def test_one_that_nobody_knows_for_a_day_is_skipped(rig: Rig) -> None:
    """Its schedule left the code."""
    beat = rig.beat("B1", every(HOUR, "other"))
    beat.tick()
    key = _ask(rig, guard=HOUR)
    rig.clock.advance(timedelta(days=1, seconds=5).total_seconds())
    beat.run(30)
    assert rig.record(key).reason == "deleted"
    assert _ask(rig, seconds=1, guard=HOUR) != key  # and its guard is free


@pytest.mark.parametrize(
    ("override", "args", "kwargs"),
    [
        ({}, (1,), {"a": 2}),
        ({"args": [7, [8]]}, (7, [8]), {"a": 2}),
        ({"kwargs": {}}, (1,), {}),
        ({"args": [], "kwargs": {"b": None}}, (), {"b": None}),
    ],
)
def test_arguments_in_place_of_the_schedules(
    override: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    """Those that are given; the rest stay the schedule's. A declared kind is called as ever."""
    router = Router(Namespace("n"), {"agent": Kind(name="agent", task="t.agent")})
    for kind, first, named in (("task", (), {}), ("agent", ("work",), {"prompt": "p"})):
        schedule = Schedule(
            schedule_id="s", name="s", kind=kind, target="work", schedule_type="interval",
            schedule_config={"hours": 1}, args=(1,), kwargs={"a": 2}, prompt="p",
        )  # fmt: skip
        key = FireKey("s", Rig().at(0), "n")
        message = router.message(schedule, key, origin=Origin.RUN_NOW, override=json.dumps(override))
        assert (tuple(message.args), dict(message.kwargs)) == ((*first, *args), {**named, **kwargs})
