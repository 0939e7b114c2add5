"""Beats, workers and a coordinator through hours of a fake clock: who holds what, who waits, who is ended and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.model import events
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import Delivery, Lease, Progress, StartVerdict
from celery_parrot.stores.memory import CodeStore, Definition
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import NAMESPACE, Rig, delivery_of, every, key_of, sent, told

AGENT = Kind(name="agent", task="t.agent")
STEP = 1.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _beat(rig: Rig, *definitions: Definition, kinds: Mapping[str, Kind] | None = None) -> ManualBeat:
    beat = ManualBeat(
        rig.coordinator.client(),
        [CodeStore(definitions)],
        clock=rig.clock,
        namespace=NAMESPACE,
        owner="B1",
        kinds=kinds or {"agent": AGENT},
        bounds=Bounds(),
        settings=TickSettings(),
    )
    beat.tick()
    return beat


def _agent(definition: Definition, **options: Any) -> Definition:
    return replace(definition, schedule=replace(definition.schedule, kind="agent", options=options))


def _pass(rig: Rig, beat: ManualBeat, seconds: float, *keep: Callable[[], object]) -> None:
    """Tick through ``seconds``; ``keep`` is done every 5 of them, as a worker renews its leases."""
    for step in range(round(seconds / STEP)):
        rig.clock.advance(STEP)
        beat.tick()
        if step % 5 == 0:
            for do in keep:
                do()


def _opened(rig: Rig, beat: ManualBeat, key: FireKey, token: str = "W1#1", **more: Any) -> Delivery:
    """A worker opens the fire as its newest message says."""
    message = next(message for message in reversed(beat.sent) if key_of(message) == key)
    attempt = message.headers["parrot"]["attempt"]
    delivery = delivery_of(key, token, attempt=attempt, **more)
    assert rig.start(delivery).verdict is StartVerdict.RUN
    return delivery


def _renew(rig: Rig, delivery: Delivery, progress: Progress | None = None) -> Callable[[], object]:
    return lambda: rig.coordinator.renew_leases([Lease(delivery.key, delivery.token, progress)])


@pytest.mark.parametrize("reports", [True, False])
def test_a_run_of_two_hours_lives_by_its_progress(rig: Rig, reports: bool) -> None:
    """Its threshold is 15 minutes. Renewing its lease alone is no sign of progress."""
    beat = _beat(rig, _agent(every(86400, exclusion_group="gpu")), _agent(every(86400, "t", exclusion_group="gpu")))
    first, second = rig.key(50400, "s"), rig.key(50400, "t")
    rig.clock.advance(50400)
    beat.tick()
    delivery = _opened(rig, beat, first, silent_after=900.0)
    _pass(rig, beat, 2 * 3600, _renew(rig, delivery, Progress("going on") if reports else None))
    if reports:
        assert rig.status(first) is Status.RUNNING
        assert rig.record(second).reason == "expired waiting for group gpu"
        assert sent(beat) == [first]
    else:
        record = rig.record(first)
        assert (record.status, record.reason) == (Status.ABANDONED, "silent")
        assert record.finished_at is not None
        assert 900 <= (record.finished_at - rig.at(50400)).total_seconds() <= 902
        (text,) = told(beat, events.FIRE_REAPED)
        assert "abandoned: silent, worker W1" in text


def test_a_fire_queued_for_twenty_minutes_keeps_its_limits(rig: Rig) -> None:
    """Its ETA is that far away: its deadline counts from there, and nobody else gets what it holds."""
    beat = _beat(
        rig, _agent(every(3600, exclusion_group="gpu"), countdown=1200), every(3600, "t", exclusion_group="gpu")
    )
    rig.clock.advance(3600)
    beat.tick()
    _pass(rig, beat, 1200)
    assert sent(beat) == [rig.key(3600)]
    assert rig.record(rig.key(3600, "t")).status is Status.ERROR  # it waited for longer than its 900 s
    delivery = _opened(rig, beat, rig.key(3600))
    (state,) = rig.coordinator.limits()
    assert [holder.fire.key for holder in state.holders] == [delivery.key]


def test_who_waits_for_too_long_ends_with_an_error_that_names_the_group(rig: Rig) -> None:
    """And never ran; the one that holds it is not concerned."""
    beat = _beat(rig, every(3600, "f", exclusion_group="gpu"), every(3600, "g", exclusion_group="gpu"))
    rig.clock.advance(3600)
    beat.tick()
    delivery = _opened(rig, beat, rig.key(3600, "f"))
    _pass(rig, beat, 899, _renew(rig, delivery))
    assert rig.status(rig.key(3600, "g")) is Status.WAITING
    _pass(rig, beat, 3, _renew(rig, delivery))
    record = rig.record(rig.key(3600, "g"))
    assert (record.status, record.reason) == (Status.ERROR, "expired waiting for group gpu")
    assert record.started_at is None
    (text,) = told(beat, events.FIRE_EXPIRED)
    assert "error (expired waiting for group gpu): it was never started" in text
    assert rig.status(rig.key(3600, "f")) is Status.RUNNING


def test_a_fire_that_nobody_starts_gives_its_turn_away_at_its_deadline(rig: Rig) -> None:
    kinds = {"agent": replace(AGENT, reap_after=60.0)}
    beat = _beat(
        rig, _agent(every(3600, "f", exclusion_group="gpu")), every(3600, "g", exclusion_group="gpu"), kinds=kinds
    )
    rig.clock.advance(3600)
    beat.tick()
    _pass(rig, beat, 62)
    record = rig.record(rig.key(3600, "f"))
    assert (record.status, record.reason) == (Status.EXPIRED, "queue deadline")
    assert sent(beat) == [rig.key(3600, "f"), rig.key(3600, "g")]
    assert len(told(beat, events.FIRE_EXPIRED)) == 1


def test_a_dead_workers_turn_passes_on_within_its_lease_and_a_second(rig: Rig) -> None:
    """Its late twin cannot release the successor."""
    beat = _beat(rig, every(3600, "f", exclusion_group="gpu"), every(3600, "g", exclusion_group="gpu"))
    rig.clock.advance(3600)
    beat.tick()
    delivery = _opened(rig, beat, rig.key(3600, "f"))
    _pass(rig, beat, 16)
    f, g = rig.key(3600, "f"), rig.key(3600, "g")
    assert sent(beat) == [f, g]
    assert rig.record(f).reason == "worker lost"
    _opened(rig, beat, g, "W2#1")
    rig.finish(delivery)
    (state,) = rig.coordinator.limits()
    assert [holder.fire.key for holder in state.holders] == [g]


def test_a_fire_that_recovers_is_sent_once_more_and_asks_for_its_turn_again(rig: Rig) -> None:
    """However long it ran: it was in time once. Behind one that is due earlier, before one that came later."""
    definitions = [every(3600, name, exclusion_group="gpu", recover=name == "f", misfire_grace=10.0) for name in "fg"]
    beat = _beat(rig, *definitions)
    rig.clock.advance(3600)
    beat.tick()
    f, g = rig.key(3600, "f"), rig.key(3600, "g")
    delivery = _opened(rig, beat, f)
    _pass(rig, beat, 60, _renew(rig, delivery))
    _pass(rig, beat, 17)
    assert sent(beat) == [f, g]
    assert "worker lost; sent again as attempt 2" in told(beat, events.FIRE_REAPED)[0]
    assert rig.status(f) is Status.WAITING
    other = _opened(rig, beat, g, "W2#1")
    rig.finish(other)
    _pass(rig, beat, 2)
    assert sent(beat) == [f, g, f]
    assert beat.sent[-1].headers["parrot"]["attempt"] == 2
    _opened(rig, beat, f, "W2#2")
    _pass(rig, beat, 17)
    assert rig.record(f).status is Status.ABANDONED
    assert len(sent(beat)) == 3


def test_a_recovered_fire_was_in_time_once(rig: Rig) -> None:
    """However long the run was that died, and however short its grace."""
    beat = _beat(rig, every(3600, recover=True, misfire_grace=10.0))
    rig.clock.advance(3600)
    beat.tick()
    delivery = _opened(rig, beat, rig.key(3600))
    _pass(rig, beat, 60, _renew(rig, delivery))
    _pass(rig, beat, 60)
    assert sent(beat) == [rig.key(3600)] * 2
    assert rig.status(rig.key(3600)) is Status.SENT


def test_a_kind_that_is_due_each_second_and_takes_three(rig: Rig) -> None:
    """One runs at any time; the others are skips."""
    kinds = {"agent": replace(AGENT, max_in_flight=1)}
    beat = _beat(rig, _agent(every(1)), kinds=kinds)
    running: list[tuple[Delivery, int]] = []
    for second in range(1, 31):
        rig.clock.advance(1)
        for delivery, since in list(running):
            if second - since >= 3:
                rig.finish(delivery)
                running.remove((delivery, since))
        before = len(beat.sent)
        beat.tick()
        for message in beat.sent[before:]:
            running.append((_opened(rig, beat, key_of(message), f"W1#{second}"), second))
        assert len(running) == 1
    assert len(beat.sent) == 10
    records = rig.coordinator.fires("s")
    skipped = [record for record in records if record.reason == "in flight"]
    assert len(skipped) == 20
    assert {record.status for record in skipped} == {Status.SUCCESS}
    assert len(told(beat, events.FIRE_SKIPPED)) == 20
