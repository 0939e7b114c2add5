"""Deadlines, signs of life, and what the reaper makes of those that give none."""

from __future__ import annotations

from datetime import timedelta

from celery_parrot.model.fire import Status
from celery_parrot.protocols import (
    NEVER_STARTED,
    QUEUE_DEADLINE,
    SILENT,
    WORKER_LOST,
    FinishVerdict,
    Lease,
    Memory,
    Progress,
    Running,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Scene, near

RUN, DUPLICATE = StartVerdict.RUN, StartVerdict.DUPLICATE
QUEUE = 20.0
"""Seconds until a queue deadline, or of silence, that these tests use: longer than a lease."""


def reap(scene: Scene, limit: int = 500) -> list[tuple[Status, str]]:
    """What the reaper ended: status and reason of each."""
    return [(reaped.fire.status, reaped.fire.reason) for reaped in scene.c.reap(limit=limit)]


class Reaping(Conformance):
    """See :meth:`~celery_parrot.protocols.Coordinator.reap`; what recovers is elsewhere."""

    # --- queue deadline ---

    def test_a_confirm_notes_the_deadline(self, scene: Scene) -> None:
        scene.sent(1, deadline=QUEUE)
        assert near(scene.fire().deadline, scene.now() + timedelta(seconds=QUEUE))
        scene.register("b")
        assert scene.commit(1, schedule_id="b").fires
        assert scene.c.confirm([scene.hold(1, schedule_id="b")]) == [True]
        assert scene.fire(1, "b").deadline is None

    def test_the_claims_deadline_counts_and_not_the_messages(self, scene: Scene) -> None:
        """A message that was sent again may carry an older one."""
        scene.sent(deadline=QUEUE)
        assert scene.start(deadline=scene.due(1)).verdict is RUN

    def test_a_claim_without_a_deadline_has_none(self, scene: Scene) -> None:
        scene.sent()
        assert scene.start(deadline=scene.due(1)).verdict is RUN

    def test_start_judges_the_claims_deadline(self, scene: Scene) -> None:
        scene.sent(deadline=1)
        scene.pass_time(1.5)
        assert scene.start().verdict is StartVerdict.EXPIRED

    def test_sent_over_its_deadline_expires(self, scene: Scene) -> None:
        scene.sent(deadline=QUEUE)
        scene.pass_time(QUEUE - 1)
        assert reap(scene) == []
        scene.pass_time(1.5)
        (reaped,) = scene.c.reap()
        assert (reaped.fire.key, reaped.fire.status, reaped.fire.reason) == (
            scene.key(1),
            Status.EXPIRED,
            QUEUE_DEADLINE,
        )
        assert (reaped.again, reaped.named) == (False, ())
        assert (scene.status(), scene.record().status, scene.record().reason) == (
            Status.EXPIRED,
            Status.EXPIRED,
            QUEUE_DEADLINE,
        )
        assert near(scene.record().finished_at, scene.now())
        assert reap(scene) == []
        assert scene.start().verdict is DUPLICATE

    def test_an_expired_fire_is_no_failure(self, scene: Scene) -> None:
        scene.sent(deadline=1)
        scene.pass_time(1.5)
        reap(scene)
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.last_error, state.run_count) == (0, None, None, 1)

    def test_a_deadline_is_not_judged_after_a_silence(self, scene: Scene) -> None:
        scene.sent(deadline=10)
        scene.backend.advance(QUEUE)
        assert reap(scene) == []
        scene.pass_time(TIMING.lease + 1)
        assert reap(scene) == [(Status.EXPIRED, QUEUE_DEADLINE)]

    def test_what_has_started_has_no_queue_deadline(self, scene: Scene) -> None:
        scene.sent(deadline=5)
        scene.start()
        scene.keep(8, Lease(scene.key(1), "t1"))
        assert reap(scene) == []

    def test_a_retry_moves_the_deadline(self, scene: Scene) -> None:
        scene.sent(deadline=5)
        scene.start()
        now = scene.now()
        scene.finish(status=Status.SENT, retry_at=now, deadline=now + timedelta(seconds=QUEUE))
        scene.pass_time(10)
        assert reap(scene) == []
        scene.pass_time(QUEUE - 9)
        assert scene.start(token="t2", retries=1).verdict is StartVerdict.EXPIRED

    def test_a_retry_without_a_deadline_has_none(self, scene: Scene) -> None:
        scene.sent(deadline=5)
        scene.start()
        scene.finish(status=Status.SENT)
        scene.pass_time(10)
        assert reap(scene) == []
        assert scene.start(token="t2", retries=1).verdict is RUN

    def test_the_message_of_an_unknown_claim_brings_its_deadline(self, scene: Scene) -> None:
        """Its retry does without the message's."""
        assert scene.start(deadline=scene.now() + timedelta(seconds=5)).verdict is RUN
        scene.finish(status=Status.SENT)
        scene.pass_time(10)
        assert scene.start(token="t2", retries=1).verdict is RUN

    # --- never started ---

    def test_sent_and_never_started_is_unknown(self, scene: Scene) -> None:
        scene.sent()
        scene.backend.advance(TIMING.unknown_after - 60)
        scene.pass_time(TIMING.lease + 1)
        assert reap(scene) == []
        scene.pass_time(60 - TIMING.lease)
        assert reap(scene) == [(Status.UNKNOWN, NEVER_STARTED)]
        assert (scene.record().status, scene.record().reason) == (Status.UNKNOWN, NEVER_STARTED)
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.run_count) == (0, None, 1)
        assert reap(scene) == []

    def test_unknown_runs_if_it_starts_after_all(self, scene: Scene) -> None:
        scene.sent()
        scene.backend.advance(TIMING.unknown_after)
        scene.pass_time(TIMING.lease + 1)
        assert reap(scene) == [(Status.UNKNOWN, NEVER_STARTED)]
        assert scene.start().verdict is RUN
        assert scene.finish().verdict is FinishVerdict.RECORDED
        assert (scene.record().status, scene.record().reason) == (Status.SUCCESS, "")
        assert (scene.state().run_count, scene.state().last_status) == (1, "success")

    def test_unknown_runs_when_its_claim_is_forgotten_too(self, scene: Scene) -> None:
        scene.sent()
        scene.backend.advance(TIMING.unknown_after)
        scene.pass_time(TIMING.lease + 1)
        reap(scene)
        scene.backend.advance(TIMING.claim_ttl + 60)
        assert scene.status() is None
        assert scene.start().verdict is RUN
        assert scene.state().run_count == 1  # it was counted before

    def test_with_a_deadline_it_is_never_unknown(self, scene: Scene) -> None:
        scene.sent(deadline=TIMING.unknown_after + 600)
        scene.backend.advance(TIMING.unknown_after)
        scene.pass_time(TIMING.lease + 1)
        assert reap(scene) == []

    # --- silence ---

    def test_without_progress_it_is_silent(self, scene: Scene) -> None:
        """Renewal is no sign of progress."""
        scene.sent()
        scene.start(silent_after=QUEUE)
        scene.keep(QUEUE - 1, Lease(scene.key(1), "t1"))
        assert reap(scene) == []
        scene.keep(1.5, Lease(scene.key(1), "t1"))
        assert reap(scene) == [(Status.ABANDONED, SILENT)]
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.last_error) == (1, "error", SILENT)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [False]
        assert scene.finish().verdict is FinishVerdict.LATE
        assert (scene.record().status, scene.record().late_result) == (Status.ABANDONED, "success")

    def test_progress_keeps_it(self, scene: Scene) -> None:
        scene.sent()
        scene.start(silent_after=QUEUE)
        for step in range(4):
            scene.keep(QUEUE - 2, Lease(scene.key(1), "t1"))
            assert reap(scene) == []
            signed = Lease(scene.key(1), "t1", Progress(f"step {step}"))
            assert scene.c.renew_leases([signed]) == [True]
            fire = scene.fire()
            assert fire.progress == f"step {step}"
            assert near(fire.progress_at, scene.now())
        scene.keep(QUEUE + 0.5, Lease(scene.key(1), "t1"))
        assert reap(scene) == [(Status.ABANDONED, SILENT)]

    def test_what_progress_said_is_kept_as_text(self, scene: Scene) -> None:
        scene.sent()
        scene.start(silent_after=QUEUE)
        for sign, said in (
            (Progress("loading", 0.4), "40% loading"),
            (Progress(fraction=1), "100%"),
            (Progress(), ""),
        ):
            assert scene.c.renew_leases([Lease(scene.key(1), "t1", sign)]) == [True]
            assert scene.fire().progress == said

    def test_progress_counts_for_its_own_delivery_only(self, scene: Scene) -> None:
        scene.sent()
        scene.start(silent_after=QUEUE)
        assert scene.c.renew_leases([Lease(scene.key(1), "t9", Progress("not mine"))]) == [False]
        assert scene.fire().progress == ""

    def test_the_start_is_the_first_sign(self, scene: Scene) -> None:
        """Also of the next attempt, which is silent by its own measure."""
        scene.sent()
        scene.start(silent_after=QUEUE)
        assert near(scene.fire().progress_at, scene.now())
        scene.c.renew_leases([Lease(scene.key(1), "t1", Progress("halfway"))])
        scene.pass_time(TIMING.lease - 3)
        scene.finish(status=Status.SENT)
        scene.start(token="t2", retries=1, silent_after=2 * QUEUE)
        fire = scene.fire()
        assert (fire.progress, fire.silent_after, near(fire.progress_at, scene.now())) == ("", 2 * QUEUE, True)
        scene.keep(QUEUE + 1, Lease(scene.key(1), "t2"))
        assert reap(scene) == []

    def test_without_a_bound_it_may_be_silent(self, scene: Scene) -> None:
        lease = scene.running()
        scene.keep(3 * QUEUE, lease)
        assert reap(scene) == []
        assert scene.fire().silent_after is None

    def test_silence_is_not_judged_after_a_silence_of_everybody(self, scene: Scene) -> None:
        scene.sent()
        scene.start(silent_after=QUEUE)
        scene.backend.advance(QUEUE + 5)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [True]
        assert reap(scene) == []

    def test_after_a_loss_of_memory_silence_is_counted_anew(self, scene: Scene) -> None:
        """The signs that it gave are forgotten, too; the worker says what it runs, not when it heard of it last."""
        scene.sent()
        scene.start(silent_after=QUEUE)
        running = Running(delivery=scene.delivery(silent_after=QUEUE), started_at=scene.now() - timedelta(hours=2))
        scene.backend.flush()
        scene.c.remember(Memory())
        scene.c.remember_running([running])
        scene.keep(TIMING.lease + 1, Lease(scene.key(1), "t1"))
        assert reap(scene) == []
        scene.keep(QUEUE - TIMING.lease, Lease(scene.key(1), "t1"))
        assert reap(scene) == [(Status.ABANDONED, SILENT)]

    # --- all together ---

    def test_in_this_order_at_most_the_limit(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, 2, 3)
        scene.confirm(scene.hold(3), deadline=2)
        scene.confirm(scene.hold(1), scene.hold(2))
        scene.start(2, "t2", silent_after=2)
        scene.start(1, "t1")
        scene.keep(TIMING.lease + 1, Lease(scene.key(2), "t2"))
        assert reap(scene, limit=1) == [(Status.ABANDONED, WORKER_LOST)]
        assert reap(scene, limit=1) == [(Status.ABANDONED, SILENT)]
        assert reap(scene, limit=1) == [(Status.EXPIRED, QUEUE_DEADLINE)]
        assert reap(scene) == []
        assert scene.state().consecutive_failures == 2

    def test_lapsed_comes_before_silent(self, scene: Scene) -> None:
        scene.sent()
        scene.start(silent_after=2)
        scene.pass_time(TIMING.lease + 1)
        assert reap(scene) == [(Status.ABANDONED, WORKER_LOST)]

    def test_one_reaps_what_another_would(self, scene: Scene) -> None:
        """Two beats at once: each fire is ended once."""
        scene.sent(deadline=1)
        scene.pass_time(2)
        assert reap(scene) == [(Status.EXPIRED, QUEUE_DEADLINE)]
        scene.c = scene.backend.client()
        assert reap(scene) == []
        scene.c.close()

    def test_with_holding_only_what_holds_or_waits(self, scene: Scene) -> None:
        """None of these holds a limit."""
        scene.register()
        scene.commit(1, 2, 3)
        scene.confirm(scene.hold(1), scene.hold(2))
        scene.confirm(scene.hold(3), deadline=1)
        scene.start(1, "t1")
        scene.start(2, "t2", silent_after=1)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap(holding=True) == []
        assert len(scene.c.reap()) == 3
