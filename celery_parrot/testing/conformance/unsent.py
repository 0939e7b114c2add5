"""Fires that hold their limits and that no beat can send: they give back what they hold."""

from __future__ import annotations

from typing import cast

from celery_parrot.model.fire import Status
from celery_parrot.protocols import WORKER_LOST, Limits, Reaped, Reservation, StartVerdict
from celery_parrot.testing.conformance.limiting import GPU, Limiting
from celery_parrot.testing.conformance.scene import TIMING, Scene, near

WITHIN = TIMING.send_within
PATIENCE = WITHIN + 30
"""A wait deadline, seconds from the commit, beyond what a grant alone gives."""
MISSED = (Status.MISSED, "too_late")


class Unsent(Limiting):
    """See :meth:`~celery_parrot.protocols.Coordinator.reap`."""

    def reaped(self, scene: Scene) -> list[tuple[Status, str]]:
        return [(one.fire.status, one.fire.reason) for one in scene.c.reap(holding=True)]

    def named(self, scene: Scene, n: int, wait: float | None) -> None:
        """Fire ``n`` waited behind fire 1, which has ended."""
        self.ask(scene, 1, GPU)
        self.ask(scene, n, GPU, wait=wait)
        self.run(scene, 1)
        scene.finish(1)
        assert scene.status(n) is Status.PENDING

    def test_who_was_named_and_is_not_sent_by_its_wait_deadline_is_missed(self, scene: Scene) -> None:
        """It never ran, so that is no failure; what max_fires had reserved for it is given back."""
        self.named(scene, 2, PATIENCE)
        before = scene.state()
        scene.pass_time(PATIENCE - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        (one,) = scene.c.reap()
        assert (one.fire.key, one.fire.status, one.fire.reason, one.again) == (scene.key(2), *MISSED, False)
        record, after = scene.record(2), scene.state()
        assert (record.status, record.reason, record.started_at) == (*MISSED, None)
        assert near(record.finished_at, scene.now())
        assert (after.consecutive_failures, after.last_error, after.last_status) == (0, None, "success")
        assert (after.auto_count, after.run_count) == (before.auto_count - 1, before.run_count)
        assert scene.key(2) not in {fire.key for fire in scene.sweep().entries}
        assert scene.start(2, "t2").verdict is StartVerdict.DUPLICATE
        assert self.reaped(scene) == []

    def test_it_gives_back_what_it_holds_and_names_the_next(self, scene: Scene) -> None:
        self.named(scene, 2, PATIENCE)
        self.ask(scene, 3, GPU)
        scene.pass_time(PATIENCE + 1)
        (one,) = scene.c.reap(holding=True)
        assert one == Reaped(fire=scene.fire(2), named=(scene.key(3),))
        assert [holder.fire.key for holder in self.seen(scene)["group:gpu"].holders] == [scene.key(3)]
        self.run(scene, 3)

    def test_who_was_granted_at_once_as_well(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU, wait=PATIENCE)
        scene.pass_time(PATIENCE - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        assert self.reaped(scene) == [MISSED]
        assert self.seen(scene) == {}

    def test_whose_turn_comes_late_has_time_to_be_sent(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU, wait=20)
        self.run(scene, 1)
        scene.pass_time(12)
        scene.finish(1)
        scene.pass_time(WITHIN - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        assert self.reaped(scene) == [MISSED]

    def test_what_was_taken_or_renewed_a_moment_ago_is_left_alone(self, scene: Scene) -> None:
        """Its owner is about to send it, or tries again and again while the broker is away."""
        self.named(scene, 2, PATIENCE)
        self.ask(scene, 3, GPU, wait=1000)
        scene.pass_time(PATIENCE - 1)
        (taken,) = scene.c.take([scene.hold(2)], "b1")
        assert taken is not None
        scene.pass_time(TIMING.takeover_after - 1)
        assert self.reaped(scene) == []
        assert scene.c.renew([scene.hold(2, tries=1)]) == [True]
        scene.pass_time(TIMING.takeover_after - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        assert self.reaped(scene) == [MISSED]
        assert scene.c.confirm([scene.hold(2, tries=1)]) == [False]

    def test_without_a_wait_deadline_there_is_no_bound(self, scene: Scene) -> None:
        self.named(scene, 2, None)
        scene.backend.advance(7200)
        scene.pass_time(TIMING.lease + 1)
        assert self.reaped(scene) == []

    def test_what_was_sent_in_time_is_no_matter_of_this(self, scene: Scene) -> None:
        self.named(scene, 2, PATIENCE)
        scene.confirm(scene.hold(2))
        self.ask(scene, 3, GPU, wait=3600)
        scene.pass_time(PATIENCE + 1)
        assert self.reaped(scene) == []
        assert scene.start(2, "t2").verdict is StartVerdict.RUN

    def test_it_is_not_judged_after_a_silence(self, scene: Scene) -> None:
        self.named(scene, 2, PATIENCE)
        scene.backend.advance(PATIENCE + 1)
        assert self.reaped(scene) == []
        scene.pass_time(TIMING.lease + 1)
        assert self.reaped(scene) == [MISSED]

    def test_nor_when_beats_may_have_been_cut_off(self, scene: Scene) -> None:
        """As any age in the outbox: each is to be heard again first."""
        self.named(scene, 2, PATIENCE)
        scene.pass_time(PATIENCE)
        scene.backend.advance(TIMING.untouched * 0.6)
        assert self.reaped(scene) == []
        scene.pass_time(TIMING.untouched * 0.6)
        assert self.reaped(scene) == [MISSED]

    def test_what_a_worker_has_in_hand_was_sent(self, scene: Scene) -> None:
        """Its confirm was lost. If the worker goes, it is sent again, and has the time for that."""
        self.named(scene, 2, PATIENCE)
        scene.pass_time(PATIENCE - 1)
        in_hand = Reservation(key=scene.key(2), attempt=1, worker="w1")
        assert cast(Limits, scene.c).reserve([in_hand]) == [True]
        scene.pass_time(TIMING.lease - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        assert self.reaped(scene) == [(Status.PENDING, WORKER_LOST)]
        scene.pass_time(WITHIN - 1)
        assert self.reaped(scene) == []
        scene.pass_time(2)
        assert self.reaped(scene) == [MISSED]

    def test_one_that_holds_nothing_yet_keeps_nobody_waiting(self, scene: Scene) -> None:
        """It was never asked for: it stays in the outbox."""
        scene.pass_time(PATIENCE + 1)
        assert self.reaped(scene) == []
        assert len(scene.c.reap()) == 0
        assert scene.status(9) is Status.PENDING
