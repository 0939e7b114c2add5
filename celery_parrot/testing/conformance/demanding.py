"""Run-now and backfill: what a person asks for is committed at once, guarded, and sent by whoever sweeps first."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from celery_parrot.model.fire import Fire, FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import NotFired
from celery_parrot.protocols import (
    Demand,
    DemandReply,
    Demands,
    DemandVerdict,
    Drop,
    Hold,
    Lease,
    Memory,
    Outcome,
    Preparing,
    Running,
    StartVerdict,
)
from celery_parrot.protocols.demands import Split
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import Backend, Scene

_HOUR: Final = 3600.0
ASKED, RUNNING, FIRED, MOVED = (
    DemandVerdict.ASKED,
    DemandVerdict.RUNNING,
    DemandVerdict.FIRED,
    DemandVerdict.MOVED,
)


class DemandingScene(Scene):
    """A scene whose fires are asked for by hand."""

    def __init__(self, coordinator: Any, backend: Backend) -> None:
        super().__init__(coordinator, backend)
        self.register()

    def run_now(
        self, nonce: str = "n1", *, c: Any = None, at: datetime | None = None, guard: float = _HOUR, **changes: Any
    ) -> DemandReply:
        demands: Demands = c or self.c  # type: ignore[assignment]
        key = FireKey("a", at or self.now(), nonce)
        demand = Demand(key=key, name="a", kind="task", origin=Origin.RUN_NOW, guard=guard, **changes)
        return demands.demand([demand])[0]

    def backfill(self, n: float, nonce: str = "", **changes: Any) -> DemandReply:
        demands: Demands = self.c  # type: ignore[assignment]
        key = FireKey("a", self.due(n), nonce)
        return demands.demand([Demand(key=key, name="a", kind="task", origin=Origin.BACKFILL, **changes)])[0]

    def asked(self, nonce: str = "n1", **changes: Any) -> FireKey:
        """A run-now that is in the outbox."""
        reply = self.run_now(nonce, **changes)
        assert reply.verdict is ASKED
        assert reply.key is not None
        return reply.key

    def take(self, key: FireKey, owner: str = "b1") -> Hold:
        """A beat that sweeps takes it at once."""
        found = [hold for hold in self.sweep(owner).due if hold.key == key]
        assert len(found) == 1, f"{key} is not to be taken"
        (fire,) = self.c.take(found, owner)
        assert fire is not None
        return Hold(key, owner, fire.tries)

    def send(self, key: FireKey, *, deadline: float | None = None) -> None:
        self.confirm(self.take(key), deadline=deadline)

    def run(self, key: FireKey, token: str = "t1", attempt: int = 1) -> Lease:
        """Taken, sent and started."""
        self.send(key)
        delivery = self.delivery(token=token, attempt=attempt, origin=Origin.RUN_NOW)
        (reply,) = self.c.start([_of(delivery, key)])
        assert reply.verdict is StartVerdict.RUN
        return Lease(key, token)

    def end(self, lease: Lease, status: Status = Status.SUCCESS) -> None:
        self.c.finish([Outcome(lease=lease, status=status)])

    def claim(self, key: FireKey) -> Fire:
        (fire,) = self.c.claims([key])
        assert fire is not None
        return fire

    def entry(self, key: FireKey) -> FireRecord:
        (found,) = [record for record in self.c.fires("a") if record.key == key]
        return found

    def missed(self, first: float, last: float) -> NotFired:
        """A recorded range of due times, a minute apart."""
        run = NotFired(Status.MISSED, "too_late", self.due(first), self.due(last), round(last - first) + 1)
        self.commit(mark=first - 1, new_mark=last, not_fired=[run])
        return run

    def ranges(self) -> list[tuple[float, float, int, Status]]:
        """Every entry, oldest first: first and last due time, how many, what became of them."""

        def minutes(at: datetime) -> float:
            return (at - self.base) / timedelta(minutes=1)

        return [
            (minutes(one.due_at), minutes(one.until or one.due_at), one.count, one.status)
            for one in reversed(self.c.fires("a"))
        ]


def _of(delivery: Any, key: FireKey) -> Any:
    return replace(delivery, key=key)


class DemandingConformance(Conformance):
    """Everything that the docstrings of :class:`~celery_parrot.protocols.Demands` say."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> DemandingScene:
        return DemandingScene(coordinator, backend)

    # --- run-now ---

    def test_asked_it_is_in_the_outbox(self, scene: DemandingScene) -> None:
        """Without an owner, for whoever sweeps first; no mark moves, and nothing counts until it is sent."""
        key = scene.asked(recover=True, tells=("failure",))
        fire = scene.claim(key)
        assert (fire.status, fire.origin, fire.owner, fire.recover) == (Status.PENDING, Origin.RUN_NOW, "", True)
        before = scene.state()
        assert (before.last_due, before.run_count, before.auto_count) == (scene.due(0), 0, 0)
        scene.send(key)
        after = scene.state()
        assert (after.last_due, after.run_count, after.auto_count) == (scene.due(0), 1, 0)
        entry = scene.entry(key)
        assert (entry.origin, entry.status, entry.beat) == (Origin.RUN_NOW, Status.SENT, "b1")

    def test_a_held_schedule(self, scene: DemandingScene) -> None:
        """A person's wish comes before a pause."""
        scene.c.hold(["a"], "person", "")  # type: ignore[attr-defined]
        scene.send(scene.asked())

    def test_the_override_travels_on_the_claim(self, scene: DemandingScene, other: Any) -> None:
        """Exactly as it was given, and out of sight."""
        key = scene.asked(override={"args": [], "kwargs": {"n": 12345678901234567890, "x": 0.1, "empty": {}}})
        (fire,) = other.claims([key])
        assert fire.override == '{"args":[],"kwargs":{"n":12345678901234567890,"x":0.1,"empty":{}}}'
        assert "12345678901234567890" not in repr(fire)
        (entry,) = scene.sweep("b2").entries
        assert entry.override == fire.override

    def test_a_second_one_is_refused(self, scene: DemandingScene, other: Any) -> None:
        """While the first is on its way, whoever asks; other schedules are free."""
        key = scene.asked()
        for step in (lambda: None, lambda: scene.run(key)):
            step()
            reply = scene.run_now("n2", c=other)
            assert reply.verdict is RUNNING
            assert reply.held_by == scene.c.namespace.fire_id(key)  # type: ignore[attr-defined]
            assert reply.since == scene.claim(key).committed_at
        scene.register("b")
        mine = Demand(key=FireKey("b", scene.now(), "n"), name="b", kind="task", origin=Origin.RUN_NOW, guard=_HOUR)
        assert other.demand([mine])[0].verdict is ASKED

    @pytest.mark.parametrize("status", [Status.SUCCESS, Status.ERROR, Status.TARGET_MISSING])
    def test_an_outcome_frees_the_guard(self, scene: DemandingScene, status: Status) -> None:
        """Whichever it is."""
        scene.end(scene.run(scene.asked()), status)
        scene.asked("n2")

    def test_what_is_dropped_frees_the_guard(self, scene: DemandingScene) -> None:
        """The schedule was deleted meanwhile."""
        hold = scene.take(scene.asked())
        assert list(scene.c.drop([Drop(hold=hold, status=Status.SKIPPED, reason="deleted")])) == [True]
        scene.asked("n2")

    def test_the_reaper_frees_the_guard(self, scene: DemandingScene) -> None:
        """Of a worker that was killed."""
        key = scene.asked()
        scene.run(key)
        scene.pass_time(scene.c.timing.lease + 1)
        assert [reaped.fire.key for reaped in scene.c.reap()] == [key]
        scene.asked("n2")

    def test_a_queue_deadline_frees_the_guard(self, scene: DemandingScene) -> None:
        """Nobody started it in time."""
        key = scene.asked()
        scene.send(key, deadline=30)
        assert scene.run_now("n2").verdict is RUNNING
        scene.pass_time(31)
        assert [reaped.fire.status for reaped in scene.c.reap()] == [Status.EXPIRED]
        scene.asked("n2")

    def test_recovered_it_keeps_the_guard(self, scene: DemandingScene) -> None:
        """Abandoned is not its end then; the next attempt has another task id and runs."""
        key = scene.asked(recover=True)
        scene.run(key)
        scene.pass_time(scene.c.timing.lease + 1)
        (reaped,) = scene.c.reap()
        assert reaped.again
        assert scene.run_now("n2").verdict is RUNNING
        scene.end(scene.run(key, "t2", attempt=2))
        assert scene.claim(key).attempt == 2
        scene.asked("n3")

    def test_a_guard_lapses(self, scene: DemandingScene) -> None:
        """Of a fire that nobody has heard of for its whole time: its workers may not be ours."""
        scene.send(scene.asked(guard=60))
        scene.pass_time(59)
        assert scene.run_now("n2").verdict is RUNNING
        scene.pass_time(2)
        scene.asked("n2")

    def test_it_does_not_lapse_before_it_is_sent(self, scene: DemandingScene) -> None:
        """It is known to be on its way."""
        scene.asked(guard=5)
        scene.pass_time(7)
        assert scene.run_now("n2").verdict is RUNNING

    def test_the_guard_is_renewed_with_the_lease(self, scene: DemandingScene) -> None:
        """A task may run longer than its guard lasts."""
        lease = scene.run(scene.asked(guard=17))
        scene.keep(15, lease)
        scene.pass_time(3)
        assert scene.run_now("n2").verdict is RUNNING
        scene.keep(30, lease)
        assert scene.run_now("n2").verdict is RUNNING
        scene.end(lease)
        scene.asked("n2")

    def test_one_that_lapsed_frees_nothing_of_its_successor(self, scene: DemandingScene) -> None:
        """Its late outcome is its own."""
        first = scene.asked(guard=60)
        scene.send(first)
        scene.pass_time(61)
        second = scene.asked("n2")
        lease = scene.delivery(token="t1", origin=Origin.RUN_NOW)
        scene.c.start([_of(lease, first)])
        scene.end(Lease(first, "t1"))
        reply = scene.run_now("n3")
        assert reply.verdict is RUNNING
        assert reply.held_by == scene.c.namespace.fire_id(second)  # type: ignore[attr-defined]

    # --- asked again ---

    def test_asked_again_with_the_same_key(self, scene: DemandingScene) -> None:
        """The same fire, while it is on its way, and after it has ended."""
        key = scene.asked("once")
        again = scene.run_now("once", at=key.due_at + timedelta(seconds=5))
        assert (again.verdict, again.key, again.again) == (ASKED, key, True)
        assert scene.run_now("once", at=key.due_at).key == key  # the answer to the first was lost
        scene.end(scene.run(key))
        again = scene.run_now("once", at=key.due_at + timedelta(seconds=9))
        assert (again.verdict, again.key, again.again) == (ASKED, key, True)
        assert [entry.key for entry in scene.c.fires("a")] == [key]
        assert scene.run_now("nce", at=key.due_at).key != key

    def test_it_is_known_as_long_as_its_history(self, scene: DemandingScene) -> None:
        """Its claim may be gone."""
        key = scene.asked("once")
        scene.end(scene.run(key))
        scene.backend.advance(scene.c.timing.ended_ttl + 60)
        assert list(scene.c.claims([key])) == [None]
        assert scene.run_now("once").key == key

    # --- loss of memory ---

    def test_remembered_it_keeps_guard_and_arguments(self, scene: DemandingScene, backend: Backend) -> None:
        """From the outbox of a beat."""
        key = scene.asked(override={"args": [1]})
        (entry,) = scene.sweep("b1").entries
        backend.flush()
        scene.c.remember(Memory(outbox=(entry,)))
        scene.pass_time(scene.c.timing.lease + 1)
        assert scene.run_now("n2").verdict is RUNNING
        assert scene.claim(key).override == '{"args":[1]}'

    def test_remembered_by_its_worker(self, scene: DemandingScene, backend: Backend) -> None:
        """It runs, so it has the guard; nothing is asked for in the quiet time."""
        key = scene.asked()
        scene.run(key)
        delivery = _of(scene.delivery(token="t1", origin=Origin.RUN_NOW), key)
        started = scene.now()
        backend.flush()
        scene.c.remember_running([Running(delivery=delivery, started_at=started)])
        assert scene.run_now("n2").verdict is DemandVerdict.QUIET
        scene.keep(scene.c.timing.lease + 1, Lease(key, "t1"))
        assert scene.run_now("n2").verdict is RUNNING
        scene.end(Lease(key, "t1"))
        scene.asked("n3")

    # --- backfill ---

    def test_a_due_time_that_nobody_decided(self, scene: DemandingScene) -> None:
        """It fires once, under its own identity, and there is no guard."""
        assert scene.backfill(-5).verdict is ASKED
        assert scene.backfill(-5).verdict is FIRED
        assert scene.backfill(-4).verdict is ASKED
        key = scene.key(-5)
        scene.end(scene.run(key))
        assert scene.backfill(-5).verdict is FIRED
        assert scene.entry(key).origin is Origin.BACKFILL
        state = scene.state()
        assert (state.run_count, state.auto_count, state.last_due) == (1, 0, scene.due(0))

    def test_what_has_fired_is_left_alone(self, scene: DemandingScene) -> None:
        """By its claim, and by its history when that is gone; with a nonce it fires all the same."""
        scene.running(1)
        assert scene.backfill(1).verdict is FIRED
        scene.finish(1)
        assert scene.backfill(1).verdict is FIRED
        scene.backend.advance(scene.c.timing.ended_ttl + 60)
        assert scene.backfill(1).verdict is FIRED
        assert scene.backfill(1, "forced").verdict is ASKED

    def test_what_ended_unstarted_is_asked_for_anew(self, scene: DemandingScene) -> None:
        """As the next attempt: its first message may have reached a worker, which drops an id that it saw expire."""
        key = scene.sent(1, deadline=30)
        scene.pass_time(31)
        scene.c.reap()
        assert scene.entry(key).status is Status.EXPIRED
        assert scene.backfill(1).verdict is ASKED
        assert scene.claim(key).attempt == 2
        scene.end(scene.run(key, attempt=2))
        assert scene.entry(key).status is Status.SUCCESS
        assert scene.state().run_count == 1

    def test_what_became_of_the_message_before(self, scene: DemandingScene) -> None:
        """A worker says late that it saw that one expire: the attempt that is on its way does not end by it."""
        key = scene.sent(1, deadline=30)
        scene.pass_time(31)
        scene.c.reap()
        assert scene.backfill(1).verdict is ASKED
        expired = Outcome(lease=Lease(key, ""), status=Status.EXPIRED, reason="expires", attempt=1)
        assert [reply.verdict for reply in scene.c.finish([expired])] == ["late"]
        scene.send(key)
        assert [reply.verdict for reply in scene.c.finish([expired])] == ["late"]
        assert scene.claim(key).status is Status.SENT
        (reply,) = scene.c.finish([replace(expired, attempt=2)])
        assert (reply.verdict, scene.claim(key).status) == ("recorded", Status.EXPIRED)

    def test_a_missed_one_becomes_a_fire(self, scene: DemandingScene) -> None:
        """One entry, one due time."""
        run = scene.missed(1, 1)
        assert scene.backfill(1, split=Split(whole=run)).verdict is ASKED
        assert scene.ranges() == [(1, 1, 1, Status.PENDING)]

    @pytest.mark.parametrize(
        ("n", "left"),
        [(1, [(2, 5)]), (2, [(1, 1), (3, 5)]), (3, [(1, 2), (4, 5)]), (4, [(1, 3), (5, 5)]), (5, [(1, 4)])],
    )
    def test_an_entry_is_split(self, scene: DemandingScene, n: int, left: list[tuple[int, int]]) -> None:
        """Every due time is there once, before as after."""
        run = scene.missed(1, 5)
        parts = [NotFired(run.status, run.reason, scene.due(a), scene.due(b), b - a + 1) for a, b in left]
        before = next((part for part in parts if part.first < scene.due(n)), None)
        after = next((part for part in parts if part.first > scene.due(n)), None)
        assert scene.backfill(n, split=Split(whole=run, before=before, after=after)).verdict is ASKED
        expected = [(a, b, b - a + 1, Status.MISSED) for a, b in left] + [(n, n, 1, Status.PENDING)]
        assert scene.ranges() == sorted(expected)

    def test_an_entry_that_has_changed_is_not_split(self, scene: DemandingScene) -> None:
        """It is read again first; nothing has happened."""
        run = scene.missed(1, 5)
        old = NotFired(run.status, run.reason, run.first, scene.due(4), 4)
        after = NotFired(run.status, run.reason, scene.due(2), scene.due(4), 3)
        assert scene.backfill(1, split=Split(whole=old, after=after)).verdict is MOVED
        assert scene.ranges() == [(1, 5, 5, Status.MISSED)]
        assert scene.sweep().entries == ()

    # --- rows ---

    def test_rows_are_told_while_it_is_pending(self, scene: DemandingScene) -> None:
        """No commit of theirs knows of it."""
        carrier: Preparing = scene.c  # type: ignore[assignment]
        key = scene.asked(store="db")
        (item,) = carrier.uncarried()
        assert (item.record.key, item.record.status, item.record.origin) == (key, Status.PENDING, Origin.RUN_NOW)
        carrier.carried([item])
        assert list(carrier.uncarried()) == []
        scene.send(key)
        (later,) = carrier.uncarried()
        assert later.record.status is Status.SENT
        assert later.serial > item.serial
