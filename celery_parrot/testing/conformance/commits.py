"""Marks and commits."""

from __future__ import annotations

import threading

from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.model.plan import NotFired, PlannedFire, Verdict
from celery_parrot.protocols import Coordinator, Drop, Mark, Memory, Registration
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import Backend, Scene, near


class Commits(Conformance):
    # --- register ---

    def test_first_registration_sets_the_mark(self, scene: Scene, other: Coordinator) -> None:
        assert scene.register(initial=1).last_due == scene.due(1)
        later = other.register([Registration(schedule_id="a", when="w", initial=scene.due(9))])[0]
        assert later == Mark(schedule_id="a", last_due=scene.due(1))

    def test_registration_without_initial_starts_at_the_coordinators_now(self, scene: Scene) -> None:
        scene.backend.advance(1000)
        now = scene.c.attach().now
        assert near(scene.register(initial=None).last_due, now)

    def test_registrations_answer_in_order(self, scene: Scene) -> None:
        marks = scene.c.register(
            [Registration(schedule_id=name, when="w", initial=scene.due(n)) for n, name in enumerate("cab")]
        )
        assert [(m.schedule_id, m.last_due) for m in marks] == [(name, scene.due(n)) for n, name in enumerate("cab")]

    def test_same_when_moves_nothing(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1)
        assert scene.register(initial=7).last_due == scene.due(1)

    def test_edit_of_when_moves_the_mark(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1)
        assert scene.register(when="other", initial=5).last_due == scene.due(5)
        assert scene.state().last_due == scene.due(5)
        assert scene.register(when="other", initial=6).last_due == scene.due(5)

    def test_edit_of_when_never_moves_a_decided_mark_back(self, scene: Scene) -> None:
        scene.register()
        scene.commit(3)
        assert scene.register(when="other", initial=1).last_due == scene.due(3)

    def test_edit_of_when_may_move_an_undecided_mark_back(self, scene: Scene) -> None:
        scene.register(initial=5)
        assert scene.register(when="other", initial=1).last_due == scene.due(1)

    # --- commit ---

    def test_commit_claims_records_and_moves(self, scene: Scene) -> None:
        scene.register()
        now = scene.c.attach().now
        reply = scene.commit(1, 2)
        assert (reply.verdict, reply.mark, reply.lost) == (Verdict.COMMITTED, scene.due(2), 0)
        assert reply.fires == (PlannedFire(scene.due(1)), PlannedFire(scene.due(2)))
        fire = scene.c.claims([scene.key(1)])[0]
        assert fire is not None
        assert (fire.status, fire.owner, fire.tries, fire.attempt, fire.name) == (Status.PENDING, "b1", 0, 1, "a")
        assert near(fire.committed_at, now)
        assert [e.key for e in scene.sweep().entries] == [scene.key(1), scene.key(2)]
        assert scene.state().last_due == scene.due(2)
        assert scene.record(1).status is Status.PENDING

    def test_commit_from_another_mark_changes_nothing(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1)
        reply = scene.commit(2, owner="b2", mark=0)
        assert (reply.verdict, reply.mark, reply.fires) == (Verdict.MOVED, scene.due(1), ())
        assert scene.status(2) is None

    def test_repeat_after_a_lost_reply_is_moved_and_the_fire_is_the_owners(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1)
        assert scene.commit(1).verdict is Verdict.MOVED
        scene.pass_time(1.5)
        assert scene.hold(1) in scene.sweep().due

    def test_unknown_schedule(self, scene: Scene) -> None:
        assert scene.commit(1).verdict is Verdict.UNKNOWN
        assert scene.status(1) is None

    def test_microseconds_of_due_times_are_kept(self, scene: Scene) -> None:
        scene.register()
        due = scene.due(1).replace(microsecond=123457)
        plan = scene.plan(1)
        plan = type(plan)(
            schedule_id="a",
            name="a",
            kind="task",
            expected_mark=scene.due(0),
            new_mark=due,
            fires=(PlannedFire(due),),
        )
        assert scene.c.commit([plan], "b1")[1][0].mark == due
        assert scene.sweep().entries[0].key == FireKey("a", due)
        assert scene.c.fires("a")[0].due_at == due

    def test_a_due_time_already_claimed_is_lost_and_the_mark_moves(self, scene: Scene) -> None:
        """The mark was moved back (as after a loss of memory): the claim decides."""
        scene.start(1, "t1")  # a delivery of a fire nobody knows creates its claim
        scene.register()
        reply = scene.commit(1, 2)
        assert (reply.verdict, reply.lost, reply.mark) == (Verdict.COMMITTED, 1, scene.due(2))
        assert reply.fires == (PlannedFire(scene.due(2)),)
        assert scene.status(1) is Status.RUNNING

    def test_plans_of_a_batch_are_independent(self, scene: Scene) -> None:
        scene.register("a")
        scene.register("b")
        plans = [scene.plan(1, schedule_id="a"), scene.plan(1, schedule_id="x"), scene.plan(1, schedule_id="b")]
        replies = scene.c.commit(plans, "b1")[1]
        assert [r.schedule_id for r in replies] == ["a", "x", "b"]
        assert [r.verdict for r in replies] == [Verdict.COMMITTED, Verdict.UNKNOWN, Verdict.COMMITTED]

    def test_exactly_one_of_many_wins_each_due_time(self, scene: Scene, backend: Backend) -> None:
        scene.register()
        won: list[tuple[str, FireKey]] = []
        clients = [backend.client() for _ in range(20)]
        barrier = threading.Barrier(len(clients))

        def race(number: int) -> None:
            barrier.wait(10)
            for n in range(1, 11):
                reply = scene.commit(n, owner=f"b{number}", mark=n - 1, c=clients[number])
                won.extend((f"b{number}", FireKey("a", fire.due_at)) for fire in reply.fires)

        threads = [threading.Thread(target=race, args=(n,)) for n in range(len(clients))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        for client in clients:
            client.close()
        assert sorted(key for _, key in won) == [scene.key(n) for n in range(1, 11)]
        assert {(fire.owner, fire.key) for fire in scene.sweep().entries} == set(won)
        assert scene.state().last_due == scene.due(10)

    def test_held_schedule_fires_nothing(self, scene: Scene) -> None:
        scene.c.remember(Memory(marks=(Mark(schedule_id="a", last_due=scene.due(0), held="person"),)))
        reply = scene.commit(1)
        assert (reply.verdict, reply.held, reply.fires) == (Verdict.HELD, "person", ())
        assert scene.status(1) is None
        assert scene.register().held == "person"

    # --- not fired ---

    def test_ranges_not_fired_are_one_entry_each(self, scene: Scene) -> None:
        scene.register()
        runs = [
            NotFired(Status.MISSED, "too_late", scene.due(1), scene.due(5), 5),
            NotFired(Status.MISSED, "coalesced", scene.due(6), scene.due(6), 1),
        ]
        assert scene.commit(7, not_fired=runs).mark == scene.due(7)
        newest, single, long = scene.c.fires("a")
        assert (newest.due_at, newest.status) == (scene.due(7), Status.PENDING)
        assert (single.due_at, single.until, single.count, single.reason) == (scene.due(6), None, 1, "coalesced")
        assert (long.due_at, long.until, long.count, long.reason) == (scene.due(1), scene.due(5), 5, "too_late")
        assert long.status is Status.MISSED
        assert scene.state().run_count == 0

    def test_a_plan_may_only_move_the_mark(self, scene: Scene) -> None:
        scene.register()
        run = NotFired(Status.MISSED, "superseded", scene.due(1), scene.due(2), 2)
        reply = scene.commit(new_mark=2, not_fired=[run])
        assert (reply.verdict, reply.fires, reply.mark) == (Verdict.COMMITTED, (), scene.due(2))

    # --- max_fires ---

    def test_max_fires_is_reserved_at_commit(self, scene: Scene) -> None:
        scene.register()
        reply = scene.commit(1, 2, 3, max_fires=2)
        assert [f.due_at for f in reply.fires] == [scene.due(1), scene.due(2)]
        assert (reply.verdict, reply.lost, reply.mark) == (Verdict.COMMITTED, 0, scene.due(3))
        assert scene.state().auto_count == 2
        assert scene.commit(4, mark=3, max_fires=2).fires == ()

    def test_drop_returns_what_was_reserved(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, max_fires=1)
        scene.c.drop([Drop(hold=scene.hold(1), status=Status.MISSED, reason="too_late")])
        assert scene.state().auto_count == 0
        assert scene.commit(2, mark=1, max_fires=1).fires

    def test_only_automatic_fires_count(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, origin=Origin.BACKFILL, max_fires=1)
        scene.commit(2, mark=1, origin=Origin.CATCH_UP, max_fires=1)
        assert scene.state().auto_count == 1
        assert scene.commit(3, mark=2, max_fires=1).fires == ()

    # --- names ---

    def test_two_names_never_meet(self, scene: Scene, foreign: Coordinator) -> None:
        scene.register()
        scene.commit(1)
        theirs = Scene(foreign, scene.backend)
        theirs.base = scene.base
        theirs.register()
        assert theirs.commit(1, owner="b2").fires
        assert [f.owner for f in theirs.sweep("b2").entries] == ["b2"]
        assert [b.owner for b in scene.c.beats()] == []
        assert [f.owner for f in scene.sweep().entries] == ["b1"]
        assert theirs.c.confirm([scene.hold(1, "b1")]) == [False]
