"""What every store keeps whose rows decide commits: the compare-and-set, its proof, run state and history."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Origin, Proof, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.schedule import Missed, Policy, Schedule
from celery_parrot.model.state import RunState
from celery_parrot.planning import plan
from celery_parrot.protocols.editing import Change, State
from celery_parrot.protocols.ledger import Advance, Carried
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreBackend, StoreScene, make

NAMESPACE = Namespace("conformance")
HISTORY_LIMIT = 20
"""What the suite expects of every client: ``history_limit=20, history_days=30``."""


class RowScene(StoreScene):
    """Plans of due schedules, and what is done with them."""

    def plans(self, *, after: float = 0.0, on_time: float = 10.0, store: Any = None) -> list[Plan]:
        now = self.backend.now() + timedelta(seconds=after)
        made = [
            plan(due.schedule, due.trigger, due.mark, now, on_time=on_time)
            for due in self.due(after=after, store=store)
        ]
        return [one for one in made if one is not None]

    @staticmethod
    def move(made: Plan, token: str = "t1") -> Advance:
        keys = [FireKey(made.schedule_id, fire.due_at) for fire in made.fires]
        return Advance(plan=made, token=token, fires=tuple((key, NAMESPACE.fire_id(key)) for key in keys))

    def advance(self, *plans: Plan, token: str = "t1", beat: str = "b1", store: Any = None) -> list[Verdict]:
        answers = (store or self.s).advance([self.move(one, token) for one in plans], beat)
        return [verdict for verdict, _ in answers]

    def one_due(self, name: str = "a", periods: int = 1, **changes: Any) -> tuple[Schedule, Plan]:
        """A schedule with ``periods`` undecided due times, and the plan for them."""
        made = self.add(name, **changes)[0]
        self.due()
        self.backend.advance(periods * EVERY)
        (planned,) = [one for one in self.plans() if one.schedule_id == made.schedule_id]
        return made, planned

    def entry(self, made: Plan, number: int = 0, *, token: str = "t1", owner: str = "b1") -> Fire:
        """An outbox entry that was prepared for a plan."""
        now = self.backend.now()
        return Fire(
            key=FireKey(made.schedule_id, made.fires[number].due_at),
            name=made.name,
            kind=made.kind,
            owner=owner,
            owned_at=now,
            committed_at=now,
            store="db",
            proof=Proof(token, made.to_json()),
        )

    def carried(self, made: Plan, status: Status, serial: int, *, counted: bool = True, **fields: Any) -> Carried:
        """What the coordinator tells of the plan's first fire."""
        key = FireKey(made.schedule_id, made.fires[0].due_at)
        now = self.backend.now()
        stamps: dict[str, datetime] = {"committed_at": now}
        if status not in (Status.PENDING, Status.SKIPPED, Status.MISSED):
            stamps["sent_at"] = now
        if status.terminal:
            stamps["finished_at"] = now
        record = FireRecord(
            fire_id=NAMESPACE.fire_id(key),
            key=key,
            name=made.name,
            kind=made.kind,
            origin=Origin.SCHEDULE,
            status=status,
            **{**stamps, **fields},
        )
        return Carried(record=record, serial=serial, counted=counted)

    def state(self, name: str = "a") -> RunState:
        return self.get(name).run_state

    def history(self, name: str = "a", limit: int = 100) -> list[FireRecord]:
        return list(self.s.fires(make(name).schedule_id, limit=limit))


