"""Finish, run state, and the reaper."""

from __future__ import annotations

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import WORKER_LOST, FinishVerdict, Lease, Outcome, StartVerdict
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Scene, near

RECORDED, LATE, UNKNOWN = FinishVerdict.RECORDED, FinishVerdict.LATE, FinishVerdict.UNKNOWN


class Finishes(Conformance):
    def test_success(self, scene: Scene) -> None:
        scene.running()
        now = scene.c.attach().now
        assert scene.finish(output="42") == type(scene.finish())(verdict=RECORDED)
        record = scene.record()
        assert (record.status, record.output, near(record.finished_at, now)) == (Status.SUCCESS, "42", True)
        state = scene.state()
        assert (state.last_status, state.last_result, state.last_error) == ("success", "42", None)
        assert near(state.last_result_at, now)
        fire = scene.c.claims([scene.key(1)])[0]
        assert fire is not None
        assert (fire.status, fire.token, fire.lease_until) == (Status.SUCCESS, "", None)

    @pytest.mark.parametrize("status", [Status.ERROR, Status.TARGET_MISSING])
    def test_failure(self, scene: Scene, status: Status) -> None:
        scene.running()
        scene.finish(status=status, error="ValueError: no ünïcode \u2026", reason="why")
        state = scene.state()
        assert (state.last_status, state.last_error) == (status.value, "ValueError: no ünïcode \u2026")
        assert (state.consecutive_failures, state.last_error_at is not None) == (1, True)
        assert (scene.record().error, scene.record().reason) == ("ValueError: no ünïcode \u2026", "why")

    def test_texts_come_back_as_they_were(self, scene: Scene) -> None:
        text = 'a "b" \\ \n\t {} [] null \x00 \U0001f99c ' + "x" * 4000
        scene.running()
        scene.finish(output=text)
        assert scene.record().output == text
        assert scene.state().last_result == text

    def test_empty_output_is_not_none(self, scene: Scene) -> None:
        scene.running()
        scene.finish(output="")
        assert (scene.record().output, scene.record().error) == ("", None)

    def test_success_clears_the_error_and_the_failure_count(self, scene: Scene) -> None:
        for n, status in enumerate([Status.ERROR, Status.ERROR, Status.SUCCESS], start=1):
            scene.start(n, f"t{n}") if n > 1 else scene.running(1)
            scene.finish(n, f"t{n}", status, error=None if status is Status.SUCCESS else "E: e")
        state = scene.state()
        assert (state.consecutive_failures, state.last_error, state.last_status) == (0, None, "success")

    def test_uncounted_and_neutral_outcomes_leave_the_failure_count(self, scene: Scene) -> None:
        scene.running(1)
        scene.finish(1, "t1", Status.ERROR, error="E: e")
        outcomes = [(Status.ERROR, False), (Status.EXPIRED, True), (Status.SKIPPED, True), (Status.ERROR, True)]
        for n, (status, counted) in enumerate(outcomes, start=2):
            scene.start(n, f"t{n}")
            scene.finish(n, f"t{n}", status, counted=counted, error="E: f", reason="revoked")
            assert scene.state().consecutive_failures == (2 if n == 5 else 1)

    def test_two_failures_at_once_both_count(self, scene: Scene) -> None:
        scene.running(1)
        scene.start(2, "t2")
        outcomes = [Outcome(lease=Lease(scene.key(n), f"t{n}"), status=Status.ERROR, error="E: e") for n in (1, 2)]
        assert [r.verdict for r in scene.c.finish(outcomes)] == [RECORDED, RECORDED]
        assert scene.state().consecutive_failures == 2

    def test_repeating_an_outcome_is_recorded_once(self, scene: Scene) -> None:
        scene.running()
        assert scene.finish(status=Status.ERROR, error="E: e").verdict is RECORDED
        assert scene.finish(status=Status.ERROR, error="E: e").verdict is RECORDED
        assert scene.state().consecutive_failures == 1
        assert scene.record().late_result is None

    def test_unknown_claim(self, scene: Scene) -> None:
        scene.register()
        assert scene.finish().verdict is UNKNOWN
        assert scene.c.fires("a") == []

    # --- late ---

    def test_the_wrong_token_ends_nothing(self, scene: Scene) -> None:
        scene.running()
        assert scene.finish(token="t2", output="late").verdict is LATE
        assert scene.status() is Status.RUNNING
        assert scene.record().output is None

    def test_a_late_result_is_kept_as_a_note(self, scene: Scene) -> None:
        scene.running()
        scene.pass_time(TIMING.lease + 1)
        assert len(scene.c.reap()) == 1
        assert scene.finish(output="late 42").verdict is LATE
        record = scene.record()
        assert (record.status, record.output) == (Status.ABANDONED, None)
        assert "late 42" in (record.late_result or "")
        state = scene.state()
        assert (state.last_status, state.last_result, state.consecutive_failures) == ("error", None, 1)

    def test_a_successor_is_not_touched_by_a_late_finish(self, scene: Scene) -> None:
        scene.running()
        scene.pass_time(TIMING.lease + 0.5)
        assert scene.start(token="t2").attempt == 2
        assert scene.finish(token="t1", output="late").verdict is LATE
        assert scene.status() is Status.RUNNING
        assert scene.finish(token="t2", output="good").verdict is RECORDED
        record = scene.record()
        assert (record.output, record.attempt) == ("good", 2)
        assert "late" in (record.late_result or "")

    # --- without a token ---

    @pytest.mark.parametrize("where", ["pending", "sent"])
    def test_an_empty_token_ends_what_nobody_runs(self, scene: Scene, where: str) -> None:
        scene.pending() if where == "pending" else scene.sent()
        assert scene.finish(token="", status=Status.ERROR, reason="revoked", counted=False).verdict is RECORDED
        assert scene.status() is Status.ERROR
        assert scene.sweep().entries == ()
        assert (scene.state().run_count, scene.state().consecutive_failures) == (1, 0)
        assert scene.finish(token="", status=Status.ERROR, reason="revoked", counted=False).verdict is RECORDED
        assert scene.start().verdict is StartVerdict.DUPLICATE

    def test_an_empty_token_ends_nothing_that_runs_or_has_ended(self, scene: Scene) -> None:
        scene.running()
        assert scene.finish(token="", status=Status.ERROR, reason="revoked").verdict is LATE
        assert scene.status() is Status.RUNNING
        scene.finish()
        assert scene.finish(token="", status=Status.ERROR, reason="revoked").verdict is LATE
        assert (scene.status(), scene.record().late_result) == (Status.SUCCESS, None)

    # --- retry ---

    def test_a_retry_keeps_the_fire(self, scene: Scene) -> None:
        scene.running()
        assert scene.finish(status=Status.SENT).verdict is RECORDED
        fire = scene.c.claims([scene.key(1)])[0]
        assert fire is not None
        assert (fire.status, fire.token, fire.lease_until) == (Status.SENT, "", None)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []  # waiting for its countdown, it has no lease to lose
        reply = scene.start(token="t2", retries=1)
        assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 2)
        assert scene.finish(token="t2", output="ok").verdict is RECORDED
        assert len(scene.c.fires("a")) == 1
        assert (scene.state().run_count, scene.state().consecutive_failures) == (1, 0)

    def test_a_redelivery_of_the_retried_message_is_a_duplicate(self, scene: Scene) -> None:
        scene.running()
        scene.finish(status=Status.SENT)
        assert scene.start(token="t2", retries=0).verdict is StartVerdict.DUPLICATE

    def test_repeating_a_retry_is_recorded(self, scene: Scene) -> None:
        scene.running()
        scene.finish(status=Status.SENT)
        assert scene.finish(status=Status.SENT).verdict is RECORDED
        assert scene.start(token="t2", retries=1).attempt == 2
        assert scene.finish(status=Status.SENT).verdict is RECORDED
        assert scene.status() is Status.RUNNING

    # --- reap ---

    def test_reap(self, scene: Scene) -> None:
        scene.running()
        scene.pass_time(TIMING.lease - 1)
        assert scene.c.reap() == []
        scene.pass_time(1.5)
        reaped = scene.c.reap()
        assert [(r.fire.key, r.fire.status, r.fire.reason) for r in reaped] == [
            (scene.key(1), Status.ABANDONED, WORKER_LOST)
        ]
        assert scene.c.reap() == []
        assert (scene.record().status, scene.record().reason) == (Status.ABANDONED, WORKER_LOST)
        state = scene.state()
        assert (state.last_status, state.last_error, state.consecutive_failures) == ("error", WORKER_LOST, 1)
        assert scene.start(token="t2").verdict is StartVerdict.DUPLICATE

    def test_reap_takes_the_longest_lapsed_first(self, scene: Scene) -> None:
        scene.running(1, "t1")
        scene.pass_time(1)
        scene.start(2, "t2")
        scene.pass_time(TIMING.lease + 1)
        assert [r.fire.key for r in scene.c.reap(limit=1)] == [scene.key(1)]
        assert [r.fire.key for r in scene.c.reap(limit=1)] == [scene.key(2)]

    def test_reap_leaves_a_put_back_fire_for_two_leases(self, scene: Scene) -> None:
        scene.running()
        scene.pass_time(TIMING.lease - 1)
        assert scene.start(token="t2").verdict is StartVerdict.PUT_BACK
        scene.pass_time(2 * TIMING.lease - 1)
        assert scene.c.reap() == []
        scene.pass_time(1.5)
        assert len(scene.c.reap()) == 1

    def test_reap_judges_nobody_after_a_silence(self, scene: Scene) -> None:
        lease = scene.running()
        scene.backend.advance(60)
        assert scene.c.reap() == []
        scene.pass_time(TIMING.lease - 1)
        assert scene.c.reap() == []
        assert scene.c.renew_leases([lease]) == [True]
        scene.pass_time(2)
        assert scene.c.reap() == []
        assert scene.finish().verdict is RECORDED
