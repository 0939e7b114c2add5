"""Epochs, loss of memory, and what is put back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.errors import MemoryLost
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import (
    Coordinator,
    Drop,
    Lease,
    Mark,
    Memory,
    Outcome,
    Registration,
    Running,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene, near

CALLS: dict[str, Callable[[Scene], Any]] = {
    "register": lambda s: s.c.register([Registration(schedule_id="a", when="w")]),
    "commit": lambda s: s.c.commit([s.plan(1)], "b1"),
    "renew": lambda s: s.c.renew([s.hold(1)]),
    "confirm": lambda s: s.c.confirm([s.hold(1)]),
    "drop": lambda s: s.c.drop([Drop(hold=s.hold(1), status=Status.MISSED, reason="too_late")]),
    "sweep": lambda s: s.c.sweep(s.beat()),
    "take": lambda s: s.c.take([s.hold(1)], "b1"),
    "reap": lambda s: s.c.reap(),
    "leave": lambda s: s.c.leave("b1"),
    "start": lambda s: s.c.start([s.delivery()]),
    "renew_leases": lambda s: s.c.renew_leases([Lease(s.key(1), "t1")]),
    "finish": lambda s: s.c.finish([Outcome(lease=Lease(s.key(1), "t1"), status=Status.SUCCESS)]),
    "fires": lambda s: s.c.fires("a"),
    "run_states": lambda s: s.c.run_states(["a"]),
    "claims": lambda s: s.c.claims([s.key(1)]),
    "beats": lambda s: s.c.beats(),
}


class Forgetting(Conformance):
    # --- epochs ---

    def test_everybody_adopts_the_first_epoch(self, scene: Scene, other: Coordinator) -> None:
        first = scene.c.attach()
        assert first.epoch
        assert (first.quiet, first.judging) == (False, True)
        assert other.attach().epoch == first.epoch

    def test_a_process_that_did_not_attach_adopts_as_well(self, backend: Backend) -> None:
        client = backend.client()
        assert client.claims([]) == []
        assert client.run_states(["a"]) == {}
        client.close()

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_every_call_notices_a_flush(self, scene: Scene, call: Callable[[Scene], Any], backend: Backend) -> None:
        scene.running()
        backend.flush()
        with pytest.raises(MemoryLost):
            call(scene)
        with pytest.raises(MemoryLost):  # it has done nothing, not even made an epoch
            call(scene)

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_every_call_notices_another_epoch(
        self, scene: Scene, call: Callable[[Scene], Any], other: Coordinator, backend: Backend
    ) -> None:
        backend.flush()
        epoch = other.attach().epoch
        with pytest.raises(MemoryLost) as caught:
            call(scene)
        assert caught.value.epoch == epoch
        assert other.beats() == []
        assert other.run_states(["a"]) == {}

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_every_call_notices_another_server(
        self, scene: Scene, call: Callable[[Scene], Any], backend: Backend
    ) -> None:
        backend.change_server()
        with pytest.raises(MemoryLost):
            call(scene)

    def test_a_fresh_process_on_an_empty_coordinator_goes_on_at_once(self, backend: Backend) -> None:
        client = backend.client()
        assert not client.attach().quiet
        client.close()

    def test_attaching_to_a_changed_server_is_quiet(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        scene.register()
        backend.change_server()
        reading = other.attach()
        assert reading.quiet
        with pytest.raises(MemoryLost):
            scene.sweep()
        assert scene.c.remember(Memory()).epoch == reading.epoch
        assert scene.state().last_due == scene.due(0)

    # --- quiet ---

    def test_nothing_is_committed_granted_or_started_while_quiet(self, scene: Scene, backend: Backend) -> None:
        scene.register()
        backend.flush()
        reading = scene.c.remember(Memory(marks=(Mark(schedule_id="a", last_due=scene.due(0)),)))
        assert reading.quiet
        assert near(reading.quiet_until, reading.now + timedelta(seconds=TIMING.lease), 0.01)
        assert reading.judge_from >= reading.quiet_until
        reply_reading, replies = scene.c.commit([scene.plan(1)], "b1")
        assert reply_reading.quiet
        assert (replies[0].verdict, replies[0].mark, replies[0].fires) == (Verdict.MOVED, scene.due(0), ())
        assert scene.start().verdict is StartVerdict.QUIET
        scene.pass_time(TIMING.lease + 0.1)
        assert scene.commit(1).verdict is Verdict.COMMITTED

    def test_only_the_first_to_remember_sets_the_silence(
        self, scene: Scene, other: Coordinator, backend: Backend
    ) -> None:
        other.attach()
        backend.flush()
        first = scene.c.remember(Memory())
        scene.pass_time(10)
        with pytest.raises(MemoryLost):
            other.beats()
        second = other.remember(Memory())
        assert (second.epoch, second.quiet_until) == (first.epoch, first.quiet_until)

    def test_remembering_into_the_epoch_of_a_newcomer_makes_it_quiet(
        self, scene: Scene, other: Coordinator, backend: Backend
    ) -> None:
        backend.flush()
        epoch = other.attach().epoch
        reading = scene.c.remember(Memory())
        assert (reading.epoch, reading.quiet) == (epoch, True)
        assert other.attach().quiet

    def test_remembering_without_a_loss_is_not_quiet(self, scene: Scene) -> None:
        assert not scene.c.remember(Memory()).quiet

    # --- marks ---

    def _remember_mark(self, scene: Scene, n: float, when: str = "w", c: Coordinator | None = None) -> None:
        registration = Registration(schedule_id="a", when=when)
        (c or scene.c).remember(
            Memory(registrations=(registration,), marks=(Mark(schedule_id="a", last_due=scene.due(n)),))
        )

    def test_marks_come_back(self, scene: Scene, backend: Backend) -> None:
        backend.flush()
        self._remember_mark(scene, 5)
        assert scene.register(initial=9).last_due == scene.due(5)

    def test_a_mark_registered_meanwhile_gives_way(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        backend.flush()
        other.register([Registration(schedule_id="a", when="w", initial=scene.due(9))])
        self._remember_mark(scene, 5)
        assert scene.state().last_due == scene.due(5)

    def test_a_mark_something_was_decided_from_stays(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        backend.flush()
        other.register([Registration(schedule_id="a", when="w", initial=scene.due(8))])
        assert scene.commit(9, mark=8, c=other, owner="b2").fires
        self._remember_mark(scene, 5)
        assert scene.state().last_due == scene.due(9)

    def test_the_later_of_two_remembered_marks_wins(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        third = backend.client()
        for client in (other, third):
            client.attach()
        backend.flush()
        for n, client in ((5, scene.c), (7, other), (6, third)):
            self._remember_mark(scene, n, c=client)
        assert scene.state().last_due == scene.due(7)
        third.close()

    def test_a_mark_of_another_definition_is_ignored(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        backend.flush()
        other.register([Registration(schedule_id="a", when="new", initial=scene.due(3))])
        self._remember_mark(scene, 9, when="old")
        assert scene.state().last_due == scene.due(3)

    # --- outbox ---

    def test_the_outbox_comes_back(self, scene: Scene, backend: Backend) -> None:
        hold = scene.pending()
        mirror = scene.sweep().entries
        backend.flush()
        scene.c.remember(Memory(outbox=mirror))
        reply = scene.sweep("b2")
        assert [(f.key, f.owner, f.committed_at) for f in reply.entries] == [
            (f.key, f.owner, f.committed_at) for f in mirror
        ]
        assert reply.due == ()
        assert scene.c.take([hold], "b1") == [None]  # while quiet a worker may still claim to run it
        scene.pass_time(TIMING.lease + 0.5)
        assert scene.sweep("b2").due == (hold,)
        assert scene.record().status is Status.PENDING
        assert scene.c.take([hold], "b2") != [None]

    def test_an_existing_claim_beats_the_mirror(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        scene.pending()
        mirror = scene.sweep().entries
        backend.flush()
        other.remember_running([Running(delivery=scene.delivery(), started_at=scene.base)])
        scene.c.remember(Memory(outbox=mirror))
        assert scene.sweep().entries == ()
        assert scene.status() is Status.RUNNING

    # --- running fires ---

    def test_a_running_fire_comes_back(self, scene: Scene, other: Coordinator, backend: Backend) -> None:
        lease = scene.running()
        backend.flush()
        reading = scene.c.remember_running(
            [Running(delivery=scene.delivery(retries=2), started_at=scene.base, attempt=3)]
        )
        assert reading.quiet
        fire = scene.c.claims([scene.key(1)])[0]
        assert fire is not None
        assert (fire.status, fire.token, fire.attempt, fire.retries) == (Status.RUNNING, "t1", 3, 2)
        assert fire.started_at == scene.base
        assert near(fire.lease_until, reading.now + timedelta(seconds=TIMING.lease), 0.01)
        scene.pass_time(TIMING.lease - 1)
        assert scene.c.renew_leases([lease]) == [True]
        scene.pass_time(2)
        assert scene.start(token="t2", retries=2).verdict is StartVerdict.PUT_BACK
        assert scene.finish(output="42").verdict == "recorded"
        assert scene.record().output == "42"

    def test_a_running_fire_leaves_the_restored_outbox(
        self, scene: Scene, other: Coordinator, backend: Backend
    ) -> None:
        hold = scene.pending()
        mirror = scene.sweep().entries
        other.attach()
        backend.flush()
        scene.c.remember(Memory(outbox=mirror))
        other.remember_running([Running(delivery=scene.delivery(), started_at=scene.base)])
        assert scene.sweep().entries == ()
        assert scene.c.confirm([hold]) == [False]

    def test_an_ended_or_foreign_claim_is_left_alone(self, scene: Scene, backend: Backend) -> None:
        scene.running(1, "t1")
        scene.start(2, "t2")
        scene.finish(1, "t1")
        backend.change_server()
        scene.c.remember_running(
            [
                Running(delivery=scene.delivery(1, "t1"), started_at=scene.base),
                Running(delivery=scene.delivery(2, "t9"), started_at=scene.base),
            ]
        )
        assert scene.status(1) is Status.SUCCESS
        fire = scene.c.claims([scene.key(2)])[0]
        assert fire is not None
        assert (fire.status, fire.token) == (Status.RUNNING, "t2")
