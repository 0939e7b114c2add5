"""Parcels out of the queue, their task to the broker: each by one beat, none for nobody, none that blocks others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.dispatch.deliveries import TASK, DeliveryDesk, message_of
from celery_parrot.dispatch.stores import Stores
from celery_parrot.errors import Unreachable
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import About, DeliveryReport, Due, Message, Parcel, SendResult, SendStatus
from celery_parrot.testing import FakeClock, RecordingEvents, RecordingSender
from celery_parrot.triggers import build
from tests.unit.delivery.stories import DUE, parcel

HOOK = {"type": "webhook", "url": "https://h.example/s3cret", "secret": "whsec_s3cret"}


class Queue:
    """A coordinator's queue, as the protocol has it."""

    def __init__(self, *parcels: Parcel) -> None:
        self.parcels_ = {one.id: one for one in parcels}
        self.taken: dict[str, str] = {}
        self.reports: list[DeliveryReport] = []
        self.asked = 0
        self.down = False

    def queue_parcels(self, parcels: Sequence[Parcel]) -> None:
        self.parcels_.update({one.id: one for one in parcels})

    def parcels(self, owner: str, limit: int, after: str = "") -> Sequence[Parcel]:
        self.asked += 1
        if self.down:
            raise Unreachable("down")
        ordered = sorted(self.parcels_.values(), key=lambda one: (one.queued_at, one.id))
        ids = [one.id for one in ordered]
        first = ids.index(after) + 1 if after in ids else 0
        return [one for one in ordered[first:] if self.taken.get(one.id, owner) == owner][:limit]

    def take_parcels(self, owner: str, ids: Sequence[str]) -> Sequence[bool]:
        return [id_ in self.parcels_ and self.taken.setdefault(id_, owner) == owner for id_ in ids]

    def parcels_sent(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            self.parcels_.pop(id_, None)

    def report(self, reports: Sequence[DeliveryReport]) -> None:
        self.reports.extend(reports)


class Known:
    """A store that knows these schedules."""

    name = "code"

    def __init__(self, *schedules: Schedule) -> None:
        self._due = {
            one.schedule_id: Due(one, build("interval", {"hours": 1}), DUE) for one in schedules
        }  # fmt: skip

    def definitions(self, ids: Sequence[str]) -> dict[str, Due]:
        return {id_: self._due[id_] for id_ in ids if id_ in self._due}


def schedule(id_: str = "nightly-id", **told: Any) -> Schedule:
    return Schedule(schedule_id=id_, name=id_, target="t", schedule_type="interval", schedule_config={}, **told)


class World:
    def __init__(self, *parcels: Parcel, schedules: Sequence[Schedule] = ()) -> None:
        self.clock, self.sender = FakeClock(DUE), RecordingSender()
        self.queue = Queue(*parcels)
        known: Any = Known(*(schedules or (schedule(callbacks=(HOOK,)),)))
        self.stores = Stores([known], RecordingEvents(), self.clock)

    def desk(self, owner: str = "one", sender: Any = None) -> DeliveryDesk:
        return DeliveryDesk(self.queue, self.stores, sender or self.sender, self.clock, owner, "mail")

    @property
    def sent(self) -> list[Message]:
        return list(self.sender.sent)


def test_a_parcel_becomes_one_task() -> None:
    """On its queue, with what its schedule says today; then it is out of the queue."""
    world = World(parcel())
    desk = world.desk()
    desk.run(DUE)
    world.clock.advance(1)
    desk.run(DUE)
    (message,) = world.sent
    assert (message.task, message.options["queue"]) == (TASK, "mail")
    assert message.kwargs["callbacks"] == [HOOK]
    assert Parcel.from_json(message.kwargs["parcel"]) == parcel()
    assert world.queue.parcels_ == {}


def test_the_task_id_follows_from_the_parcel() -> None:
    """Two beats that send it twice send one task. What monitors show of it holds no secret."""
    messages = [message_of(parcel(), schedule(callbacks=(HOOK,)), None) for _ in range(2)]
    assert messages[0] == messages[1]
    assert messages[0] is not None
    other = message_of(parcel(About.FAILURE), schedule(failure_callbacks=(HOOK,)), None)
    assert other is not None
    assert other.task_id != messages[0].task_id
    assert "s3cret" not in str(messages[0].options)


def test_two_beats_send_it_once() -> None:
    """Both read it before either took it."""
    world = World(parcel())
    first, second = world.desk("one"), world.desk("two")
    take = world.queue.take_parcels

    def late(owner: str, ids: Sequence[str]) -> Sequence[bool]:
        world.queue.take_parcels = take  # type: ignore[method-assign]
        second.run(DUE)
        return take(owner, ids)

    world.queue.take_parcels = late  # type: ignore[method-assign]
    first.run(DUE)
    assert len(world.sent) == 1


@pytest.mark.parametrize(
    ("about", "field"),
    [
        (About.SUCCESS, "callbacks"),
        (About.SUCCESS, "send_result"),
        (About.FAILURE, "failure_callbacks"),
        (About.MISSED, "missed_callbacks"),
    ],
)
def test_each_outcome_goes_to_its_own(about: About, field: str) -> None:
    """What its schedule wants nobody told of leaves the queue unsent."""
    told: Any = {"to": "a@b.example"} if field == "send_result" else (HOOK,)
    for other in About:
        world = World(parcel(other), schedules=[schedule(**{field: told})])
        world.desk().run(DUE)
        assert len(world.sent) == (other in (about, About.ALERT))
        assert world.queue.parcels_ == {}


def test_an_alert_needs_no_schedule() -> None:
    """It may be gone; its callbacks are not asked for."""
    world = World(parcel(About.ALERT), schedules=[schedule("other")])
    world.desk().run(DUE)
    (message,) = world.sent
    assert (message.kwargs["callbacks"], message.kwargs["send_result"]) == ([], {})


def test_what_this_beat_does_not_know_is_left_to_others_for_a_day() -> None:
    """And stands in nobody's way, however many there are."""
    strange = [
        replace(parcel(), id=f"strange-{number}", key=replace(parcel().key, schedule_id="strange"))
        for number in range(750)
    ]
    world = World(*strange, replace(parcel(), queued_at=DUE + timedelta(seconds=1)))
    desk = world.desk()
    for _ in range(2):
        desk.run(DUE + timedelta(days=1))
        world.clock.advance(1)
    assert len(world.sent) == 1
    assert len(world.queue.parcels_) == 750
    for _ in range(2):
        desk.run(DUE + timedelta(days=1, seconds=1))
        world.clock.advance(1)
    assert world.queue.parcels_ == {}
    assert len(world.sent) == 1


@pytest.mark.parametrize("status", [SendStatus.FAILED, SendStatus.NOT_TRIED])
def test_what_did_not_reach_the_broker_is_sent_later(status: SendStatus) -> None:
    """After a pause, by the same beat."""

    class Away(RecordingSender):
        def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
            return [SendResult(status, "away") for _ in messages]

    world = World(parcel())
    away = Away()
    world.desk("one", away).run(DUE)
    assert len(world.queue.parcels_) == 1
    world.clock.advance(5)
    world.desk("one").run(DUE)
    assert len(world.sent) == 1


def test_what_can_never_be_sent_has_failed_and_says_so() -> None:
    """Instead of being tried for ever."""

    class Broken(RecordingSender):
        def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
            return [SendResult(SendStatus.BROKEN, "no such exchange") for _ in messages]

    world = World(parcel())
    world.desk("one", Broken()).run(DUE)
    (report,) = world.queue.reports
    assert (report.status, report.callbacks[0].error) == ("failed", "no such exchange")
    assert world.queue.parcels_ == {}


def test_the_queue_is_asked_twice_a_second() -> None:
    world = World()
    desk = world.desk()
    for _ in range(20):
        desk.run(DUE)
        world.clock.advance(0.1)
    assert 3 <= world.queue.asked <= 5


def test_a_coordinator_that_is_away_is_told_to_the_tick() -> None:
    """Which knows what to do, and says it once."""
    world = World(parcel())
    world.queue.down = True
    with pytest.raises(Unreachable):
        world.desk().run(DUE)


def test_an_alert_is_an_event_once() -> None:
    """However often it has to be sent; with the last error, and no arguments."""
    world = World(replace(parcel(About.ALERT), failures=3, error="ValueError: no"))
    heard = RecordingEvents()
    desk = DeliveryDesk(world.queue, world.stores, world.sender, world.clock, "b1", None, heard)
    world.sender.down = "the broker is away"
    for _ in range(3):
        desk.run(DUE)
        world.clock.advance(5)
    (said,) = heard.named("schedule-disabled")
    assert said.fields["failures"] == 3
    assert said.fields["error"] == "ValueError: no"
    assert "ValueError: no" in said.text
