"""Limits against a model of thirty lines: whatever beats, workers and people do, in whatever order.

Never over capacity, never stuck with free capacity, first come first served.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.protocols import (
    SLOTS,
    Busy,
    Drop,
    FinishVerdict,
    Grant,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Reaped,
    Reservation,
    StartVerdict,
)
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene

FIRES = 30
TICK = TIMING.lease + 1

KIND = Limit("kind:agent", 2, Busy.SKIP)
ALONE = Limit("schedule:a", 1, Busy.OVERLAP)
BUFFER = Limit("schedule:b", 1, Busy.WAIT, 1)
GPU, DISK, TWO, SLOT = Limit("group:gpu"), Limit("group:disk"), Limit("group:two", 2), Limit(SLOTS, 2)
ASKED: Sequence[tuple[Limit, ...]] = (
    *((GPU,), (DISK,), (TWO,), (SLOT,), (KIND,), (BUFFER,)),
    *((GPU, DISK), (GPU, SLOT), (TWO, GPU), (SLOT, DISK), (KIND, GPU), (ALONE, DISK), (BUFFER, GPU)),
    (KIND, TWO, DISK, SLOT),
)


class Model:
    """What limits are: who holds them, who waits, and who is next. Fires are numbers, ordered by due time."""

    def __init__(self) -> None:
        self.holders: dict[str, set[int]] = {}
        self.line: list[int] = []
        self.limits: dict[int, Sequence[Limit]] = {}

    def ask(self, n: int, limits: Sequence[Limit]) -> Grant:
        if any(limit.busy is not Busy.WAIT and not self.room(limit) for limit in limits):
            return Grant.SKIPPED
        for limit in limits:
            there = len(self.holders.get(limit.name, ())) + sum(limit in self.limits[other] for other in self.line)
            if limit.buffer is not None and there >= limit.capacity + limit.buffer:
                return Grant.SKIPPED
        self.limits[n] = limits
        self.hold(n, [limit for limit in limits if limit.busy is not Busy.WAIT])
        self.line = sorted([*self.line, n])
        return Grant.GRANTED if n in self.admit() else Grant.WAITING

    def admit(self) -> list[int]:
        named, blocked = [], set()
        for n in list(self.line):
            wanted = [limit for limit in self.limits[n] if limit.busy is Busy.WAIT]
            lacked = {limit.name for limit in wanted if limit in blocked or not self.room(limit)}
            if lacked:
                blocked |= {limit for limit in wanted if limit.name != SLOTS or lacked == {SLOTS}}
                continue
            self.line.remove(n)
            self.hold(n, wanted)
            named.append(n)
        return named

    def end(self, n: int) -> list[int]:
        self.line = [other for other in self.line if other != n]
        for holders in self.holders.values():
            holders.discard(n)
        return self.admit()

    def room(self, limit: Limit) -> bool:
        return len(self.holders.get(limit.name, ())) < limit.capacity

    def hold(self, n: int, limits: Sequence[Limit]) -> None:
        for limit in limits:
            self.holders.setdefault(limit.name, set()).add(n)


@dataclass(slots=True)
class Told:
    """What the world knows of one fire. ``dead``: whoever has it will not be heard of again."""

    status: Status = Status.PENDING
    granted: bool = False
    recover: bool = False
    recovered: bool = False
    token: str = ""
    old_token: str = ""
    until: float | None = None
    dead: bool = False


class LimitsMachine(RuleBasedStateMachine):
    """:cvar make: an empty backend."""

    make: ClassVar[Callable[[], Backend]]

    @initialize()
    def begin(self) -> None:
        self.backend = type(self).make()
        self.scene = Scene(self.backend.client(), self.backend)
        self.c: Any = self.scene.c
        self.model, self.elapsed, self.tokens = Model(), 0.0, 0
        self.scene.register()
        half = FIRES // 2
        self.scene.commit(*range(1, half + 1), recover=True)
        self.scene.commit(*range(half + 1, FIRES + 1), mark=half)
        self.fires = {n: Told(recover=n <= half) for n in range(1, FIRES + 1)}

    def teardown(self) -> None:
        if hasattr(self, "backend"):
            self.c.close()

    # --- helpers ---

    def some(self, *statuses: Status, granted: bool | None = None) -> list[int]:
        """Fires that are so."""
        return [
            n
            for n, fire in self.fires.items()
            if fire.status in statuses and (granted is None or fire.granted is granted)
        ]

    def pick(self, data: st.DataObject, *statuses: Status, granted: bool | None = None) -> int | None:
        """One of them, the earliest in most cases, so that the same few meet."""
        there = self.some(*statuses, granted=granted)
        return data.draw(st.sampled_from(there[:6])) if there else None

    def claim(self, n: int) -> Fire:
        return self.scene.fire(n)

    def hold(self, n: int) -> Hold:
        fire = self.claim(n)
        return Hold(fire.key, fire.owner, fire.tries)

    def numbers(self, keys: Sequence[FireKey]) -> list[int]:
        return [round((key.due_at - self.scene.base).total_seconds() / 60) for key in keys]

    def ended(self, n: int, status: Status, named: Sequence[FireKey] | None = None) -> None:
        """It has an outcome, and the model says who is next."""
        fire = self.fires[n]
        fire.status, fire.granted, fire.dead = status, False, False
        expected = self.model.end(n)
        assert named is None or self.numbers(named) == expected
        for other in expected:
            self.fires[other].status, self.fires[other].granted = Status.PENDING, True

    # --- what beats do ---

    @precondition(lambda self: self.some(Status.PENDING, granted=False))
    @rule(data=st.data(), asked=st.lists(st.sampled_from(ASKED), min_size=1, max_size=5))
    def ask(self, data: st.DataObject, asked: list[tuple[Limit, ...]]) -> None:
        for limits in asked:
            n = self.pick(data, Status.PENDING, granted=False)
            if n is not None:
                self.ask_one(n, limits, data.draw(st.sampled_from((None, None, None, 1.5, 3.5))))

    def ask_one(self, n: int, limits: tuple[Limit, ...], wait: float | None) -> None:
        """Wait deadlines lie between two ticks, counted from the commit of all, of a recovered fire from here."""
        fire = self.fires[n]
        until = None if wait is None else self.elapsed + wait * TICK
        asked = until if wait is None or not fire.recovered else wait * TICK
        request = LimitRequest(hold=self.hold(n), limits=limits, wait=asked)
        reply = self.c.request([request])[0]
        assert reply.grant is self.model.ask(n, limits)
        if reply.grant is Grant.SKIPPED:
            fire.status = self.claim(n).status
            assert fire.status in (Status.SUCCESS, Status.SKIPPED)
        elif reply.grant is Grant.WAITING:
            fire.status, fire.until = Status.WAITING, until
        else:
            fire.granted = True
        assert self.c.request([request])[0].grant is reply.grant

    @precondition(lambda self: self.some(Status.PENDING, granted=True))
    @rule(data=st.data(), late=st.booleans())
    def send(self, data: st.DataObject, late: bool) -> None:
        n = self.pick(data, Status.PENDING, granted=True)
        if n is not None:
            self.scene.confirm(self.hold(n), deadline=1.5 * TICK if late else None)
            self.fires[n].status = Status.SENT
            self.fires[n].until = self.elapsed + 1.5 * TICK if late else None

    @precondition(lambda self: self.some(Status.PENDING, granted=True))
    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        n = self.pick(data, Status.PENDING, granted=True)
        if n is not None:
            assert self.c.drop([Drop(hold=self.hold(n), status=Status.SKIPPED, reason="paused")]) == [True]
            self.ended(n, Status.SKIPPED)

    @rule()
    def leave(self) -> None:
        """The beat that owns most of them stops: nothing of it is about limits."""
        self.c.leave("b1")

    # --- what workers do ---

    @precondition(lambda self: self.some(Status.SENT))
    @rule(data=st.data(), dies=st.booleans())
    def receive(self, data: st.DataObject, dies: bool) -> None:
        n = self.pick(data, Status.SENT)
        if n is not None:
            claim = self.claim(n)
            one = Reservation(key=claim.key, attempt=claim.sent_as, retries=claim.retries, worker="w")
            assert self.c.reserve([one]) == [True]
            self.fires[n].dead = True
            if not dies:
                self.start_it(n)

    @precondition(lambda self: self.some(Status.SENT))
    @rule(data=st.data(), dies=st.booleans())
    def start(self, data: st.DataObject, dies: bool) -> None:
        n = self.pick(data, Status.SENT)
        if n is not None:
            self.start_it(n, dies)

    def start_it(self, n: int, dies: bool = False) -> None:
        fire, claim = self.fires[n], self.claim(n)
        self.tokens += 1
        fire.token, fire.dead, fire.status = f"t{self.tokens}", dies, Status.RUNNING
        reply = self.scene.start(n, fire.token, attempt=claim.sent_as, retries=claim.retries)
        assert reply.verdict is StartVerdict.RUN
        assert set(reply.holds) == set(self.model.limits[n])

    @precondition(lambda self: self.some(Status.RUNNING))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        n = self.pick(data, Status.RUNNING)
        if n is not None:
            reply = self.scene.finish(n, self.fires[n].token)
            assert reply.verdict is FinishVerdict.RECORDED
            self.ended(n, Status.SUCCESS, reply.named)

    @precondition(lambda self: self.some(Status.RUNNING))
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        n = self.pick(data, Status.RUNNING)
        if n is not None:
            assert self.scene.finish(n, self.fires[n].token, Status.SENT).named == ()
            self.fires[n].status, self.fires[n].until, self.fires[n].dead = Status.SENT, None, False

    @precondition(lambda self: any(fire.old_token for fire in self.fires.values()))
    @rule(data=st.data())
    def finish_late(self, data: st.DataObject) -> None:
        """Who was given up ends after all: that ends nothing and frees nothing."""
        n = data.draw(st.sampled_from([n for n, fire in self.fires.items() if fire.old_token]))
        reply = self.scene.finish(n, self.fires[n].old_token)
        assert (reply.verdict, reply.named) == (FinishVerdict.LATE, ())

    # --- people, and time ---

    @precondition(lambda self: self.some(Status.WAITING, Status.SENT, Status.RUNNING))
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        n = self.pick(data, Status.WAITING, Status.SENT, Status.RUNNING)
        if n is not None:
            freed = self.c.free([self.scene.key(n)], "by hand")[0]
            self.fires[n].old_token = self.fires[n].token
            self.ended(n, Status.ABANDONED, freed.named)

    @precondition(lambda self: self.some(Status.WAITING, Status.SENT, Status.RUNNING))
    @rule()
    def tick(self) -> None:
        """One lease time, in which the living are heard of, and the reaper."""
        for _ in range(8):
            self.backend.advance(TICK / 8)
            alive = [n for n in self.some(Status.RUNNING) if not self.fires[n].dead]
            leases = [Lease(self.scene.key(n), self.fires[n].token) for n in alive]
            assert self.c.renew_leases(leases) == [True] * len(leases)
        self.elapsed += TICK
        for reaped in self.c.reap(holding=True):
            self.reaped(reaped)
        assert not [n for n in self.fires if self.to_be_reaped(n)]

    def to_be_reaped(self, n: int) -> bool:
        fire = self.fires[n]
        over = fire.until is not None and fire.until < self.elapsed
        lost = fire.dead and fire.status in (Status.RUNNING, Status.SENT)
        return lost or (over and fire.status in (Status.WAITING, Status.SENT))

    def reaped(self, reaped: Reaped) -> None:
        (n,) = self.numbers([reaped.fire.key])
        assert self.to_be_reaped(n)
        fire = self.fires[n]
        over = fire.until is not None and fire.until < self.elapsed
        if fire.status is Status.SENT and not over:
            assert (reaped.again, reaped.named) == (True, ())
            fire.status, fire.dead = Status.PENDING, False
            return
        expected = {Status.RUNNING: Status.ABANDONED, Status.SENT: Status.EXPIRED, Status.WAITING: Status.ERROR}
        again = fire.status is Status.RUNNING and fire.recover
        outcome = Status.PENDING if again else expected[fire.status]
        assert (reaped.again, reaped.fire.status) == (again, outcome)
        if fire.status is Status.RUNNING:
            fire.recovered, fire.recover, fire.old_token, fire.token = again, False, fire.token, ""
        fire.until = None
        self.ended(n, outcome, reaped.named)

    # --- what must hold after each ---

    @invariant()
    def agrees_with_the_model(self) -> None:
        if not hasattr(self, "fires"):
            return
        claims = self.c.claims([self.scene.key(n) for n in self.fires])
        assert [claim.status for claim in claims] == [fire.status for fire in self.fires.values()]
        line = self.scene.sweep("b9").line
        assert self.numbers([waiting.fire.key for waiting in line]) == self.model.line
        states = {state.name: state for state in self.c.limits()}
        holders = {name: set(self.numbers([h.fire.key for h in state.holders])) for name, state in states.items()}
        assert {name: there for name, there in holders.items() if there} == {
            name: there for name, there in self.model.holders.items() if there
        }
        full = set()
        for name, state in states.items():
            assert len(state.holders) <= state.capacity, f"{name} is over its capacity"
            full.update([name] if len(state.holders) == state.capacity else [])
        before: set[str] = set()
        for waiting in line:
            wanted = {limit.name for limit in waiting.limits if limit.busy is Busy.WAIT}
            assert wanted & (full | before), f"{waiting.fire.key} waits for nothing"
            before |= wanted


def run_model(make: Callable[[], Backend], *, examples: int, steps: int = 30) -> None:
    """Play it on backends that ``make`` gives, each of them empty."""
    machine = type("Machine", (LimitsMachine,), {"make": staticmethod(make)})
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    how = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=checks, deadline=None)
    run_state_machine_as_test(machine, settings=how)
