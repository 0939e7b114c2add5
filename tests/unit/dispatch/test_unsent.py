"""Fires that hold their limits while no beat can send them, and those that only the broker keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.model import events
from celery_parrot.model.fire import Status
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import Lease, StartVerdict
from celery_parrot.stores.memory import CodeStore, Definition
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import NAMESPACE, Rig, broker, delivery_of, every, sent, told

DUE = 3600.0
"""Seconds after the start of the clock."""
AGENT = {"agent": Kind(name="agent", task="t.agent")}


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _beat(
    rig: Rig, owner: str, *definitions: Definition, kinds: Mapping[str, Kind] = AGENT, room: int = 1
) -> ManualBeat:
    return ManualBeat(
        rig.coordinator.client(),
        [CodeStore(definitions)],
        clock=rig.clock,
        namespace=NAMESPACE,
        owner=owner,
        kinds=kinds,
        bounds=Bounds(groups={"gpu": room}),
        settings=TickSettings(),
    )


def _gpu(name: str, kind: str = "task", at: float = DUE) -> Definition:
    definition = every(86400, name, offset=36000 + at, exclusion_group="gpu", misfire_grace=None)
    return replace(definition, schedule=replace(definition.schedule, kind=kind))


@pytest.mark.parametrize("gone", ["its schedule", "its kind"])
def test_whose_schedule_or_kind_left_in_a_deployment_holds_its_group_until_its_wait_deadline(
    rig: Rig, gone: str
) -> None:
    """It is named when nobody knows it any more. Who waits behind it is sent then, and a person is told."""
    first, second, third = _gpu("a"), _gpu("b", "agent"), _gpu("c", at=DUE + 300)
    a, b, c = rig.key(DUE, "a"), rig.key(DUE, "b"), rig.key(DUE + 300, "c")
    before = _beat(rig, "B1", first, second, third)
    before.tick()
    rig.clock.advance(DUE)
    before.tick()
    delivery = delivery_of(a, "W1#1")
    assert rig.start(delivery).verdict is StartVerdict.RUN
    for _ in range(31):
        rig.keep_touched(10, before, step=1.0)
        assert rig.coordinator.renew_leases([Lease(a, "W1#1")]) == [True]
    assert sent(before) == [a]
    before.close()

    known = (first, third) if gone == "its schedule" else (first, second, third)
    after = _beat(rig, "B2", *known, kinds={} if gone == "its kind" else AGENT)
    rig.finish(delivery)
    rig.keep_touched(580, after, step=1.0)
    assert (rig.status(b), rig.status(c)) == (Status.PENDING, Status.WAITING)
    rig.keep_touched(15, after, step=1.0)
    record = rig.record(b)
    assert (record.status, record.reason, record.started_at) == (Status.MISSED, "too_late", None)
    (text,) = told(after, events.FIRE_MISSED)
    assert text.endswith("not sent by its wait deadline: no beat knows its schedule or serves its kind")
    assert sent(after) == [c]


def test_what_only_the_broker_keeps_is_sent_when_it_is_back(rig: Rig) -> None:
    """Twenty hold their limits, and one at a time is tried: those whose turn to be tried is far are no strangers."""
    beat = _beat(rig, "B1", *(_gpu(f"s{n:02}") for n in range(20)), room=20)
    beat.tick()
    broker(beat, down="gone")
    rig.clock.advance(DUE)
    beat.run(1500)
    assert told(beat, events.FIRE_MISSED) == []
    broker(beat)
    beat.run(10)
    assert len(sent(beat)) == 20
