"""Messages of fires that hold limits, in the hands of a worker that has not started them; and what holds no longer."""

from __future__ import annotations

from celery_parrot.model.fire import Status
from celery_parrot.protocols import Grant, Hold, Lease, Reservation, StartVerdict
from celery_parrot.testing.conformance.limiting import GPU, KIND, Limiting
from celery_parrot.testing.conformance.scene import TIMING, Scene

RUN, DUPLICATE = StartVerdict.RUN, StartVerdict.DUPLICATE


class Reserving(Limiting):
    """See :meth:`~celery_parrot.protocols.Limits.reserve`."""

    def reserve(self, scene: Scene, n: int, *, worker: str = "w1", attempt: int = 1, retries: int = 0) -> bool:
        one = Reservation(key=scene.key(n), attempt=attempt, retries=retries, worker=worker)
        return self.limits(scene).reserve([one])[0]

    def sent(self, scene: Scene, n: int, deadline: float | None = None) -> None:
        assert self.ask(scene, n, GPU).grant is Grant.GRANTED
        scene.confirm(scene.hold(n), deadline=deadline)

    # --- noting ---

    def test_it_is_noted_for_one_lease_time(self, scene: Scene) -> None:
        self.sent(scene, 1)
        assert self.reserve(scene, 1)
        scene.pass_time(TIMING.lease - 1)
        assert scene.c.reap() == []
        scene.pass_time(2)
        assert [reaped.again for reaped in scene.c.reap()] == [True]

    def test_a_renewal_keeps_it(self, scene: Scene) -> None:
        self.sent(scene, 1)
        for _ in range(4):
            assert self.reserve(scene, 1)
            scene.pass_time(TIMING.lease - 1)
            assert scene.c.reap() == []

    def test_without_limits_there_is_nothing_to_note(self, scene: Scene) -> None:
        scene.confirm(scene.hold(1))
        assert not self.reserve(scene, 1)
        assert not self.reserve(scene, 11)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []

    def test_what_is_not_noted_is_not_sent_again(self, scene: Scene) -> None:
        """A worker of another release tells nothing."""
        self.sent(scene, 1)
        scene.pass_time(TIMING.lease * 3)
        assert scene.c.reap() == []

    def test_only_the_newest_message(self, scene: Scene) -> None:
        self.sent(scene, 1)
        scene.start(1, "t1")
        scene.finish(1, "t1", Status.SENT)
        assert not self.reserve(scene, 1)  # the message before the retry
        assert self.reserve(scene, 1, retries=1)

    def test_before_the_confirm(self, scene: Scene) -> None:
        """The message may be quicker than its beat."""
        self.ask(scene, 1, GPU)
        assert self.reserve(scene, 1)
        scene.confirm(scene.hold(1))
        scene.pass_time(TIMING.lease + 1)
        assert [reaped.again for reaped in scene.c.reap()] == [True]

    def test_a_worker_that_dies_with_it_before_the_confirm(self, scene: Scene) -> None:
        """Its beat may have died, too. What is sent then is not taken for the message that was lost."""
        self.ask(scene, 1, GPU)
        assert self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        assert [(reaped.again, reaped.fire.attempt) for reaped in scene.c.reap()] == [(True, 2)]
        assert scene.c.confirm([scene.hold(1)]) == [False]
        assert scene.c.confirm([scene.hold(1, tries=1)]) == [True]
        assert scene.c.reap() == []

    def test_the_start_ends_it(self, scene: Scene) -> None:
        self.sent(scene, 1)
        self.reserve(scene, 1)
        scene.start(1, "t1")
        assert not self.reserve(scene, 1)
        scene.keep(TIMING.lease + 5, Lease(scene.key(1), "t1"))
        assert scene.c.reap() == []
        scene.finish(1, "t1", Status.SENT)
        scene.pass_time(TIMING.lease + 5)
        assert scene.c.reap() == []
        scene.start(1, "t2", retries=1)
        scene.finish(1, "t2")
        assert not self.reserve(scene, 1, retries=1)

    def test_it_passes_to_the_newest_who_asks(self, scene: Scene) -> None:
        self.sent(scene, 1)
        assert self.reserve(scene, 1, worker="w1")
        scene.pass_time(TIMING.lease - 5)
        assert self.reserve(scene, 1, worker="w2")
        scene.pass_time(TIMING.lease - 5)
        assert scene.c.reap() == []

    # --- lapsing ---

    def test_lapsed_it_is_sent_again_as_the_next_attempt(self, scene: Scene) -> None:
        self.sent(scene, 1)
        assert self.ask(scene, 2, GPU).grant is Grant.WAITING
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap(holding=True)
        fire = reaped.fire
        assert (reaped.again, reaped.named, fire.status) == (True, (), Status.PENDING)
        assert (fire.attempt, fire.sent_as, fire.retries, fire.recovered) == (2, 2, 0, False)
        assert fire.reason
        assert scene.c.reap() == []
        assert [scene.status(n) for n in (1, 2)] == [Status.PENDING, Status.WAITING]
        assert [holder.fire.key for holder in self.seen(scene)["group:gpu"].holders] == [scene.key(1)]

    def test_its_limits_are_kept(self, scene: Scene) -> None:
        """Whoever takes it is granted at once, and its end names the next."""
        self.sent(scene, 1)
        self.ask(scene, 2, GPU)
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        (hold,) = [hold for hold in scene.sweep("b2").due if hold.key == scene.key(1)]
        taken = scene.c.take([hold], "b2")[0]
        assert taken is not None
        assert self.ask(scene, 1, GPU, owner="b2", tries=taken.tries).grant is Grant.GRANTED
        scene.confirm(Hold(taken.key, "b2", taken.tries))
        assert scene.start(1, "t2", attempt=2).verdict is RUN
        assert scene.start(1, "t1", attempt=1).verdict is DUPLICATE
        assert scene.finish(1, "t2").named == (scene.key(2),)

    def test_it_is_no_failure(self, scene: Scene) -> None:
        self.sent(scene, 1)
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.run_count) == (0, None, 1)
        scene.send_again(1)
        assert scene.start(1, "t2", attempt=2).verdict is RUN
        assert scene.state().run_count == 1

    def test_the_old_message_is_a_duplicate_from_then_on(self, scene: Scene) -> None:
        self.sent(scene, 1)
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert not self.reserve(scene, 1)
        assert scene.start(1, "t1").verdict is DUPLICATE
        assert scene.status(1) is Status.PENDING

    def test_the_old_hold_confirms_nothing(self, scene: Scene) -> None:
        self.sent(scene, 1)
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert scene.c.confirm([scene.hold(1)]) == [False]

    def test_as_often_as_workers_die(self, scene: Scene) -> None:
        self.sent(scene, 1)
        for attempt in (1, 2, 3):
            assert self.reserve(scene, 1, attempt=attempt)
            scene.pass_time(TIMING.lease + 1)
            (reaped,) = scene.c.reap()
            assert (reaped.again, reaped.fire.sent_as) == (True, attempt + 1)
            scene.send_again(1, f"b{attempt + 1}")

    def test_not_judged_after_a_silence(self, scene: Scene) -> None:
        self.sent(scene, 1)
        self.reserve(scene, 1)
        scene.backend.advance(TIMING.lease + 5)
        assert scene.c.reap() == []
        assert self.reserve(scene, 1)
        scene.pass_time(TIMING.lease - 1)
        assert scene.c.reap() == []

    def test_over_its_deadline_it_expires_instead(self, scene: Scene) -> None:
        self.sent(scene, 1, deadline=5)
        self.reserve(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        assert [(reaped.fire.status, reaped.again) for reaped in scene.c.reap()] == [(Status.EXPIRED, False)]
        assert not self.reserve(scene, 1)

    # --- what holds limits, by the reaper ---

    def test_a_queued_fire_keeps_its_limits_until_its_deadline(self, scene: Scene) -> None:
        """Twenty minutes before its start, and nobody else gets them."""
        self.ask(scene, 1, KIND, GPU)
        self.ask(scene, 2, GPU)
        scene.confirm(scene.hold(1), deadline=1500)
        scene.backend.advance(1200)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []
        assert self.ask(scene, 3, KIND).grant is Grant.SKIPPED
        assert scene.status(2) is Status.WAITING
        scene.backend.advance(300)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap(holding=True)
        assert (reaped.fire.status, reaped.named) == (Status.EXPIRED, (scene.key(2),))

    def test_with_holding_lapsed_leases_of_holders_only(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.run(scene, 1)
        self.run(scene, 2)
        scene.pass_time(TIMING.lease + 1)
        assert [reaped.fire.key for reaped in scene.c.reap(holding=True)] == [scene.key(1)]
        assert [reaped.fire.key for reaped in scene.c.reap()] == [scene.key(2)]

    def test_a_silent_holder_names_the_next(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU)
        scene.confirm(scene.hold(1))
        scene.start(1, "t1", silent_after=5)
        scene.keep(6, Lease(scene.key(1), "t1"))
        (reaped,) = scene.c.reap(holding=True)
        assert reaped.named == (scene.key(2),)
