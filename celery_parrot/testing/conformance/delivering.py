"""The queue of what is to be told to somebody: what queues a parcel, who takes it, what is reported of it.

    class TestMine(DeliveringConformance):
        @pytest.fixture
        def backend(self) -> Backend: ...

The coordinator is a :class:`~celery_parrot.protocols.Deliveries` as well.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.plan import NotFired, Verdict
from celery_parrot.protocols import (
    WORKER_LOST,
    About,
    Busy,
    CallbackReport,
    DeliveryStatus,
    Drop,
    FinishVerdict,
    Grant,
    Lease,
    Limit,
    LimitRequest,
    Memory,
    Outcome,
    Parcel,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, near
from celery_parrot.testing.conformance.telling import TellingScene, told

SUCCESS, FAILURE, MISSED = About.SUCCESS, About.FAILURE, About.MISSED
DELIVERED, RETRYING, FAILED = DeliveryStatus.DELIVERED, DeliveryStatus.RETRYING, DeliveryStatus.FAILED


class Telling(Conformance):
    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> TellingScene:
        return TellingScene(coordinator, backend)


class Queueing(Telling):
    """What queues a parcel, in the very step that records it."""

    def test_a_success(self, scene: TellingScene) -> None:
        """The parcel says what the history says."""
        scene.ended(1, output='{"ünï": "\U0001f99c"}', reason="why")
        (parcel,) = scene.queue()
        record = scene.record(1)
        assert parcel == Parcel(
            id=f"{record.fire_id}:success",
            fire_id=record.fire_id,
            key=scene.key(1),
            name="a",
            about=SUCCESS,
            queued_at=parcel.queued_at,
            status=Status.SUCCESS,
            reason="why",
            output='{"ünï": "\U0001f99c"}',
            sent_at=record.sent_at,
            started_at=record.started_at,
            finished_at=record.finished_at,
        )
        assert near(parcel.queued_at, scene.now())

    @pytest.mark.parametrize("status", [Status.ERROR, Status.TARGET_MISSING])
    def test_a_failure(self, scene: TellingScene, status: Status) -> None:
        """With how many it is in a row, and since when."""
        scene.ended(1, status, error="ValueError: x")
        first = scene.record(1).finished_at
        scene.pass_time(2)
        scene.ended(2, status, error="ValueError: y")
        one, two = scene.queue()
        assert (one.about, one.status, one.error, one.failures, one.failing_since) == (
            FAILURE, status, "ValueError: x", 1, first,
        )  # fmt: skip
        assert (two.error, two.failures, two.failing_since) == ("ValueError: y", 2, first)

    def test_a_failure_that_does_not_count_is_told(self, scene: TellingScene) -> None:
        scene.ended(1, Status.ERROR, reason="revoked", counted=False)
        (parcel,) = scene.queue()
        assert (parcel.about, parcel.reason, parcel.failures) == (FAILURE, "revoked", 0)

    @pytest.mark.parametrize(
        ("tells", "status"),
        [
            ((), Status.SUCCESS),
            ((), Status.ERROR),
            (("failure", "missed"), Status.SUCCESS),
            (("missed", "success"), Status.ERROR),
            (("failure", "missed", "success"), Status.EXPIRED),
            (("failure", "missed", "success"), Status.SKIPPED),
        ],
    )
    def test_what_nobody_wants_to_know(self, scene: TellingScene, tells: tuple[str, ...], status: Status) -> None:
        scene.started(1, tells=tells)
        scene.finish(1, "t1", status)
        assert scene.queue() == []

    def test_an_attempt_that_goes_on_tells_nobody(self, scene: TellingScene) -> None:
        """Only the last one does."""
        scene.started(1)
        assert scene.finish(1, "t1", Status.SENT).verdict is FinishVerdict.RECORDED
        assert scene.queue() == []
        scene.start(1, "t2", retries=1)
        scene.finish(1, "t2")
        (parcel,) = scene.queue()
        assert parcel.attempt == 2

    def test_a_lost_reply(self, scene: TellingScene) -> None:
        """The repeat of an outcome queues nothing more, and a late one nothing at all."""
        scene.ended(1)
        scene.finish(1, "t1")
        scene.finish(1, "t9", Status.ERROR, error="late")
        assert scene.queued() == [(1, SUCCESS)]

    def test_one_that_was_abandoned(self, scene: TellingScene) -> None:
        scene.started(1)
        scene.pass_time(TIMING.lease + 1)
        assert len(scene.c.reap()) == 1
        (parcel,) = scene.queue()
        assert (parcel.about, parcel.status, parcel.reason) == (FAILURE, Status.ABANDONED, WORKER_LOST)

    def test_one_that_is_sent_once_more(self, scene: TellingScene) -> None:
        """It is not over yet; what comes of it then is told."""
        scene.started(1, recover=True)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        assert reaped.again
        assert scene.queue() == []
        fire = scene.send_again(1)
        scene.start(1, "t2", attempt=fire.attempt)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        (parcel,) = scene.queue()
        assert (parcel.status, parcel.attempt) == (Status.ABANDONED, 2)

    @pytest.mark.parametrize(
        ("status", "about"), [(Status.ERROR, FAILURE), (Status.MISSED, MISSED), (Status.SKIPPED, None)]
    )
    def test_one_that_is_dropped(self, scene: TellingScene, status: Status, about: About | None) -> None:
        scene.register()
        scene.commit(1, tells=("failure", "missed", "success"))
        assert list(scene.c.drop([Drop(hold=scene.hold(1), status=status, reason="why")])) == [True]
        assert [(one.about, one.status, one.reason) for one in scene.queue()] == (
            [] if about is None else [(about, status, "why")]
        )

    def test_an_in_flight_skip(self, scene: TellingScene) -> None:
        """A success that ran nothing."""
        scene.register()
        scene.commit(1, 2, tells=("success",))
        limits: Any = scene.c
        asked = [
            LimitRequest(hold=scene.hold(n), limits=(Limit("kind:task", busy=Busy.SKIP),)) for n in (1, 2)
        ]  # fmt: skip
        assert [reply.grant for reply in limits.request(asked)] == [Grant.GRANTED, Grant.SKIPPED]
        assert scene.status(2) is Status.SUCCESS
        assert scene.queue() == []

    def test_missed_ranges(self, scene: TellingScene) -> None:
        """One parcel a range, by the first of its due times."""
        ranges = (
            NotFired(Status.MISSED, "too_late", scene.due(1), scene.due(3), 3),
            NotFired(Status.MISSED, "coalesced", scene.due(4), scene.due(4), 1),
            NotFired(Status.SKIPPED, "paused", scene.due(5), scene.due(6), 2),
        )
        scene.register()
        assert scene.commit(7, not_fired=ranges, tells=("missed",)).verdict is Verdict.COMMITTED
        found = sorted(scene.queue(), key=lambda one: one.due_at)
        assert [(one.due_at, one.until, one.count, one.reason, one.about, one.status) for one in found] == [
            (scene.due(1), scene.due(3), 3, "too_late", MISSED, Status.MISSED),
            (scene.due(4), None, 1, "coalesced", MISSED, Status.MISSED),
        ]
        assert [(one.id, one.fire_id) for one in found] == [
            (f"{scene.record(n).fire_id}:missed", scene.record(n).fire_id) for n in (1, 4)
        ]

    def test_ranges_of_a_plan_that_lost(self, scene: TellingScene) -> None:
        scene.register()
        gone = NotFired(Status.MISSED, "too_late", scene.due(1), scene.due(1), 1)
        assert scene.commit(2, not_fired=[gone], tells=("missed",), mark=1).verdict is Verdict.MOVED
        scene.commit(2, not_fired=[gone], tells=("success",))
        assert scene.queue() == []

    def test_a_message_alone(self, scene: TellingScene) -> None:
        """Nobody knows what its schedule wants: it is looked at later."""
        scene.register()
        scene.start(1)
        scene.finish(1)
        scene.start(2, "t2")
        scene.finish(2, "t2", Status.ERROR)
        assert sorted(scene.queued()) == [(1, SUCCESS), (2, FAILURE)]

    def test_a_loss_of_memory(self, scene: TellingScene, backend: Backend) -> None:
        """What is put back is told as it would have been."""
        mark = scene.register()
        scene.commit(1, tells=("success",))
        mirror = scene.sweep().entries
        backend.flush()
        scene.c.remember(Memory(marks=(mark,), outbox=mirror))
        scene.pass_time(TIMING.lease + 1)
        assert scene.fire(1).tells == ("success",)
        assert scene.start(1, "t1").verdict == "run"
        scene.finish(1, "t1")
        assert scene.queued() == [(1, SUCCESS)]


class Taking(Telling):
    """Whose a parcel is, and for how long."""

    def test_order_and_pages(self, scene: TellingScene) -> None:
        """Oldest first, then by id; a page goes on where the last ended."""
        scene.parcels.queue_parcels([scene.parcel(n) for n in (3, 1)])
        scene.pass_time(1)
        scene.parcels.queue_parcels([scene.parcel(n) for n in (2, 5, 4)])
        everything = ["f1:missed", "f3:missed", "f2:missed", "f4:missed", "f5:missed"]
        assert [one.id for one in scene.queue()] == everything
        first = scene.parcels.parcels("b1", 2)
        assert [one.id for one in first] == everything[:2]
        assert [one.id for one in scene.parcels.parcels("b1", 2, first[-1].id)] == everything[2:4]
        assert [one.id for one in scene.parcels.parcels("b1", 9, everything[4])] == []
        assert [one.id for one in scene.parcels.parcels("b1", 1, "unknown")] == everything[:1]

    def test_what_a_database_decided(self, scene: TellingScene) -> None:
        """Queued with the coordinator's clock, once, and as it was given."""
        given = scene.parcel(
            1,
            reason="too_late",
            kind="etl",
            until=scene.due(4),
            count=4,
            error='E: "ü" \U0001f99c',
            failures=3,
            failing_since=scene.due(0),
        )
        scene.parcels.queue_parcels([given])
        (found,) = scene.queue()
        assert near(found.queued_at, scene.now())
        scene.pass_time(3)
        scene.parcels.queue_parcels([given, scene.parcel(2)])
        again, _ = scene.queue()
        assert again == found
        assert (found.id, found.key, found.until, found.count, found.error, found.failures, found.failing_since) == (
            given.id, given.key, given.until, 4, given.error, 3, given.failing_since,
        )  # fmt: skip
        assert (found.kind, found.reason) == ("etl", "too_late")

    def test_one_beat_at_a_time(self, scene: TellingScene) -> None:
        """It is not shown to the others, and its own may be taken again."""
        scene.sweep("b1")
        scene.sweep("b2")
        scene.ended(1)
        (parcel,) = scene.queue()
        assert list(scene.parcels.take_parcels("b1", [parcel.id, "unknown"])) == [True, False]
        assert list(scene.parcels.take_parcels("b2", [parcel.id])) == [False]
        assert scene.queue("b2") == []
        assert scene.queue("b1") == [parcel]
        assert list(scene.parcels.take_parcels("b1", [parcel.id])) == [True]

    def test_beats_that_take_at_once(self, scene: TellingScene, backend: Backend) -> None:
        """Each parcel is one beat's."""
        for n in range(1, 9):
            scene.ended(n)
        ids = [one.id for one in scene.queue()]
        clients: list[Any] = [backend.client() for _ in range(3)]
        taken: list[list[bool]] = []
        gate = threading.Barrier(3)

        def take(index: int) -> None:
            scene_ids = ids if index % 2 else ids[::-1]
            gate.wait(10)
            answers = list(clients[index].take_parcels(f"b{index}", scene_ids))
            taken.append(answers if index % 2 else answers[::-1])

        for index in range(3):
            clients[index].sweep(scene.beat(f"b{index}"))
        threads = [threading.Thread(target=take, args=(index,)) for index in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert [sum(each) for each in zip(*taken, strict=True)] == [1] * 8
        for client in clients:
            client.close()

    def test_a_beat_that_died(self, scene: TellingScene) -> None:
        """Passes what it had taken on as soon as it is known to be gone."""
        scene.ended(1)
        scene.sweep("b1")
        (parcel,) = scene.queue()
        scene.parcels.take_parcels("b1", [parcel.id])
        scene.pass_time(TIMING.heartbeat + 0.5)
        assert scene.queue("b2") == [parcel]
        assert list(scene.parcels.take_parcels("b2", [parcel.id])) == [True]

    def test_a_beat_that_left(self, scene: TellingScene) -> None:
        scene.ended(1)
        scene.sweep("b1")
        (parcel,) = scene.queue()
        scene.parcels.take_parcels("b1", [parcel.id])
        scene.c.leave("b1")
        assert list(scene.parcels.take_parcels("b2", [parcel.id])) == [True]

    def test_a_beat_that_takes_too_long(self, scene: TellingScene) -> None:
        """Taking it again makes it young again."""
        scene.ended(1)
        (parcel,) = scene.queue()
        for step, renewed in ((0.0, True), (TIMING.takeover_after - 1, True), (TIMING.takeover_after - 1, False)):
            self._live(scene, step)
            if renewed:
                scene.parcels.take_parcels("b1", [parcel.id])
            assert scene.queue("b2") == []
        self._live(scene, 1.5)
        assert list(scene.parcels.take_parcels("b2", [parcel.id])) == [True]
        assert list(scene.parcels.take_parcels("b1", [parcel.id])) == [False]

    @staticmethod
    def _live(scene: TellingScene, seconds: float) -> None:
        while seconds > 0:
            scene.pass_time(min(seconds, 1.0))
            scene.sweep("b1")
            seconds -= 1.0

    def test_after_a_silence_nobody_is_judged(self, scene: TellingScene) -> None:
        scene.ended(1)
        scene.sweep("b1")
        (parcel,) = scene.queue()
        scene.parcels.take_parcels("b1", [parcel.id])
        scene.backend.advance(60)
        assert scene.queue("b2") == []
        assert list(scene.parcels.take_parcels("b2", [parcel.id])) == [False]

    def test_while_quiet_nothing_is_handed_out(self, scene: TellingScene, backend: Backend) -> None:
        backend.flush()
        scene.c.remember(Memory())
        scene.parcels.queue_parcels([scene.parcel()])
        assert list(scene.parcels.take_parcels("b1", ["f1:missed"])) == [False]
        scene.pass_time(TIMING.lease + 1)
        assert list(scene.parcels.take_parcels("b1", ["f1:missed"])) == [True]

    def test_sent(self, scene: TellingScene) -> None:
        """Out of the queue, once and for all; an id is good once."""
        scene.ended(1)
        scene.parcels.queue_parcels([scene.parcel(2)])
        ids = [one.id for one in scene.queue()]
        assert list(scene.parcels.take_parcels("b1", ids)) == [True, True]
        scene.parcels.parcels_sent([*ids, "unknown"])
        scene.parcels.parcels_sent(ids)
        assert scene.queue() == []
        assert list(scene.parcels.take_parcels("b1", ids)) == [False, False]
        scene.finish(1, "t1")
        scene.parcels.queue_parcels([scene.parcel(2)])
        scene.pass_time(TIMING.takeover_after + 1)
        assert scene.queue() == []

    def test_names_do_not_meet(self, scene: TellingScene, foreign: Any) -> None:
        foreign.attach()
        scene.ended(1)
        (parcel,) = scene.queue()
        assert list(foreign.parcels("b1", 9)) == []
        assert list(foreign.take_parcels("b1", [parcel.id])) == [False]
        foreign.parcels_sent([parcel.id])
        assert scene.queue() == [parcel]


class Reporting(Telling):
    """What became of parcels."""

    def test_a_report(self, scene: TellingScene) -> None:
        """In the run state and in the history entry, and nothing else changes."""
        scene.ended(1, output="42")
        before, state = scene.record(1), scene.state()
        callbacks = [
            CallbackReport(callback="webhook https://example.org", status=DELIVERED, at=scene.due(1), tries=1),
            CallbackReport(callback="mine", status=FAILED, error="E: ü", at=scene.due(1), tries=3),
        ]
        scene.report(1, status=DeliveryStatus.PARTIAL, tries=3, callbacks=callbacks)
        after, told_ = scene.record(1), scene.state()
        assert (told_.last_delivery_status, list(told_.last_callbacks)) == (
            "partial", [one.to_json() for one in callbacks],
        )  # fmt: skip
        assert near(told_.last_delivery_at, scene.now())
        note = after.delivery["success"]
        assert (note["status"], note["tries"], note["callbacks"]) == (
            "partial", 3, [one.to_json() for one in callbacks],
        )  # fmt: skip
        assert note["at"] == (told_.last_delivery_at.isoformat() if told_.last_delivery_at else None)
        assert (after.status, after.output, after.finished_at) == (before.status, "42", before.finished_at)
        assert (told_.last_status, told_.last_result, told_.run_count) == ("success", "42", state.run_count)
        assert scene.status(1) is Status.SUCCESS

    def test_the_last_try_counts(self, scene: TellingScene) -> None:
        """One that is overtaken on its way changes nothing; the same one again is the same."""
        scene.ended(1)
        for status, tries, expected in (
            (RETRYING, 1, "retrying"),
            (DELIVERED, 2, "delivered"),
            (RETRYING, 1, "delivered"),
            (DELIVERED, 2, "delivered"),
        ):
            scene.report(1, status=status, tries=tries)
            assert scene.state().last_delivery_status == expected
            assert scene.record(1).delivery["success"]["status"] == expected

    def test_the_newest_fire_counts(self, scene: TellingScene) -> None:
        """What is told of an older one is in its history entry."""
        scene.ended(1)
        scene.ended(2)
        scene.report(2, status=DELIVERED)
        scene.report(1, status=FAILED)
        assert scene.state().last_delivery_status == "delivered"
        assert scene.record(1).delivery["success"]["status"] == "failed"
        assert scene.record(2).delivery["success"]["status"] == "delivered"

    def test_an_alert_is_kept_with_the_fire_alone(self, scene: TellingScene) -> None:
        scene.failed(1)
        scene.report(1, FAILURE, status=DELIVERED)
        scene.report(1, About.ALERT, status=FAILED)
        assert scene.state().last_delivery_status == "delivered"
        notes = scene.record(1).delivery
        assert {about: note["status"] for about, note in notes.items()} == {"failure": "delivered", "alert": "failed"}

    def test_a_report_of_a_range(self, scene: TellingScene) -> None:
        scene.register()
        gone = NotFired(Status.MISSED, "too_late", scene.due(1), scene.due(3), 3)
        scene.commit(4, not_fired=[gone], tells=("missed",))
        scene.report(1, MISSED)
        assert (scene.state().last_delivery_status, scene.record(1).count) == ("delivered", 3)
        assert scene.record(1).delivery["missed"]["status"] == "delivered"

    def test_an_outcome_after_it_keeps_it(self, scene: TellingScene) -> None:
        """A late result, and the outcome of the next fire."""
        scene.ended(1)
        scene.report(1)
        scene.finish(1, "t9", Status.ERROR, error="late")
        scene.ended(2)
        assert scene.record(1).delivery["success"]["status"] == "delivered"
        assert scene.state().last_delivery_status == "delivered"

    def test_strangers(self, scene: TellingScene) -> None:
        """Nothing is made up for what is not known."""
        scene.parcels.report([told("f1", scene.key(1))])
        assert scene.c.run_states(["a"]) == {}
        assert scene.c.fires("a") == []

    def test_a_traceback_is_kept(self, scene: TellingScene) -> None:
        """In the history, with all else that came of the fire."""
        text = 'Traceback (most recent call last):\n  File "ü.py", line 1\nValueError: \x00 \U0001f99c'
        scene.started(1)
        scene.c.finish(
            [Outcome(lease=Lease(scene.key(1), "t1"), status=Status.ERROR, error="ValueError: x", traceback=text)]
        )
        assert scene.record(1).traceback == text
        scene.report(1, FAILURE)
        assert scene.record(1).traceback == text


class DeliveringConformance(Queueing, Taking, Reporting):
    """Everything that the docstrings of :class:`~celery_parrot.protocols.Deliveries` say."""
