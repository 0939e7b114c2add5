"""Failures in a row and missed due times of rows, over whole ticks: disabled, told once, whoever dies in between."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.dispatch.deliveries import TASK
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.model import events
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.protocols import (
    About,
    CallbackReport,
    Delivery,
    DeliveryReport,
    DeliveryStatus,
    Lease,
    Message,
    Outcome,
    Parcel,
)
from celery_parrot.protocols.editing import State
from celery_parrot.testing import ManualBeat, RecordingEvents
from celery_parrot.testing.conformance.schedule_store import make
from tests.integration.ledgers.scene import Died, OnRedis, die, settle, store_of, wire_of

EVERY = 5
HOOK = {"type": "file", "path": "told.txt"}


def add(scene: OnRedis, **changes: Any) -> str:
    """Due every five seconds, the first time two seconds from now; its id."""
    offset = (scene.now().timestamp() + 2) % EVERY
    config = {"seconds": EVERY, "offset": offset}
    schedule = make("a", kind="agent", schedule_config=config, store=scene.store.name, **changes)
    scene.store.insert([schedule])
    return schedule.schedule_id


class Worker:
    """Runs what was sent, once each, and ends it as told."""

    def __init__(self, scene: OnRedis) -> None:
        self.scene, self.coordinator = scene, scene.coordinator()
        self.done: set[str] = set()

    def fires(self) -> list[Message]:
        return [message for message in self.scene.sent() if message.task != TASK]

    def work(self, status: Status) -> None:
        for message in self.fires():
            if message.task_id in self.done:
                continue
            self.done.add(message.task_id)
            header = message.headers[HEADER]
            key = FireKey(header["schedule_id"], datetime.fromisoformat(header["due_at"]))
            token = message.task_id
            self.coordinator.start([Delivery(key=key, name="a", kind="agent", token=token, worker="w")])
            error = None if status is Status.SUCCESS else "ValueError: no"
            self.coordinator.finish([Outcome(lease=Lease(key, token), status=status, error=error)])


def run(scene: OnRedis, worker: Worker, seconds: int, status: Status, *beats: ManualBeat) -> None:
    for _ in range(seconds):
        scene.run(1, *beats)
        worker.work(status)


def told(scene: OnRedis) -> dict[str, Parcel]:
    """What delivery tasks were sent of, by their task id."""
    return {
        message.task_id: Parcel.from_json(message.kwargs["parcel"]) for message in scene.sent() if message.task == TASK
    }


def about(scene: OnRedis, what: About) -> list[Parcel]:
    return sorted((one for one in told(scene).values() if one.about is what), key=lambda one: one.due_at)


def test_a_row_that_keeps_failing(rows: OnRedis) -> None:
    """Fires three times, alerts once, and never again, not by a beat that starts later; until it is resumed."""
    schedule_id = add(rows, failure_callbacks=(HOOK,))
    rows.beat(), rows.beat()
    worker = Worker(rows)
    run(rows, worker, 3 * EVERY + 2, Status.ERROR)
    run(rows, worker, 3 * EVERY, Status.ERROR)
    stored = rows.store.get([schedule_id])[0]
    assert (stored.state, stored.held) == (State.DISABLED, "failures")
    assert "ValueError: no" in stored.note
    assert len(worker.fires()) == 3
    (alert,) = about(rows, About.ALERT)
    assert (alert.failures, alert.error) == (3, "ValueError: no")
    assert len(about(rows, About.FAILURE)) == 3
    said = [one for beat in rows.beats for one in _events(beat).named(events.SCHEDULE_DISABLED)]
    assert [(one.fields["schedule"], one.fields["failures"]) for one in said] == [("a", 3)]
    late = rows.beat()
    run(rows, worker, 2 * EVERY, Status.ERROR, late)
    assert len(worker.fires()) == 3
    rows.store.release([schedule_id])
    run(rows, worker, 2 * EVERY, Status.SUCCESS)
    assert rows.store.get([schedule_id])[0].run_state.last_status == "success"


def _events(beat: ManualBeat) -> RecordingEvents:
    assert isinstance(beat.events, RecordingEvents)
    return beat.events


@pytest.mark.parametrize("call", ["record", "carried", "owed", "queue_parcels", "settled"])
def test_a_beat_that_dies_on_the_way_of_an_alert(sqlite: OnRedis, call: str) -> None:
    """Another brings it on; it is one alert with one id."""
    schedule_id = add(sqlite)
    first, second = sqlite.beat(), sqlite.beat()
    worker = Worker(sqlite)
    while len(worker.fires()) < 3:
        run(sqlite, worker, 1, Status.ERROR)
    hooked = store_of(first) if call in ("record", "owed", "settled") else wire_of(first)
    hooked.after(call, die)
    with pytest.raises(Died):
        sqlite.run(5, first)
    run(sqlite, worker, 6, Status.ERROR, second)
    assert sqlite.store.get([schedule_id])[0].held == "failures"
    assert len(about(sqlite, About.ALERT)) == 1
    assert sqlite.store.owed() == []


def test_missed_due_times(rows: OnRedis) -> None:
    """One delivery for the whole range."""
    add(rows, missed_callbacks=(HOOK,), policy=Policy(missed=Missed.COALESCE, misfire_grace=None))
    rows.store.due(rows.now(), ["agent"], 10)
    rows.advance(60)
    rows.beat()
    rows.run(3)
    (missed,) = about(rows, About.MISSED)
    assert (missed.count, missed.reason) == (11, "coalesced")
    assert missed.until == missed.due_at + timedelta(seconds=10 * EVERY)


def test_what_was_told_reaches_the_row(rows: OnRedis) -> None:
    """Within a second."""
    schedule_id = add(rows, callbacks=(HOOK,))
    beat = rows.beat()
    worker = Worker(rows)
    run(rows, worker, EVERY, Status.SUCCESS)
    settle(beat)
    rows.run(1)
    parcel = about(rows, About.SUCCESS)[0]
    report = DeliveryReport(
        parcel_id=parcel.id,
        fire_id=parcel.fire_id,
        key=parcel.key,
        about=parcel.about,
        status=DeliveryStatus.DELIVERED,
        callbacks=(CallbackReport(callback="file", status=DeliveryStatus.DELIVERED, tries=1),),
    )
    worker.coordinator.report([report])
    rows.run(1)
    state = rows.store.get([schedule_id])[0].run_state
    assert (state.last_delivery_status, [one["callback"] for one in state.last_callbacks]) == ("delivered", ["file"])
    (entry,) = [one for one in rows.store.fires(schedule_id) if one.key == parcel.key]
    assert entry.delivery["success"]["status"] == "delivered"
