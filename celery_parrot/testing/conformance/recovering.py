"""Abandoned fires that are sent once more."""

from __future__ import annotations

from typing import Any

from celery_parrot.model.fire import Status
from celery_parrot.protocols import (
    SILENT,
    WORKER_LOST,
    Drop,
    FinishVerdict,
    Hold,
    Lease,
    Memory,
    Reaped,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene


class Recovering(Conformance):
    """See :meth:`~celery_parrot.protocols.Coordinator.reap`."""

    def killed(self, scene: Scene, **plan: Any) -> Reaped:
        """Fire 1, to be recovered, ran under ``t1`` and was abandoned."""
        scene.register()
        assert scene.commit(1, recover=True, **plan).fires
        scene.confirm(scene.hold(1))
        assert scene.start().verdict is StartVerdict.RUN
        return self.abandoned(scene)

    def abandoned(self, scene: Scene) -> Reaped:
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        return reaped

    def test_the_commit_says_so(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, recover=True)
        scene.commit(2, mark=1)
        assert [scene.fire(n).recover for n in (1, 2)] == [True, False]
        assert not scene.fire(1).recovered

    def test_it_is_back_in_the_outbox_as_the_next_attempt(self, scene: Scene) -> None:
        reaped = self.killed(scene)
        fire = reaped.fire
        assert (reaped.again, fire.status, fire.reason) == (True, Status.PENDING, WORKER_LOST)
        assert (fire.attempt, fire.sent_as, fire.retries, fire.recovered) == (2, 2, 0, True)
        assert fire == scene.fire()
        assert (fire.token, fire.lease_until, fire.finished_at) == ("", None, None)
        assert [entry.key for entry in scene.sweep("b2").entries] == [scene.key(1)]
        assert (scene.record().status, scene.record().attempt) == (Status.PENDING, 2)

    def test_anybody_may_take_it_at_once(self, scene: Scene) -> None:
        self.killed(scene)
        fire = scene.send_again()
        assert (fire.attempt, fire.sent_as) == (2, 2)
        reply = scene.start(token="t2", attempt=2)
        assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 2)
        assert scene.finish(token="t2").verdict is FinishVerdict.RECORDED
        assert (scene.record().status, scene.record().attempt, scene.record().reason) == (Status.SUCCESS, 2, "")

    def test_the_failure_counts_and_the_fire_only_once(self, scene: Scene) -> None:
        self.killed(scene)
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.last_error) == (1, "error", WORKER_LOST)
        scene.send_again()
        scene.start(token="t2", attempt=2)
        assert scene.state().run_count == 1
        scene.finish(token="t2")
        assert (scene.state().consecutive_failures, scene.state().run_count) == (0, 1)

    def test_only_once(self, scene: Scene) -> None:
        self.killed(scene)
        scene.send_again()
        scene.start(token="t2", attempt=2)
        reaped = self.abandoned(scene)
        assert (reaped.again, reaped.fire.status, reaped.fire.attempt) == (False, Status.ABANDONED, 2)
        assert scene.state().consecutive_failures == 2
        assert scene.sweep().entries == ()

    def test_not_without_being_told(self, scene: Scene) -> None:
        scene.running()
        reaped = self.abandoned(scene)
        assert (reaped.again, reaped.fire.status) == (False, Status.ABANDONED)

    def test_a_silent_one_is_recovered(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, recover=True)
        scene.confirm(scene.hold(1))
        scene.start(silent_after=3)
        scene.keep(4, Lease(scene.key(1), "t1"))
        (reaped,) = scene.c.reap()
        assert (reaped.again, reaped.fire.status, reaped.fire.reason) == (True, Status.PENDING, SILENT)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [False]

    def test_expired_is_not_abandoned(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, recover=True)
        scene.confirm(scene.hold(1), deadline=1)
        scene.pass_time(2)
        (reaped,) = scene.c.reap()
        assert (reaped.again, reaped.fire.status) == (False, Status.EXPIRED)

    def test_the_old_deadline_is_the_old_messages(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, recover=True)
        scene.confirm(scene.hold(1), deadline=5)
        scene.start()
        assert self.abandoned(scene).again
        scene.send_again()
        scene.pass_time(10)
        assert scene.c.reap() == []
        assert scene.start(token="t2", attempt=2).verdict is StartVerdict.RUN

    # --- what the old attempt still says ---

    def test_a_late_result_is_a_note(self, scene: Scene) -> None:
        """Pending, sent or running anew: it ends nothing."""
        self.killed(scene)
        assert scene.finish(token="t1").verdict is FinishVerdict.LATE
        assert scene.status() is Status.PENDING
        assert scene.record().late_result == "success"
        scene.send_again()
        assert scene.finish(token="t1", status=Status.ERROR).verdict is FinishVerdict.LATE
        assert scene.status() is Status.SENT
        scene.start(token="t2", attempt=2)
        assert scene.finish(token="t1").verdict is FinishVerdict.LATE
        assert scene.status() is Status.RUNNING
        assert scene.finish(token="t2").verdict is FinishVerdict.RECORDED

    def test_a_late_retry_changes_nothing(self, scene: Scene) -> None:
        self.killed(scene)
        assert scene.finish(token="t1", status=Status.SENT).verdict is FinishVerdict.LATE
        assert scene.status() is Status.PENDING

    def test_the_old_message_is_a_duplicate(self, scene: Scene) -> None:
        """Redelivered by the broker, put back, or retried by the old body."""
        self.killed(scene)
        for changes in ({}, {"put_back": True}, {"retries": 1}):
            assert scene.start(token="t9", **changes).verdict is StartVerdict.DUPLICATE
        assert scene.status() is Status.PENDING

    def test_the_old_hold_confirms_nothing(self, scene: Scene) -> None:
        """A confirm that was on its way all the time: the new attempt has not been sent."""
        self.killed(scene)
        assert scene.c.confirm([scene.hold(1)]) == [False]
        assert scene.c.renew([scene.hold(1)]) == [False]
        assert scene.status() is Status.PENDING

    # --- the way on ---

    def test_dropped_it_returns_nothing(self, scene: Scene) -> None:
        """It has been sent, so ``max_fires`` has counted it for good."""
        self.killed(scene, max_fires=3)
        (hold,) = scene.sweep("b2").due
        fire = scene.c.take([hold], "b2")[0]
        assert fire is not None
        drop = Drop(hold=Hold(fire.key, "b2", fire.tries), status=Status.SKIPPED, reason="paused")
        assert scene.c.drop([drop]) == [True]
        assert (scene.status(), scene.state().auto_count, scene.state().run_count) == (Status.SKIPPED, 1, 1)

    def test_it_survives_a_loss_of_memory(self, scene: Scene, backend: Backend) -> None:
        """What waits in the outbox comes back as it was: to be recovered, or recovered."""
        self.killed(scene)
        scene.commit(2, mark=1, recover=True)
        mirror = scene.sweep()
        backend.flush()
        scene.c.remember(Memory(outbox=mirror.entries))
        assert [(scene.fire(n).recover, scene.fire(n).recovered, scene.fire(n).attempt) for n in (1, 2)] == [
            (True, True, 2),
            (True, False, 1),
        ]
