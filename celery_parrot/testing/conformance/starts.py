"""Start, by its rules in order, and the lease."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import Lease, Memory, Outcome, StartVerdict
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Scene, near

RUN, DUPLICATE, PUT_BACK = StartVerdict.RUN, StartVerdict.DUPLICATE, StartVerdict.PUT_BACK


class Starts(Conformance):
    # --- 1: quiet ---

    def test_quiet_comes_first(self, scene: Scene) -> None:
        scene.backend.flush()
        scene.c.remember(Memory())
        reply = scene.start()
        assert reply.verdict is StartVerdict.QUIET
        assert 0 < reply.retry_after <= TIMING.lease
        assert scene.status() is None

    # --- 2: unknown ---

    def test_unknown_claim_is_created_and_runs(self, scene: Scene) -> None:
        scene.register()
        reply = scene.start(attempt=2, retries=1)
        assert (reply.verdict, reply.attempt) == (RUN, 2)
        fire = scene.c.claims([scene.key(1)])[0]
        assert fire is not None
        assert (fire.status, fire.token, fire.sent_as, fire.retries, fire.kind) == (Status.RUNNING, "t1", 2, 1, "task")
        assert scene.record().status is Status.RUNNING
        assert scene.finish().verdict == "recorded"
        assert scene.state().run_count == 1

    def test_unknown_claim_of_a_put_back_copy_is_a_duplicate(self, scene: Scene) -> None:
        assert scene.start(put_back=True).verdict is DUPLICATE
        assert scene.status() is None

    def test_a_fire_that_ended_by_the_history_is_a_duplicate(self, scene: Scene) -> None:
        """Its claim has expired; the broker delivers it once more."""
        scene.running()
        scene.finish()
        scene.backend.advance(TIMING.ended_ttl + 60)
        assert scene.status() is None
        assert scene.start(token="t2").verdict is DUPLICATE

    def test_a_stray_delivery_leaves_no_run_state(self, scene: Scene) -> None:
        assert scene.start().verdict is RUN
        scene.finish()
        assert scene.c.run_states(["a"]) == {}

    def test_unknown_claim_over_its_deadline_expires(self, scene: Scene) -> None:
        assert scene.start(deadline=scene.due(1)).verdict is StartVerdict.EXPIRED
        assert scene.record().status is Status.EXPIRED

    # --- 3: ended ---

    @pytest.mark.parametrize("status", [Status.SUCCESS, Status.ERROR, Status.TARGET_MISSING])
    def test_ended_is_a_duplicate(self, scene: Scene, status: Status) -> None:
        scene.running()
        scene.finish(status=status)
        assert scene.start(token="t2").verdict is DUPLICATE
        assert scene.start(token="t1").verdict is DUPLICATE
        assert scene.start(token="t3", retries=1).verdict is DUPLICATE
        assert scene.status() is status

    # --- 4: older and newer messages ---

    def test_an_older_message_is_a_duplicate(self, scene: Scene) -> None:
        scene.sent()
        scene.start(token="t1", retries=1)
        assert scene.start(token="t2", retries=0).verdict is DUPLICATE
        assert scene.start(token="t3", retries=0, put_back=True).verdict is DUPLICATE

    def test_a_newer_message_is_the_next_attempt_whatever_the_lease(self, scene: Scene) -> None:
        """``retry(countdown=0)``: the next message is out before the first attempt has ended."""
        scene.running()
        reply = scene.start(token="t2", retries=1)
        assert (reply.verdict, reply.attempt) == (RUN, 2)
        assert scene.finish(token="t1", status=Status.SENT).verdict == "recorded"
        assert scene.status() is Status.RUNNING
        assert scene.finish(token="t2").verdict == "recorded"
        assert (scene.record().attempt, scene.record().status) == (2, Status.SUCCESS)
        assert scene.state().run_count == 1

    def test_a_newer_attempt_outranks_retries(self, scene: Scene) -> None:
        scene.sent()
        scene.start(token="t1", retries=3)
        assert scene.start(token="t2", attempt=2, retries=0).verdict is RUN
        assert scene.start(token="t3", attempt=1, retries=4).verdict is DUPLICATE

    def test_a_newer_message_needs_no_deadline(self, scene: Scene) -> None:
        scene.running()
        assert scene.start(token="t2", retries=1, deadline=scene.due(1)).verdict is RUN

    # --- 5: the same delivery asks again ---

    def test_the_same_token_wins_again(self, scene: Scene) -> None:
        scene.sent()
        first = scene.start()
        scene.pass_time(2)
        assert scene.start() == first
        assert scene.record().attempt == 1

    # --- 6: another delivery runs it ---

    def test_a_live_lease_puts_the_delivery_back(self, scene: Scene) -> None:
        scene.running()
        reply = scene.start(token="t2")
        assert (reply.verdict, reply.attempt, reply.retry_after) == (PUT_BACK, 1, TIMING.lease)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [True]

    def test_the_put_back_copy_of_a_living_run_is_a_duplicate(self, scene: Scene) -> None:
        lease = scene.running()
        scene.start(token="t2")
        scene.pass_time(5)
        scene.c.renew_leases([lease])
        scene.pass_time(TIMING.lease - 5)
        assert scene.start(token="t3", put_back=True).verdict is DUPLICATE

    def test_a_put_back_copy_that_comes_early_is_put_back_again(self, scene: Scene) -> None:
        """Nothing has been renewed since, so nothing proves that the first one lives."""
        scene.running()
        scene.pass_time(4)
        scene.start(token="t2")
        scene.pass_time(4)
        assert scene.start(token="t3", put_back=True).verdict is PUT_BACK

    def test_a_lapsed_lease_is_the_next_attempt(self, scene: Scene) -> None:
        scene.running()
        scene.start(token="t2")
        scene.pass_time(TIMING.lease + 0.5)
        reply = scene.start(token="t3", put_back=True)
        assert (reply.verdict, reply.attempt) == (RUN, 2)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1"), Lease(scene.key(1), "t3")]) == [False, True]
        assert scene.state().run_count == 1

    def test_a_lapsed_lease_is_not_judged_after_a_silence(self, scene: Scene) -> None:
        lease = scene.running()
        scene.backend.advance(20)
        assert scene.start(token="t2").verdict is PUT_BACK
        assert scene.start(token="t3", put_back=True).verdict is PUT_BACK
        assert scene.c.renew_leases([lease]) == [True]
        scene.pass_time(TIMING.lease - 1)
        assert scene.start(token="t4", put_back=True).verdict is DUPLICATE

    def test_a_lease_that_lapsed_in_a_silence_proves_nothing(self, scene: Scene) -> None:
        """Renewed since the copy was put back, but not truly live."""
        lease = scene.running()
        scene.start(token="t2")
        scene.c.renew_leases([lease])
        scene.backend.advance(TIMING.lease + 5)
        assert scene.start(token="t3", put_back=True).verdict is PUT_BACK

    # --- 7: the queue deadline ---

    def test_over_its_deadline_it_expires(self, scene: Scene) -> None:
        scene.sent(deadline=1)
        past = scene.now() + timedelta(seconds=1)
        scene.pass_time(1.5)
        assert scene.start(deadline=past).verdict is StartVerdict.EXPIRED
        assert (scene.status(), scene.record().status) == (Status.EXPIRED, Status.EXPIRED)
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.run_count) == (0, None, 1)
        assert scene.start(token="t2").verdict is DUPLICATE

    def test_before_its_deadline_it_runs(self, scene: Scene) -> None:
        scene.sent(deadline=60)
        assert scene.start(deadline=scene.now() + timedelta(seconds=60)).verdict is RUN

    def test_a_deadline_is_not_judged_after_a_silence(self, scene: Scene) -> None:
        scene.sent(deadline=10)
        past = scene.now() + timedelta(seconds=10)
        scene.backend.advance(20)
        assert scene.start(deadline=past).verdict is RUN

    # --- 8: nobody runs it ---

    def test_sent_runs(self, scene: Scene) -> None:
        scene.sent()
        now = scene.c.attach().now
        reply = scene.start()
        assert (reply.verdict, reply.attempt) == (RUN, 1)
        assert near(reply.lease_until, now + timedelta(seconds=TIMING.lease))
        record = scene.record()
        assert (record.status, record.worker, near(record.started_at, now)) == (Status.RUNNING, "w1", True)

    def test_pending_runs_and_counts_as_confirmed(self, scene: Scene) -> None:
        hold = scene.pending()
        assert scene.start().verdict is RUN
        assert scene.sweep().entries == ()
        assert scene.c.confirm([hold]) == [False]
        state = scene.state()
        assert (state.run_count, state.last_run is not None) == (1, True)
        assert scene.record().sent_at is not None

    def test_a_batch_is_judged_one_by_one(self, scene: Scene) -> None:
        scene.sent()
        deliveries = [scene.delivery(1, "t1"), scene.delivery(1, "t2"), scene.delivery(2, "t3")]
        assert [r.verdict for r in scene.c.start(deliveries)] == [RUN, PUT_BACK, RUN]

    # --- lease ---

    def test_renewal_keeps_a_lease_alive(self, scene: Scene) -> None:
        lease = scene.running()
        for _ in range(3):
            scene.pass_time(TIMING.lease - 1)
            assert scene.c.renew_leases([lease]) == [True]
        assert scene.start(token="t2").verdict is PUT_BACK
        assert scene.c.reap() == []

    def test_a_lease_needs_the_running_token(self, scene: Scene) -> None:
        lease = scene.running()
        assert scene.c.renew_leases([Lease(lease.key, "t2"), Lease(scene.key(5), "t1")]) == [False, False]
        scene.c.finish([Outcome(lease=lease, status=Status.SUCCESS)])
        assert scene.c.renew_leases([lease]) == [False]
