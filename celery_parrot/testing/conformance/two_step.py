"""Commits that a row elsewhere decides: prepare, discard, and what happened carried back to the row.

    class TestMine(TwoStepConformance):
        @pytest.fixture
        def backend(self) -> Backend: ...

The coordinator is a :class:`~celery_parrot.protocols.Preparing` as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.errors import MemoryLost
from celery_parrot.model.fire import Fire, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import (
    Carried,
    CommitReply,
    Delivery,
    Drop,
    FinishVerdict,
    Hold,
    Lease,
    Memory,
    Outcome,
    Preparing,
    Running,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene


class RowScene(Scene):
    """A scene whose schedules live in rows: nothing is registered here."""

    def __init__(self, coordinator: Any, backend: Backend) -> None:
        super().__init__(coordinator, backend)
        self.rows: Preparing = coordinator

    def row_plan(self, *fires: float, **changes: Any) -> Plan:
        return replace(self.plan(*fires, **changes), store="db", expected_version=3)

    def prepare(self, *fires: float, token: str = "k1", owner: str = "b1", c: Any = None, **plan: Any) -> CommitReply:
        made = self.row_plan(*fires, **plan)
        reading, (reply,) = (c or self.rows).prepare([made], owner, token)
        assert reading.now
        return reply

    def prepared(self, n: float = 1, token: str = "k1", owner: str = "b1") -> Hold:
        assert self.prepare(n, token=token, owner=owner).verdict is Verdict.COMMITTED
        return self.hold(n, owner)

    def claim(self, n: float = 1) -> Fire | None:
        return self.c.claims([self.key(n)])[0]

    def uncarried(self, c: Any = None) -> list[Carried]:
        return list((c or self.rows).uncarried())

    def statuses(self) -> list[Status]:
        return [item.record.status for item in self.uncarried()]

    def carried(self) -> None:
        self.rows.carried(self.uncarried())


CALLS: dict[str, Callable[[Any], Any]] = {
    "prepare": lambda s: s.prepare(2),
    "discard": lambda s: s.rows.discard([s.hold(1)], "k1"),
    "uncarried": lambda s: s.rows.uncarried(),
    "carried": lambda s: s.rows.carried([]),
}


class TwoStepConformance(Conformance):
    """Everything that the docstrings of :class:`~celery_parrot.protocols.Preparing` say."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> RowScene:
        scene = RowScene(coordinator, backend)
        assert isinstance(scene.rows, Preparing)
        return scene

    # --- prepare ---

    def test_prepared_fires_carry_their_proof(self, scene: RowScene) -> None:
        """In the claim, in the outbox and after a takeover; each with the plan to repeat."""
        plan = scene.row_plan(1, 2)
        _, (reply,) = scene.rows.prepare([plan], "b1", "k1")
        assert (reply.verdict, reply.fires, reply.lost) == (Verdict.COMMITTED, plan.fires, 0)
        entries = scene.sweep().entries
        assert [fire.key for fire in entries] == [scene.key(1), scene.key(2)]
        scene.pass_time(TIMING.takeover_after + 1)
        taken = scene.c.take([scene.hold(1), scene.hold(2)], "b2")
        for fire in (*entries, *taken, *scene.c.claims([scene.key(1), scene.key(2)])):
            assert fire is not None
            assert fire.store == "db"
            assert fire.proof is not None
            assert fire.proof.token == "k1"
            assert Plan.from_json(fire.proof.plan) == plan
        assert [fire.tries for fire in taken if fire] == [1, 1]

    def test_no_mark_is_touched(self, scene: RowScene) -> None:
        """There is none: the row is the mark."""
        scene.prepared()
        assert scene.c.run_states(["a"]) == {}
        assert scene.prepare(2, mark=0).verdict is Verdict.COMMITTED

    def test_a_plan_without_fires_is_prepared(self, scene: RowScene) -> None:
        """Its ranges are the row's to record."""
        reply = scene.prepare(new_mark=4)
        assert (reply.verdict, reply.fires) == (Verdict.COMMITTED, ())
        assert scene.sweep().entries == ()
        assert scene.c.fires("a") == []

    def test_all_or_nothing(self, scene: RowScene) -> None:
        """One claim of another beat, and none of the plan's fires is claimed; the mark told is the one planned from,
        so that nobody plans again at once."""
        scene.prepared(2, token="k0", owner="b2")
        reply = scene.prepare(1, 2, 3)
        assert (reply.verdict, reply.fires, reply.mark) == (Verdict.MOVED, (), scene.due(0))
        assert [fire.key for fire in scene.sweep().entries] == [scene.key(2)]

    def test_plans_of_a_batch_are_independent(self, scene: RowScene) -> None:
        """Answers come in order."""
        scene.prepared(1, token="k0", owner="b2")
        plans = [scene.row_plan(1), scene.row_plan(1, schedule_id="b")]
        _, replies = scene.rows.prepare(plans, "b1", "k1")
        assert [reply.verdict for reply in replies] == [Verdict.MOVED, Verdict.COMMITTED]
        assert [reply.schedule_id for reply in replies] == ["a", "b"]

    def test_a_repeat_after_a_lost_reply_is_prepared(self, scene: RowScene) -> None:
        """The same token, the same owner: ours."""
        first = scene.prepare(1, 2)
        assert scene.prepare(1, 2) == first
        assert len(scene.sweep().entries) == 2

    def test_another_token_is_another_commit(self, scene: RowScene) -> None:
        """The same beat that planned anew meets its own older claim, which somebody has to prove first."""
        scene.prepared(token="k1")
        assert scene.prepare(1, token="k2").verdict is Verdict.MOVED
        claim = scene.claim()
        assert claim is not None
        assert claim.proof is not None
        assert claim.proof.token == "k1"

    def test_a_repeat_does_not_take_back_what_a_sweeper_took(self, scene: RowScene) -> None:
        """It is the sweeper's to prove now."""
        scene.prepared()
        scene.backend.advance(1.1)
        assert scene.c.take([scene.hold(1)], "b1")[0] is not None
        assert scene.prepare(1).verdict is Verdict.MOVED

    def test_a_fire_that_was_sent_is_not_prepared_again(self, scene: RowScene) -> None:
        """Whatever the token."""
        scene.c.confirm([scene.prepared()])
        assert scene.prepare(1).verdict is Verdict.MOVED
        assert scene.prepare(1, token="k2").verdict is Verdict.MOVED

    def test_exactly_one_of_many_prepares(self, scene: RowScene, backend: Backend) -> None:
        """Each plan of a race is one beat's, whole."""
        clients: Sequence[Any] = [backend.client() for _ in range(4)]
        plans = [scene.row_plan(1, 2, 3, schedule_id=f"s{n}") for n in range(10)]
        barrier = threading.Barrier(4)
        won: list[str] = []

        def race(number: int) -> None:
            clients[number].attach()
            barrier.wait(10)
            mine = plans[number:] + plans[:number]
            _, replies = clients[number].prepare(mine, f"b{number}", f"k{number}")
            won.extend(reply.schedule_id for reply in replies if reply.verdict is Verdict.COMMITTED)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(won) == [f"s{n}" for n in range(10)]
        tokens: dict[str, set[str]] = {}
        for fire in scene.sweep().entries:
            assert fire.proof is not None
            tokens.setdefault(fire.key.schedule_id, set()).add(fire.proof.token)
        assert [len(some) for some in tokens.values()] == [1] * 10
        for client in clients:
            client.close()

    def test_prepare_is_a_heartbeat(self, scene: RowScene) -> None:
        """As commit is."""
        scene.prepared()
        assert scene.sweep("b2").due == ()

    # --- discard ---

    def test_discarded_is_never_claimed(self, scene: RowScene) -> None:
        """No claim, no outbox entry, no history, nothing to carry; and it can be prepared again."""
        hold = scene.prepared()
        assert list(scene.rows.discard([hold], "k1")) == [True]
        assert scene.claim() is None
        assert scene.sweep().entries == ()
        assert scene.c.fires("a") == []
        assert scene.uncarried() == []
        assert list(scene.rows.discard([hold], "k1")) == [False]
        assert scene.prepare(1, token="k2").verdict is Verdict.COMMITTED

    def test_discard_by_the_token_only(self, scene: RowScene) -> None:
        """Another token's claim stays; one that a sweeper took meanwhile goes, as the row refuted it for everybody."""
        scene.prepared()
        assert list(scene.rows.discard([scene.hold(1)], "k2")) == [False]
        scene.backend.advance(1.1)
        assert scene.c.take([scene.hold(1)], "b1")[0] is not None
        assert list(scene.rows.discard([scene.hold(1)], "k1")) == [True]

    def test_what_was_sent_is_not_discarded(self, scene: RowScene) -> None:
        """Nor what a worker runs, nor a fire that the coordinator commits alone."""
        scene.c.confirm([scene.prepared(1)])
        scene.prepared(2)
        scene.start(2)
        shared = scene.pending(3, schedule_id="b")
        holds = [scene.hold(1), scene.hold(2), shared]
        assert list(scene.rows.discard(holds, "k1")) == [False] * 3
        assert list(scene.rows.discard([shared], "")) == [False]

    # --- what leaves the outbox needs no proof any more ---

    def test_a_sent_fire_has_no_proof(self, scene: RowScene) -> None:
        """It is only asked before sending; the plan is not kept for every fire of a day."""
        scene.c.confirm([scene.prepared()])
        claim = scene.claim()
        assert claim is not None
        assert (claim.store, claim.proof, claim.status) == ("db", None, Status.SENT)

    def test_fires_of_one_plan_end_one_by_one(self, scene: RowScene) -> None:
        """The last one still has the plan."""
        scene.prepare(1, 2)
        scene.c.confirm([scene.hold(1)])
        (entry,) = scene.sweep().entries
        assert entry.proof is not None
        assert [fire.due_at for fire in Plan.from_json(entry.proof.plan).fires] == [scene.due(1), scene.due(2)]

    # --- carrying ---

    def test_a_pending_fire_is_not_carried(self, scene: RowScene) -> None:
        """The row knows it from its own commit."""
        scene.prepared()
        assert scene.uncarried() == []

    def test_each_step_is_carried(self, scene: RowScene) -> None:
        """Sent, running, the outcome: the latest state wins, the serial grows."""
        scene.c.confirm([scene.prepared()])
        serials = []
        for step, status in (
            (lambda: None, Status.SENT),
            (lambda: scene.start(), Status.RUNNING),
            (lambda: scene.finish(status=Status.ERROR, error="E: e", output="o"), Status.ERROR),
        ):
            step()
            (item,) = scene.uncarried()
            assert item.record.status is status
            assert item.record.key == scene.key(1)
            serials.append(item.serial)
        assert serials == sorted(set(serials))
        (item,) = scene.uncarried()
        assert (item.record.error, item.record.output, item.counted) == ("E: e", "o", True)
        assert item.record.fire_id == scene.c.fires("a")[0].fire_id
        assert item.record.sent_at is not None
        assert item.record.finished_at is not None

    @pytest.mark.parametrize("counted", [True, False])
    def test_whether_a_failure_counts_is_carried(self, scene: RowScene, counted: bool) -> None:
        """Also after a late note."""
        scene.c.confirm([scene.prepared()])
        scene.start()
        scene.finish(status=Status.ERROR, error="E: e", counted=counted)
        assert [item.counted for item in scene.uncarried()] == [counted]
        assert scene.finish(token="t9").verdict is FinishVerdict.LATE
        (item,) = scene.uncarried()
        assert (item.counted, item.record.late_result) == (counted, "success")

    def test_retry_reap_expiry_and_drop_are_carried(self, scene: RowScene) -> None:
        """Every way a fire goes on or ends."""
        for n in (1, 2, 3, 4):
            scene.prepared(n)
        scene.confirm(scene.hold(1), scene.hold(2))
        scene.confirm(scene.hold(3), deadline=1)
        past = scene.now() + timedelta(seconds=1)
        scene.start(1)
        scene.finish(1, status=Status.SENT)
        scene.start(2, "t2")
        scene.pass_time(1.5)
        assert scene.start(3, "t3", deadline=past).verdict is StartVerdict.EXPIRED
        scene.c.drop([Drop(hold=scene.hold(4), status=Status.SKIPPED, reason="paused")])
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        found = {item.record.due_at: item.record for item in scene.uncarried()}
        assert [(found[scene.due(n)].status, found[scene.due(n)].attempt) for n in (1, 2, 3, 4)] == [
            (Status.SENT, 2),
            (Status.ABANDONED, 1),
            (Status.EXPIRED, 1),
            (Status.SKIPPED, 1),
        ]
        assert found[scene.due(4)].reason == "paused"
        assert found[scene.due(4)].sent_at is None

    def test_a_start_before_the_confirm_is_carried(self, scene: RowScene) -> None:
        """It counts as one."""
        scene.prepared()
        scene.start()
        (item,) = scene.uncarried()
        assert item.record.status is Status.RUNNING
        assert item.record.sent_at is not None

    def test_oldest_first_up_to_the_limit(self, scene: RowScene) -> None:
        """A fire that changes all the time does not lose its place."""
        for n in (1, 2, 3):
            scene.c.confirm([scene.prepared(n)])
            scene.backend.advance(0.1)
        scene.start(1)
        assert [item.record.due_at for item in scene.uncarried()] == [scene.due(n) for n in (1, 2, 3)]
        assert len(scene.rows.uncarried(limit=2)) == 2
        assert scene.rows.uncarried(limit=0) == []

    def test_asking_takes_nothing(self, scene: RowScene, other: Any) -> None:
        """A beat that dies between recording and telling so leaves it to the others."""
        scene.c.confirm([scene.prepared()])
        assert scene.uncarried() == scene.uncarried(other)

    def test_carried_is_forgotten(self, scene: RowScene, other: Any) -> None:
        """By whichever beat; telling it twice is harmless."""
        scene.c.confirm([scene.prepared()])
        items = scene.uncarried()
        other.carried(items)
        assert scene.uncarried() == []
        other.carried(items)
        scene.start()
        (item,) = scene.uncarried()
        assert item.serial > items[0].serial

    def test_what_changed_meanwhile_is_carried_again(self, scene: RowScene) -> None:
        """The row has an older state than the coordinator: it stays on the list."""
        scene.c.confirm([scene.prepared()])
        old = scene.uncarried()
        scene.start()
        scene.finish()
        scene.rows.carried(old)
        assert scene.statuses() == [Status.SUCCESS]

    def test_fires_of_other_stores_are_not_carried(self, scene: RowScene) -> None:
        """What the coordinator decides alone it also remembers alone."""
        scene.running()
        scene.finish()
        assert scene.uncarried() == []

    def test_run_state_of_rows_is_not_kept_here(self, scene: RowScene) -> None:
        """Nor anything else for ever."""
        scene.c.confirm([scene.prepared()])
        scene.start()
        scene.finish()
        assert scene.c.run_states(["a"]) == {}

    def test_a_late_delivery_of_an_ended_fire_is_a_duplicate(self, scene: RowScene) -> None:
        """Also after its claim has expired: a short copy of the history stays here."""
        scene.c.confirm([scene.prepared()])
        scene.start()
        scene.finish()
        scene.carried()
        scene.backend.advance(TIMING.ended_ttl + 1)
        assert scene.claim() is None
        assert scene.start(token="t2").verdict is StartVerdict.DUPLICATE

    # --- loss of memory ---

    @pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
    def test_every_call_notices_a_flush(self, scene: RowScene, call: Callable[[Any], Any], backend: Backend) -> None:
        """And does nothing then."""
        scene.prepared()
        backend.flush()
        for _ in range(2):
            with pytest.raises(MemoryLost):
                call(scene)

    def test_entries_come_back_with_their_proofs(self, scene: RowScene, backend: Backend) -> None:
        """A flush between the two steps: the sweeper proves before it sends."""
        plan = scene.row_plan(1, 2)
        scene.rows.prepare([plan], "b1", "k1")
        mirror = scene.sweep().entries
        backend.flush()
        scene.c.remember(Memory(outbox=mirror))
        entries = scene.sweep().entries
        assert [(fire.key, fire.store, fire.proof) for fire in entries] == [
            (fire.key, fire.store, fire.proof) for fire in mirror
        ]
        assert list(scene.rows.discard([scene.hold(1)], "k1")) == [True]
        (left,) = scene.sweep().entries
        assert left.proof is not None
        assert Plan.from_json(left.proof.plan) == plan

    def test_the_freshest_memory_counts(self, scene: RowScene, other: Any, backend: Backend) -> None:
        """What an older one put back and a fresher one does not know has been sent since."""
        scene.prepared(1)
        old = scene.sweep()
        scene.c.confirm([scene.hold(1)])
        scene.prepared(2)
        backend.advance(2)
        new = scene.sweep("b2", other)
        backend.flush()
        scene.c.remember(Memory(outbox=old.entries, seen_at=old.reading.now))
        assert [fire.key for fire in scene.sweep().entries] == [scene.key(1)]
        other.remember(Memory(outbox=new.entries, seen_at=new.reading.now))
        assert [fire.key for fire in scene.sweep().entries] == [scene.key(2)]
        scene.c.remember(Memory(outbox=old.entries, seen_at=old.reading.now))
        assert [fire.key for fire in scene.sweep().entries] == [scene.key(2)]

    def test_nothing_is_prepared_while_quiet(self, scene: RowScene, backend: Backend) -> None:
        """Every plan is then MOVED, and the reading says why."""
        backend.flush()
        scene.c.remember(Memory())
        reading, (reply,) = scene.rows.prepare([scene.row_plan(1)], "b1", "k1")
        assert (reading.quiet, reply.verdict, reply.mark) == (True, Verdict.MOVED, scene.due(0))
        assert scene.sweep().entries == ()

    def test_the_serial_grows_over_a_loss(self, scene: RowScene, backend: Backend) -> None:
        """A row that has heard of the fire before the loss hears of its end."""
        scene.c.confirm([scene.prepared()])
        scene.start()
        before = scene.uncarried()[0].serial
        backend.flush()
        backend.advance(0.01)
        running = Running(delivery=scene.delivery(), started_at=scene.base)
        scene.c.remember_running([running])
        scene.pass_time(TIMING.lease)
        scene.finish()
        (item,) = scene.uncarried()
        assert item.record.status is Status.SUCCESS
        assert item.serial > before

    def test_a_fire_that_is_known_by_its_message_alone_is_carried(self, scene: RowScene, backend: Backend) -> None:
        """After a loss nothing here tells whose it is, so the row is told; schedules with a mark here are not rows."""
        scene.register("b")
        stranger = Delivery(key=scene.key(1), name="a", kind="task", token="t1", worker="w")
        ours = replace(stranger, key=scene.key(1, "b"), name="b", token="t2")
        scene.c.start([stranger, ours])
        scene.c.finish([Outcome(lease=Lease(one.key, one.token), status=Status.SUCCESS) for one in (stranger, ours)])
        assert [item.record.key for item in scene.uncarried()] == [scene.key(1)]
