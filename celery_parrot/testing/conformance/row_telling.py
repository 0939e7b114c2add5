"""What rows that decide do about failures in a row, and about what is to be told: they hold, and they owe parcels.

    class TestMine(RowTellingConformance):
        @pytest.fixture
        def stores(self) -> StoreBackend: ...

What the suite expects of every client: three failures in a row disable a schedule.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import NotFired, Plan, Verdict
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.protocols import About, Owing, Parcel
from celery_parrot.protocols.editing import Change, State
from celery_parrot.protocols.ledger import Carried
from celery_parrot.testing.conformance.row_store import RowScene
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreBackend, make

TELL: dict[str, Any] = {"missed_callbacks": ({"type": "file", "path": "missed.txt"},)}


class RowTellingScene(RowScene):
    """One schedule ``a``, and fires of it."""

    def __init__(self, backend: StoreBackend) -> None:
        super().__init__(backend)
        self.committed = 0

    def outcomes(self, *statuses: Status, **fields: Any) -> list[Carried]:
        """What the coordinator tells of so many fires, which are committed first. Their keys hold until time moves."""
        self.backend.advance(len(statuses) * EVERY)
        (made,) = self.plans(on_time=1e6)
        self.committed += 1
        assert len(made.fires) == len(statuses)
        assert self.advance(made, token=f"t{self.committed}") == [Verdict.COMMITTED]
        told = zip(made.fires, statuses, strict=True)
        return [
            self.carried(replace(made, fires=(fire,)), status, 2, **{"error": "E: x", **fields})
            for fire, status in told
        ]

    def ended(self, *statuses: Status, **fields: Any) -> None:
        for item in self.outcomes(*statuses, **fields):
            self.s.record([item])

    def owed(self) -> list[Parcel]:
        return list(self.s.owed())

    def note(self, status: str, tries: int, at: str = "2026-01-01T00:00:00+00:00") -> dict[str, Any]:
        """What the coordinator keeps in a history entry."""
        callbacks = [{"callback": "mine", "status": status, "error": "ü", "at": None, "tries": tries}]
        return {"status": status, "at": at, "tries": tries, "callbacks": callbacks}


class RowTellingConformance:
    """Subclass and override ``stores``."""

    @pytest.fixture
    def stores(self) -> StoreBackend:
        """The implementation under test, empty. Override."""
        raise NotImplementedError("override the fixture stores")

    @pytest.fixture
    def scene(self, stores: StoreBackend) -> RowTellingScene:
        scene = RowTellingScene(stores)
        assert isinstance(scene.s, Owing)
        return scene

    @pytest.fixture
    def failing(self, scene: RowTellingScene) -> RowTellingScene:
        """``a``, with two failures in a row."""
        scene.add("a")
        scene.due()
        scene.ended(Status.ERROR, Status.ERROR)
        return scene

    # --- failures ---

    def test_the_third_failure_disables_the_row(self, failing: RowTellingScene) -> None:
        """In the same transaction, with a note; the alert is owed until it is settled."""
        assert (failing.get("a").state, failing.owed()) == (State.ACTIVE, [])
        first = failing.history()[-1]
        (item,) = failing.outcomes(Status.TARGET_MISSING)
        before = failing.get("a")
        failing.s.record([item])
        stored = failing.get("a")
        assert (stored.state, stored.held, stored.run_state.disabled_by) == (State.DISABLED, "failures", "failures")
        assert (stored.note or "").startswith("3 failures in a row since ")
        assert (stored.note or "").endswith(", last: E: x")
        assert stored.schedule is not None
        assert before.schedule is not None
        assert stored.schedule.version == before.schedule.version
        assert stored.run_state.next_run is not None
        (alert,) = failing.owed()
        assert (alert.id, alert.key, alert.name, alert.about, alert.status) == (
            f"{item.record.fire_id}:alert", item.record.key, "a", About.ALERT, Status.TARGET_MISSING,
        )  # fmt: skip
        assert (alert.error, alert.failures, alert.finished_at) == ("E: x", 3, item.record.finished_at)
        since = stored.run_state.failing_since
        assert since is not None
        assert first.finished_at is not None
        assert alert.failing_since == since
        assert since <= first.finished_at
        failing.s.settled([alert.id, "unknown"])
        failing.s.settled([alert.id])
        assert failing.owed() == []

    def test_a_disabled_row_is_not_due(self, failing: RowTellingScene) -> None:
        """Nor for a client that starts later, and a plan from before is refused."""
        failing.backend.advance(EVERY)
        (made,) = failing.plans()
        late = [failing.carried(made, Status.ERROR, 2, error="E: x")]
        failing.advance(made, token="t9")
        failing.backend.advance(EVERY)
        (planned,) = failing.plans()
        failing.s.record(late)
        assert failing.due(store=failing.backend.store()) == []
        assert failing.advance(planned, token="t10") == [Verdict.HELD]

    def test_failures_at_the_same_moment(self, failing: RowTellingScene) -> None:
        """Third and fourth in one batch, and one more after it: all count, one alerts."""
        items = failing.outcomes(Status.ERROR, Status.ERROR, Status.ERROR)
        failing.s.record(items[:2])
        failing.s.record(items[2:])
        assert failing.state().consecutive_failures == 5
        assert [one.key for one in failing.owed()] == [items[0].record.key]

    def test_failures_carried_by_several_beats_at_once(self, scene: RowTellingScene) -> None:
        """Each carries all of them, and another order comes first."""
        scene.add("a")
        scene.due()
        items = scene.outcomes(*[Status.ERROR] * 4)
        clients = [scene.backend.store() for _ in range(4)]
        gate = threading.Barrier(4)
        faults: list[Exception] = []

        def carry(index: int) -> None:
            gate.wait(10)
            try:
                for item in items[index:] + items[:index]:
                    clients[index].record([item])
            except Exception as exc:
                faults.append(exc)

        threads = [threading.Thread(target=carry, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert faults == []
        assert (scene.state().consecutive_failures, scene.state().disabled_by) == (4, "failures")
        assert len(scene.owed()) == 1

    def test_a_repeat_owes_nothing_more(self, failing: RowTellingScene) -> None:
        """Before the alert was queued it is owed all the same, after that it is not owed again."""
        items = failing.outcomes(Status.ERROR)
        failing.s.record(items)
        failing.s.record(items)
        (alert,) = failing.owed()
        failing.s.settled([alert.id])
        failing.s.record(items)
        assert (failing.owed(), failing.state().consecutive_failures) == ([], 3)

    def test_a_success_in_between(self, failing: RowTellingScene) -> None:
        failing.ended(Status.SUCCESS, Status.ERROR, Status.ERROR)
        assert (failing.state().disabled_by, failing.owed()) == (None, [])
        failing.ended(Status.ERROR)
        assert failing.state().disabled_by == "failures"

    def test_what_does_not_count(self, failing: RowTellingScene) -> None:
        """Trace 25, and a failure that does not count."""
        skip = {"output": '{"in_flight_skip": true, "held_by": "x"}', "sent_at": None, "error": None}
        failing.ended(Status.SUCCESS, **skip)
        failing.ended(Status.ERROR, counted=False)
        failing.ended(Status.EXPIRED)
        assert (failing.state().disabled_by, failing.state().consecutive_failures) == (None, 2)
        failing.ended(Status.ABANDONED)
        assert (failing.state().disabled_by, len(failing.owed())) == ("failures", 1)

    def test_what_a_person_paused_stays_a_persons(self, failing: RowTellingScene) -> None:
        items = failing.outcomes(Status.ERROR, Status.ERROR)
        failing.s.hold([make("a").schedule_id], "person", "mine")
        failing.s.record(items)
        stored = failing.get("a")
        assert (stored.held, stored.note, failing.owed()) == ("person", "mine", [])

    def test_resume_starts_anew(self, failing: RowTellingScene) -> None:
        """Another series is another alert."""
        failing.ended(Status.ERROR)
        (first,) = failing.owed()
        failing.s.settled([first.id])
        failing.s.release([make("a").schedule_id])
        assert (failing.state().failing_since, failing.get("a").state) == (None, State.ACTIVE)
        failing.due()
        failing.ended(Status.ERROR, Status.ERROR)
        assert failing.get("a").state is State.ACTIVE
        failing.ended(Status.ERROR)
        assert (failing.get("a").state, len(failing.owed())) == (State.DISABLED, 1)

    def test_rows_of_a_batch_are_independent(self, failing: RowTellingScene) -> None:
        """One disabled, the other not."""
        failing.add("b")
        failing.due()
        failing.backend.advance(EVERY)
        plans = failing.plans()
        assert len(plans) == 2
        failing.advance(*plans, token="t9")
        failing.s.record([failing.carried(made, Status.ERROR, 2, error="E: x") for made in plans])
        assert [failing.get(name).state for name in ("a", "b")] == [State.DISABLED, State.ACTIVE]

    # --- missed ---

    def test_missed_ranges_are_owed(self, scene: RowTellingScene) -> None:
        """One parcel each, with the row that moves; none of a plan that lost, and none twice."""
        made = self.backlog(scene, **TELL)
        assert made.tells == ("missed",)
        assert scene.advance(made) == [Verdict.COMMITTED]
        assert scene.advance(made) == [Verdict.COMMITTED]
        assert scene.advance(made, token="t2") == [Verdict.MOVED]
        (gone,) = made.not_fired
        (parcel,) = scene.owed()
        (entry,) = [one for one in scene.history() if one.status is Status.MISSED]
        assert (parcel.about, parcel.key, parcel.until, parcel.count, parcel.reason, parcel.fire_id) == (
            About.MISSED, FireKey(made.schedule_id, gone.first), gone.last, gone.count, gone.reason, entry.fire_id,
        )  # fmt: skip
        assert parcel.id == f"{entry.fire_id}:missed"
        scene.s.settled([parcel.id])
        scene.advance(made)
        assert scene.owed() == []

    def test_nobody_asked(self, scene: RowTellingScene) -> None:
        scene.advance(self.backlog(scene))
        assert scene.owed() == []

    def test_due_times_that_an_edit_made_void(self, scene: RowTellingScene) -> None:
        """They are missed as well, and told as the new definition says."""
        schedule = scene.add("a", **TELL)[0]
        scene.due()
        scene.backend.advance(3 * EVERY)
        stored = scene.get("a")
        assert stored.schedule is not None
        changed = make("a", schedule_config={"seconds": 7 * EVERY}, **TELL)
        scene.s.replace([Change(schedule=changed)])
        scene.due()
        (parcel,) = scene.owed()
        assert (parcel.key.schedule_id, parcel.reason, parcel.count) == (schedule.schedule_id, "superseded", 3)

    @staticmethod
    def backlog(scene: RowTellingScene, **changes: Any) -> Plan:
        policy = Policy(missed=Missed.COALESCE)
        _, made = scene.one_due(periods=4, policy=policy, **changes)
        ranges: Sequence[NotFired] = made.not_fired
        assert len(ranges) == 1
        return made

    # --- what was told ---

    def test_a_report_reaches_the_row(self, scene: RowTellingScene) -> None:
        """The run state and the history row; with the outcome or after it."""
        scene.add("a")
        scene.due()
        (item,) = scene.outcomes(Status.SUCCESS, output="42", error=None)
        self.told(scene, item, 2, success=scene.note("retrying", 1))
        state = scene.state()
        assert (state.last_status, state.last_result, state.last_delivery_status) == ("success", "42", "retrying")
        self.told(scene, item, 3, success=scene.note("delivered", 2, "2026-01-01T00:00:09+00:00"))
        state = scene.state()
        assert state.last_delivery_status == "delivered"
        assert state.last_delivery_at is not None
        assert state.last_delivery_at.isoformat() == "2026-01-01T00:00:09+00:00"
        assert list(state.last_callbacks) == scene.note("delivered", 2)["callbacks"]
        assert state.run_count == 1
        (entry,) = scene.history()
        assert (entry.delivery["success"]["status"], entry.output, entry.status) == (
            "delivered", "42", Status.SUCCESS,
        )  # fmt: skip

    def test_older_reports(self, scene: RowTellingScene) -> None:
        """One with fewer tries says nothing; one of an older fire is noted with that fire."""
        scene.add("a")
        scene.due()
        one, two = scene.outcomes(Status.SUCCESS, Status.SUCCESS)
        self.told(scene, two, 3, success=scene.note("delivered", 2))
        self.told(scene, one, 3, success=scene.note("failed", 5))
        self.told(scene, two, 4, success=scene.note("retrying", 1))
        assert scene.state().last_delivery_status == "delivered"
        newest, oldest = scene.history()
        assert [entry.delivery["success"]["status"] for entry in (newest, oldest)] == ["delivered", "failed"]

    def test_an_alert_is_noted_with_its_fire_alone(self, scene: RowTellingScene) -> None:
        scene.add("a")
        scene.due()
        (item,) = scene.outcomes(Status.ERROR)
        self.told(scene, item, 3, alert=scene.note("failed", 1))
        assert scene.state().last_delivery_status is None
        assert scene.history()[0].delivery["alert"]["status"] == "failed"

    def test_a_traceback_is_kept(self, scene: RowTellingScene) -> None:
        scene.add("a")
        scene.due()
        scene.ended(Status.ERROR, traceback='File "ü.py" \U0001f99c')
        assert scene.history()[0].traceback == 'File "ü.py" \U0001f99c'

    @staticmethod
    def told(scene: RowTellingScene, item: Carried, serial: int, **notes: Any) -> None:
        made = Carried(record=replace(item.record, delivery=notes), serial=serial, counted=item.counted)
        scene.s.record([made])