class RowStoreConformance:
    """Subclass and override ``stores``."""

    @pytest.fixture
    def stores(self) -> StoreBackend:
        """The implementation under test. Override."""
        raise NotImplementedError("override the fixture stores")

    @pytest.fixture
    def scene(self, stores: StoreBackend) -> RowScene:
        return RowScene(stores)

    # --- advance ---

    def test_advance_moves_the_row_and_writes_history(self, scene: RowScene) -> None:
        """Mark, next run and one pending entry a fire, in one step; then nothing is due."""
        _, made = scene.one_due()
        ((verdict, mark),) = scene.s.advance([scene.move(made)], "b1")
        assert (verdict, mark) == (Verdict.COMMITTED, made.new_mark)
        assert scene.names() == []
        state = scene.state()
        assert (state.last_due, state.next_run, state.auto_count) == (made.new_mark, made.next_at, 1)
        assert state.run_count == 0
        (entry,) = scene.history()
        assert (entry.status, entry.beat, entry.due_at) == (Status.PENDING, "b1", made.fires[0].due_at)
        assert entry.fire_id == NAMESPACE.fire_id(entry.key)
        assert entry.committed_at is not None

    def test_ranges_are_written_with_their_count(self, scene: RowScene) -> None:
        """Every due time of a backlog is one of fired and missed."""
        _, made = scene.one_due(periods=10)
        assert scene.advance(made) == [Verdict.COMMITTED]
        fired = [entry for entry in scene.history() if entry.status is Status.PENDING]
        missed = [entry for entry in scene.history() if entry.status is Status.MISSED]
        assert len(fired) == 1
        assert sum(entry.count for entry in missed) == 9
        assert {entry.reason for entry in missed} <= {"too_late", "coalesced"}
        assert fired[0].origin in (Origin.SCHEDULE, Origin.CATCH_UP)

    def test_catch_up_fires_each(self, scene: RowScene) -> None:
        """In order, with none lost."""
        _, made = scene.one_due(periods=5, policy=Policy(missed=Missed.CATCH_UP, misfire_grace=None))
        scene.advance(made)
        assert [entry.due_at for entry in scene.history()] == [fire.due_at for fire in reversed(made.fires)]
        assert len(made.fires) == 5
        assert scene.state().auto_count == 5

    def test_a_plan_from_another_mark_changes_nothing(self, scene: RowScene) -> None:
        """Two beats recover at once: the second one is told the mark and decides anew."""
        _, made = scene.one_due(periods=3)
        theirs = scene.plans(store=scene.other)
        assert scene.advance(made) == [Verdict.COMMITTED]
        before = scene.history()
        ((verdict, mark),) = scene.other.advance([scene.move(theirs[0], "t2")], "b2")
        assert (verdict, mark) == (Verdict.MOVED, made.new_mark)
        assert scene.history() == before

    def test_an_edit_between_plan_and_advance_refuses_it(self, scene: RowScene) -> None:
        """The due time is planned anew, with the new prompt, and not lost (traces 21 and 22)."""
        schedule, made = scene.one_due()
        scene.s.replace([Change(schedule=replace(schedule, prompt="new"))])
        assert scene.advance(made) == [Verdict.MOVED]
        assert scene.history() == []
        (again,) = scene.plans()
        assert [fire.due_at for fire in again.fires] == [fire.due_at for fire in made.fires]
        assert scene.due()[0].schedule.prompt == "new"
        assert scene.advance(again, token="t2") == [Verdict.COMMITTED]

    @pytest.mark.parametrize("by", ["person", "failures"])
    def test_a_pause_between_plan_and_advance_holds_it(self, scene: RowScene, by: str) -> None:
        """Nothing is written and no mark moves."""
        schedule, made = scene.one_due()
        scene.s.hold([schedule.schedule_id], by, "")
        ((verdict, mark),) = scene.s.advance([scene.move(made)], "b1")
        assert (verdict, mark) == (Verdict.HELD, made.expected_mark)
        assert scene.history() == []

    def test_disabling_between_plan_and_advance_refuses_it(self, scene: RowScene) -> None:
        """Only the entry of what was superseded is there."""
        schedule, made = scene.one_due()
        scene.s.replace([Change(schedule=replace(schedule, enabled=False))])
        assert scene.advance(made)[0] in (Verdict.HELD, Verdict.MOVED)
        assert [entry.reason for entry in scene.history()] == ["superseded"]

    def test_a_deleted_row_is_unknown(self, scene: RowScene) -> None:
        """And so is one that never was, a code schedule's name included."""
        schedule, made = scene.one_due()
        scene.s.delete([schedule.schedule_id])
        strange = replace(made, schedule_id="a code schedule")
        assert scene.advance(made, strange) == [Verdict.UNKNOWN, Verdict.UNKNOWN]
        assert scene.history() == []

    def test_plans_of_a_batch_are_independent(self, scene: RowScene) -> None:
        """One that lost does not take the others with it; answers come in order."""
        scene.add("a", "b", "c")
        scene.due()
        scene.backend.advance(EVERY)
        made = {one.name: one for one in scene.plans()}
        scene.advance(made["b"], token="t0", beat="b0")
        verdicts = scene.advance(made["c"], made["b"], made["a"])
        assert verdicts == [Verdict.COMMITTED, Verdict.MOVED, Verdict.COMMITTED]

    def test_a_repeat_after_a_lost_reply_is_committed(self, scene: RowScene) -> None:
        """Trace 4: the token in the history rows proves it, and nothing is written twice."""
        _, made = scene.one_due(periods=3)
        assert scene.advance(made) == [Verdict.COMMITTED]
        before = (scene.history(), scene.state())
        assert scene.advance(made) == [Verdict.COMMITTED]
        assert (scene.history(), scene.state()) == before
        assert scene.advance(made, token="t2") == [Verdict.MOVED]

    def test_a_repeat_is_recognised_although_the_row_is_gone(self, scene: RowScene) -> None:
        """The history outlives its schedule."""
        schedule, made = scene.one_due()
        scene.advance(made)
        scene.s.delete([schedule.schedule_id])
        assert scene.advance(made) == [Verdict.COMMITTED]

    def test_exactly_one_of_eight_wins_each_row(self, scene: RowScene) -> None:
        """Whatever the order in which they name the rows, and without one waiting for the other for ever."""
        names = [f"s{n:02}" for n in range(12)]
        scene.add(*names)
        scene.due()
        scene.backend.advance(EVERY)
        made = scene.plans()
        assert len(made) == len(names)
        clients = [scene.backend.store() for _ in range(8)]
        won: list[tuple[str, str]] = []
        errors: list[Exception] = []
        barrier = threading.Barrier(len(clients))

        def race(number: int) -> None:
            mine = made[number:] + made[:number]
            mine = mine[::-1] if number % 2 else mine
            barrier.wait(10)
            try:
                verdicts = scene.advance(*mine, token=f"t{number}", beat=f"b{number}", store=clients[number])
            except Exception as exc:
                errors.append(exc)
                return
            won.extend(
                (one.name, f"b{number}")
                for one, verdict in zip(mine, verdicts, strict=True)
                if verdict is Verdict.COMMITTED
            )

        threads = [threading.Thread(target=race, args=(number,)) for number in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert errors == []
        assert sorted(name for name, _ in won) == names
        assert {(name, scene.history(name)[0].beat) for name in names} == set(won)
        assert {scene.state(name).auto_count for name in names} == {1}

    # --- max_fires ---

    def test_max_fires_completes(self, scene: RowScene) -> None:
        """The last one that is allowed is the last; the schedule is completed and visible."""
        _, made = scene.one_due(policy=Policy(max_fires=1))
        scene.advance(made)
        assert scene.get("a").state is State.COMPLETED
        assert [one.name for one in scene.s.find(state=State.COMPLETED).items] == ["a"]
        assert scene.names(after=10 * EVERY) == []
        assert scene.state().next_run is None

    def test_more_fires_than_are_left_prove_false(self, scene: RowScene) -> None:
        """The earliest get what is left."""
        policy = Policy(missed=Missed.CATCH_UP, misfire_grace=None, max_fires=2)
        _, made = scene.one_due(periods=3, policy=policy)
        assert scene.advance(made) == [Verdict.COMMITTED]
        assert list(scene.s.prove([scene.entry(made, n) for n in range(3)])) == [True, True, False]
        assert scene.state().auto_count == 2

    def test_what_was_never_sent_is_given_back(self, scene: RowScene) -> None:
        """And may be fired another time."""
        _, made = scene.one_due(policy=Policy(max_fires=1))
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.MISSED, 2, reason="too_late")])
        assert scene.state().auto_count == 0
        assert scene.names(after=EVERY) == ["a"]

    # --- prove ---

    def test_an_unproven_entry_is_committed_by_whoever_proves_it(self, scene: RowScene) -> None:
        """The beat died between the two steps; the whole plan goes through, though only one entry is asked about."""
        _, made = scene.one_due(periods=3, policy=Policy(missed=Missed.CATCH_UP, misfire_grace=None))
        assert list(scene.s.prove([scene.entry(made, 1)])) == [True]
        assert [entry.status for entry in scene.history()] == [Status.PENDING] * 3
        assert scene.state().last_due == made.new_mark

    def test_a_commit_whose_reply_was_lost_is_proven(self, scene: RowScene) -> None:
        """Trace 4: the mark is past the fire, and it is sent."""
        _, made = scene.one_due()
        scene.advance(made)
        before = scene.history()
        assert list(scene.other.prove([scene.entry(made)])) == [True]
        assert scene.history() == before

    def test_an_edit_before_the_row_moved_refutes_it(self, scene: RowScene) -> None:
        """Trace 5: the claim is dropped, the new definition planned anew."""
        schedule, made = scene.one_due()
        scene.s.replace([Change(schedule=replace(schedule, prompt="new"))])
        assert list(scene.s.prove([scene.entry(made)])) == [False]
        (again,) = scene.plans()
        assert again.expected_version == 2
        assert scene.history() == []

    def test_an_edit_after_the_row_moved_does_not(self, scene: RowScene) -> None:
        """What is committed is sent, under the current definition."""
        schedule, made = scene.one_due()
        scene.advance(made)
        scene.s.replace([Change(schedule=replace(schedule, schedule_config={"hours": 5}))])
        scene.s.hold([schedule.schedule_id], "person", "")
        assert list(scene.s.prove([scene.entry(made)])) == [True]

    def test_another_beat_with_an_old_plan_is_refuted(self, scene: RowScene) -> None:
        """Trace 6: the coordinator forgot everything, the row did not."""
        _, made = scene.one_due()
        scene.advance(made, token="t1")
        assert list(scene.s.prove([scene.entry(made, token="t2", owner="b2")])) == [False]
        assert scene.advance(made, token="t3", beat="b2") == [Verdict.MOVED]
        assert len(scene.history()) == 1

    def test_proofs_come_in_order(self, scene: RowScene) -> None:
        """Of several schedules, of both kinds; what needs no proof is proven."""
        scene.add("a", "b", "c")
        scene.due()
        scene.backend.advance(EVERY)
        made = {one.name: one for one in scene.plans()}
        scene.advance(made["b"], token="other")
        entries = [scene.entry(made[name]) for name in "abc"]
        entries.append(replace(scene.entry(made["b"]), proof=None))
        assert list(scene.s.prove(entries)) == [True, False, True, True]

    # --- record ---

    def test_a_fires_story(self, scene: RowScene) -> None:
        """Sent, running, success: one entry, one count, the result."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.SENT, 2)])
        assert (scene.state().run_count, scene.history()[0].status) == (1, Status.SENT)
        assert scene.state().last_run is not None
        scene.s.record([scene.carried(made, Status.RUNNING, 3, worker="w1")])
        scene.s.record([scene.carried(made, Status.SUCCESS, 4, worker="w1", output="42")])
        state = scene.state()
        assert (state.run_count, state.last_status, state.last_result) == (1, "success", "42")
        assert state.last_result_at is not None
        (entry,) = scene.history()
        assert (entry.status, entry.output, entry.worker, entry.beat) == (Status.SUCCESS, "42", "w1", "")

    def test_recording_is_idempotent(self, scene: RowScene) -> None:
        """A batch whose reply was lost is told again, also by another beat, also in part and out of order."""
        _, made = scene.one_due()
        scene.advance(made)
        items = [scene.carried(made, Status.SENT, 2), scene.carried(made, Status.ERROR, 3, error="E: x")]
        scene.s.record(items)
        before = (scene.state(), scene.history())
        scene.other.record(items[::-1])
        scene.s.record(items[:1])
        assert (scene.state(), scene.history()) == before
        assert (before[0].run_count, before[0].consecutive_failures) == (1, 1)

    def test_an_outcome_is_final(self, scene: RowScene) -> None:
        """Whatever comes later with whatever serial; a late result is a note."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.ABANDONED, 3, reason="worker lost")])
        scene.s.record([scene.carried(made, Status.RUNNING, 9)])
        scene.s.record([scene.carried(made, Status.ABANDONED, 10, reason="worker lost", late_result="42")])
        (entry,) = scene.history()
        assert (entry.status, entry.late_result) == (Status.ABANDONED, "42")
        assert scene.state().consecutive_failures == 1

    def test_a_later_attempt_of_the_same_fire_counts_its_own_outcome(self, scene: RowScene) -> None:
        """Recover: abandoned, then success. One fire, one entry."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.ABANDONED, 3, reason="worker lost")])
        scene.s.record([scene.carried(made, Status.RUNNING, 5, attempt=2)])
        scene.s.record([scene.carried(made, Status.SUCCESS, 6, attempt=2, output="ok")])
        state = scene.state()
        assert (state.run_count, state.consecutive_failures, state.last_status) == (1, 0, "success")
        (entry,) = scene.history()
        assert (entry.status, entry.attempt) == (Status.SUCCESS, 2)

    def test_an_outcome_counts_after_the_coordinator_forgot(self, scene: RowScene) -> None:
        """Its serials begin anew; what it tells of a fire without an outcome is news all the same."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.RUNNING, 40)])
        scene.s.record([scene.carried(made, Status.SUCCESS, 2, output="ok")])
        assert scene.state().last_status == "success"
        assert scene.history()[0].status is Status.SUCCESS

    @pytest.mark.parametrize(
        ("status", "last", "failures"),
        [
            (Status.ERROR, "error", 1),
            (Status.TARGET_MISSING, "target_missing", 1),
            (Status.ABANDONED, "error", 1),
            (Status.EXPIRED, None, 0),
            (Status.UNKNOWN, None, 0),
        ],
    )
    def test_what_outcomes_do_to_the_run_state(
        self, scene: RowScene, status: Status, last: str | None, failures: int
    ) -> None:
        """Failures count, the rest leaves the run state."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, status, 2, error="E: x")])
        state = scene.state()
        assert (state.last_status, state.consecutive_failures) == (last, failures)
        assert state.last_error == ("E: x" if last else None)

    def test_success_clears_and_a_skip_does_not(self, scene: RowScene) -> None:
        """Trace 25: fail, in-flight skip, fail is two failures in a row; an uncounted one is none."""
        scene.add("a")
        scene.due()
        story: list[tuple[Status, dict[str, Any]]] = [
            (Status.ERROR, {"error": "E: 1"}),
            (Status.SUCCESS, {"output": '{"in_flight_skip": true, "held_by": "x"}', "sent_at": None}),
            (Status.ERROR, {"error": "E: 2"}),
            (Status.ERROR, {"error": "E: revoked", "counted": False}),
        ]
        for number, (status, fields) in enumerate(story):
            scene.backend.advance(EVERY)
            (made,) = scene.plans()
            scene.advance(made, token=f"t{number}")
            scene.s.record([scene.carried(made, status, 2, **fields)])
        assert (scene.state().consecutive_failures, scene.state().last_error) == (2, "E: revoked")
        scene.backend.advance(EVERY)
        (made,) = scene.plans()
        scene.advance(made, token="t9")
        scene.s.record([scene.carried(made, Status.SUCCESS, 2, output="ok")])
        state = scene.state()
        assert (state.consecutive_failures, state.last_error, state.last_status) == (0, None, "success")
        assert state.run_count == 4

    def test_release_clears_the_failures(self, scene: RowScene) -> None:
        """Resume resets the count."""
        schedule, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.ERROR, 2, error="E: x")])
        scene.s.hold([schedule.schedule_id], "failures", "")
        scene.s.release([schedule.schedule_id])
        assert scene.state().consecutive_failures == 0

    def test_run_state_never_touches_the_definition(self, scene: RowScene) -> None:
        """Nor its version: a person who edits meanwhile meets no conflict, and overwrites no run state."""
        schedule, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.SUCCESS, 2, output="ok")])
        scene.s.lock_unavailable([schedule.schedule_id])
        found = scene.get("a").schedule
        assert found is not None
        assert found.version == 1
        scene.s.replace([Change(schedule=replace(schedule, prompt="new"), version=1)])
        assert (scene.state().run_count, scene.state().last_result) == (1, "ok")

    def test_strangers_are_ignored(self, scene: RowScene) -> None:
        """Fires of other stores and of schedules that nobody knows."""
        _, made = scene.one_due()
        for id_ in ("a code schedule", make("nobody").schedule_id):
            scene.s.record([scene.carried(replace(made, schedule_id=id_), Status.SUCCESS, 2)])
            assert list(scene.s.fires(id_)) == []

    def test_a_fire_that_no_plan_made_gets_its_entry(self, scene: RowScene) -> None:
        """A run-now is committed with the coordinator alone. It counts as run, not against max_fires."""
        _, made = scene.one_due()
        key = FireKey(made.schedule_id, scene.backend.now(), "nonce")
        item = scene.carried(made, Status.SUCCESS, 3, output="now")
        item = replace(item, record=replace(item.record, key=key, origin=Origin.RUN_NOW, fire_id="run-now"))
        scene.s.record([item])
        (entry,) = scene.history()
        assert (entry.key.nonce, entry.origin, entry.output) == ("nonce", Origin.RUN_NOW, "now")
        assert (scene.state().run_count, scene.state().auto_count) == (1, 0)

    def test_lock_unavailable(self, scene: RowScene) -> None:
        """Due times stay due."""
        schedule, _ = scene.one_due()
        scene.s.lock_unavailable([schedule.schedule_id, "a code schedule"])
        assert scene.state().last_status == "lock_unavailable"
        assert scene.names() == ["a"]

    # --- prune ---

    def test_prune_by_count(self, scene: RowScene) -> None:
        """The oldest go, in small batches, by any beat; other schedules keep theirs."""
        policy = Policy(missed=Missed.CATCH_UP, misfire_grace=None)
        _, made = scene.one_due(periods=HISTORY_LIMIT + 10, policy=policy)
        scene.advance(made)
        _, few = scene.one_due("b", periods=1)
        scene.advance(few, token="t2")
        newest = scene.history()[0]
        assert scene.other.prune(limit=4) == 4
        assert scene.other.prune(limit=4) == 4
        total = 8
        while pruned := scene.other.prune(limit=4):
            total += pruned
        assert total == 10
        assert len(scene.history()) == HISTORY_LIMIT
        assert scene.history()[0] == newest
        assert len(scene.history("b")) == 1

    def test_prune_by_age(self, scene: RowScene) -> None:
        """A range goes when its last due time is old."""
        _, made = scene.one_due()
        scene.advance(made)
        scene.s.record([scene.carried(made, Status.SUCCESS, 2)])
        assert scene.s.prune() == 0
        scene.backend.advance(31 * 86_400)
        assert scene.other.prune() == 1
        assert scene.history() == []
