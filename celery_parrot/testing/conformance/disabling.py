"""Failures in a row: the hold, and exactly one alert.

    class TestMine(DisablingConformance):
        @pytest.fixture
        def backend(self) -> Backend: ...

The coordinator is a :class:`~celery_parrot.protocols.Deliveries` and a
:class:`~celery_parrot.protocols.holding.Holding` as well.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import (
    WORKER_LOST,
    About,
    Busy,
    Drop,
    FinishVerdict,
    Grant,
    Lease,
    Limit,
    LimitRequest,
    Memory,
    Outcome,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, near
from celery_parrot.testing.conformance.telling import TellingScene


class DisablingConformance(Conformance):
    """What :meth:`~celery_parrot.protocols.Coordinator.finish` says of failures, at three in a row."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> TellingScene:
        assert coordinator.timing.max_failures == 3
        return TellingScene(coordinator, backend)

    def test_the_third_failure_holds_the_schedule(self, scene: TellingScene, other: Any) -> None:
        """For everybody, with a note; and one alert says what a person needs to know."""
        scene.failed(1, 2)
        assert (scene.held().by, scene.alerts()) == (None, [])
        scene.failed(3)
        held = scene.held()
        assert (held.by, held.mark) == ("failures", scene.due(3))
        assert near(held.at, scene.now())
        note = held.note or ""
        assert note.startswith("3 failures in a row since ")
        assert note.endswith(", last: ValueError: 3")
        assert scene.commit(4, mark=3, c=other).held == "failures"
        (alert,) = scene.alerts()
        first, last = scene.record(1), scene.record(3)
        assert (alert.id, alert.fire_id, alert.key, alert.name) == (
            f"{last.fire_id}:alert", last.fire_id, scene.key(3), "a",
        )  # fmt: skip
        assert (alert.status, alert.error, alert.failures, alert.failing_since, alert.finished_at) == (
            Status.ERROR, "ValueError: 3", 3, first.finished_at, last.finished_at,
        )  # fmt: skip
        state = scene.state()
        assert (state.disabled_by, state.consecutive_failures, state.failing_since) == (
            "failures", 3, first.finished_at,
        )  # fmt: skip

    def test_an_alert_needs_nobody_to_want_it(self, scene: TellingScene) -> None:
        """It goes to whom the settings name, not the schedule."""
        for n in (1, 2, 3):
            scene.started(n, tells=())
            scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
        assert [one.about for one in scene.queue()] == [About.ALERT]

    def test_failures_at_the_same_moment(self, scene: TellingScene) -> None:
        """Third and fourth in one call: both count, one alerts."""
        scene.failed(1, 2)
        scene.mark = 2
        scene.started(3, 4)
        outcomes = [
            Outcome(lease=Lease(scene.key(n), f"t{n}"), status=Status.ERROR, error=f"ValueError: {n}") for n in (3, 4)
        ]
        assert [reply.verdict for reply in scene.c.finish(outcomes)] == [FinishVerdict.RECORDED] * 2
        assert scene.state().consecutive_failures == 4
        assert [alert.due_at for alert in scene.alerts()] == [scene.due(3)]
        assert (scene.held().note or "").startswith("3 failures")

    def test_failures_of_several_workers_at_once(self, scene: TellingScene, backend: Backend) -> None:
        """Four processes, one fire each."""
        scene.started(1, 2, 3, 4)
        clients: list[Any] = [backend.client() for _ in range(4)]
        gate = threading.Barrier(4)
        verdicts: list[FinishVerdict] = []

        def fail(index: int) -> None:
            lease = Lease(scene.key(index + 1), f"t{index + 1}")
            gate.wait(10)
            (reply,) = clients[index].finish([Outcome(lease=lease, status=Status.ERROR, error="E: e")])
            verdicts.append(reply.verdict)

        threads = [threading.Thread(target=fail, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert verdicts == [FinishVerdict.RECORDED] * 4
        assert (scene.held().by, scene.state().consecutive_failures) == ("failures", 4)
        assert len(scene.alerts()) == 1
        for client in clients:
            client.close()

    def test_failures_while_it_is_disabled(self, scene: TellingScene) -> None:
        """What was sent before finishes and counts; nobody is told again, whatever comes in between."""
        scene.started(1, 2, 3, 4, 5, 6, 7, 8)
        for n in (1, 2, 3, 4):
            scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
        assert scene.state().consecutive_failures == 4
        scene.finish(5, "t5")
        assert (scene.held().by, scene.state().consecutive_failures) == ("failures", 0)
        for n in (6, 7, 8):
            scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
        assert scene.state().consecutive_failures == 3
        assert [alert.due_at for alert in scene.alerts()] == [scene.due(3)]

    def test_a_success_in_between(self, scene: TellingScene) -> None:
        scene.failed(1, 2)
        scene.ended(3)
        assert (scene.state().consecutive_failures, scene.state().failing_since) == (0, None)
        scene.failed(4, 5)
        assert (scene.held().by, scene.alerts()) == (None, [])
        assert scene.state().failing_since == scene.record(4).finished_at
        scene.failed(6)
        assert scene.held().by == "failures"

    @pytest.mark.parametrize("status", [Status.ERROR, Status.TARGET_MISSING, Status.ABANDONED])
    def test_what_counts(self, scene: TellingScene, status: Status) -> None:
        for n in (1, 2, 3):
            scene.ended(n, status, error="E: e")
        assert (scene.held().by, len(scene.alerts())) == ("failures", 1)

    def test_what_does_not_count(self, scene: TellingScene) -> None:
        """Revoked, expired, skipped, tried again, met twice: the row goes on behind them."""
        scene.failed(1, 2)
        scene.ended(3, Status.ERROR, reason="revoked", counted=False)
        scene.ended(4, Status.EXPIRED)
        scene.ended(5, Status.SKIPPED)
        scene.started(6)
        scene.finish(6, "t6", Status.SENT)
        scene.finish(2, "t2", Status.ERROR, error="ValueError: 2")
        assert scene.start(2, "t9").verdict == "duplicate"
        assert (scene.held().by, scene.state().consecutive_failures) == (None, 2)
        scene.failed(7)
        assert (scene.held().by, len(scene.alerts())) == ("failures", 1)

    def test_skips_for_a_busy_kind_are_no_successes(self, scene: TellingScene) -> None:
        """Fail, skip, fail, skip, fail: disabled."""
        limits: Any = scene.c
        kind = (Limit("kind:task", busy=Busy.SKIP),)
        scene.register("z")
        scene.commit(1, schedule_id="z", mark=0)
        held = LimitRequest(hold=scene.hold(1, schedule_id="z"), limits=kind)
        assert limits.request([held])[0].grant is Grant.GRANTED
        for n in (1, 2, 3, 4, 5):
            if n % 2:
                scene.failed(n)
                continue
            scene.commit(n, mark=scene.mark, tells=("success",))
            scene.mark = n
            assert limits.request([LimitRequest(hold=scene.hold(n), limits=kind)])[0].grant is Grant.SKIPPED
            assert scene.state().consecutive_failures == n // 2
        assert (scene.held().by, len(scene.alerts())) == ("failures", 1)
        assert About.SUCCESS not in [one.about for one in scene.queue()]

    def test_workers_that_are_lost(self, scene: TellingScene) -> None:
        """The reaper's failures count like any other, several at once too."""
        scene.started(1, 2, 3, 4)
        scene.pass_time(TIMING.lease + 1)
        assert len(scene.c.reap()) == 4
        assert (scene.held().by, scene.state().consecutive_failures) == ("failures", 4)
        (alert,) = scene.alerts()
        assert (alert.status, alert.reason, alert.failures) == (Status.ABANDONED, WORKER_LOST, 3)
        assert WORKER_LOST in (scene.held().note or "")

    def test_what_cannot_be_sent(self, scene: TellingScene) -> None:
        """A dropped fire that is an error counts."""
        scene.failed(1, 2)
        scene.commit(3, mark=2)
        scene.c.drop([Drop(hold=scene.hold(3), status=Status.ERROR, reason="not to be encoded")])
        assert (scene.held().by, len(scene.alerts())) == ("failures", 1)

    def test_repeated_outcomes(self, scene: TellingScene) -> None:
        """After a lost reply nothing is counted twice, and nobody alerted twice."""
        scene.failed(1, 2, 3)
        for n in (1, 2, 3):
            scene.finish(n, f"t{n}", Status.ERROR, error=f"ValueError: {n}")
        assert (scene.state().consecutive_failures, len(scene.alerts())) == (3, 1)

    def test_what_a_person_paused_stays_a_persons(self, scene: TellingScene) -> None:
        """It does not fire anyway, so there is nothing to alert of."""
        scene.started(1, 2, 3)
        scene.holding.hold(["a"], "person", "mine")
        for n in (1, 2, 3):
            scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
        assert (scene.held().by, scene.held().note, scene.alerts()) == ("person", "mine", [])
        assert scene.state().consecutive_failures == 3
        scene.resume()
        assert scene.state().consecutive_failures == 0

    def test_resume(self, scene: TellingScene) -> None:
        """Starts anew: another series is another alert."""
        scene.failed(1, 2, 3)
        scene.resume()
        state = scene.state()
        assert (state.disabled_by, state.consecutive_failures, state.failing_since) == (None, 0, None)
        scene.failed(4, 5)
        assert scene.held().by is None
        scene.failed(6)
        assert scene.held().by == "failures"
        assert [alert.due_at for alert in scene.alerts()] == [scene.due(3), scene.due(6)]

    def test_the_hold_survives_a_loss_of_memory(self, scene: TellingScene, backend: Backend) -> None:
        """With the mark of a beat that knew of it; nobody is alerted of it again."""
        scene.failed(1, 2, 3)
        assert scene.commit(4, mark=3).verdict is Verdict.HELD
        mark = scene.register()
        backend.flush()
        scene.c.remember(Memory(marks=(mark,)))
        assert scene.held().by == "failures"
        scene.pass_time(TIMING.lease + 1)
        assert scene.commit(4, mark=3).verdict is Verdict.HELD
        assert scene.alerts() == []

    def test_other_schedules_go_on(self, scene: TellingScene) -> None:
        scene.register("z")
        scene.failed(1, 2, 3)
        assert scene.commit(1, schedule_id="z", mark=0).verdict is Verdict.COMMITTED
