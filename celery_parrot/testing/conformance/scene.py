"""What the conformance tests play with: a backend under test, and short names for what beats and workers say."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from celery_parrot.model.fire import Fire, FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import NotFired, Plan, PlannedFire
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    CommitReply,
    Coordinator,
    Delivery,
    FinishReply,
    Hold,
    Lease,
    Mark,
    Outcome,
    Registration,
    StartReply,
    SweepReply,
    Timing,
)

#: What the suites expect of every client's timing: the defaults, but for a history that is soon full.
TIMING = Timing(history_limit=20)


class Backend(Protocol):
    """One implementation under test, empty at the beginning of each test."""

    def client(self, name: str = "conformance") -> Coordinator:
        """A new client with an epoch knowledge of its own, timing :data:`TIMING`, of the registered name ``name``."""
        ...

    def advance(self, seconds: float) -> None:
        """Move the coordinator's clock, for every client."""
        ...

    def flush(self) -> None:
        """Forget everything, as FLUSHALL would."""
        ...

    def change_server(self) -> None:
        """Become another server with the same data, as after a restart or a failover."""
        ...


class Scene:
    """One schedule ``a`` (and others by name), due times ``due(1) < due(2) < …`` a minute apart, beats and workers."""

    def __init__(self, coordinator: Coordinator, backend: Backend) -> None:
        self.c = coordinator
        self.backend = backend
        self.base = coordinator.attach().now.replace(microsecond=0) - timedelta(hours=1)

    # --- names ---

    def due(self, n: float) -> datetime:
        return self.base + timedelta(minutes=n)

    def key(self, n: float, schedule_id: str = "a") -> FireKey:
        return FireKey(schedule_id, self.due(n))

    def hold(self, n: float, owner: str = "b1", tries: int = 0, schedule_id: str = "a") -> Hold:
        return Hold(self.key(n, schedule_id), owner, tries)

    def now(self) -> datetime:
        """The coordinator's clock."""
        return self.c.attach().now

    def beat(self, owner: str = "b1") -> Beat:
        return Beat(
            owner=owner, host="host", pid=7, version="1", started=self.base, seen=self.base, skew=0.25, claims=1.5
        )

    def pass_time(self, seconds: float) -> None:
        """Let time pass while somebody keeps asking, so that nothing counts as an outage."""
        while seconds > 0:
            step = min(seconds, 1.0)
            self.backend.advance(step)
            seconds -= step
            self.c.claims([])

    # --- beats ---

    def register(self, schedule_id: str = "a", when: str = "w", initial: float | None = 0) -> Mark:
        at = None if initial is None else self.due(initial)
        return self.c.register([Registration(schedule_id=schedule_id, when=when, initial=at)])[0]

    def plan(
        self,
        *fires: float,
        schedule_id: str = "a",
        mark: float = 0,
        new_mark: float | None = None,
        origin: Origin = Origin.SCHEDULE,
        not_fired: Sequence[NotFired] = (),
        max_fires: int | None = None,
        recover: bool = False,
        tells: Sequence[str] = (),
    ) -> Plan:
        decided = [*fires] if new_mark is None else [new_mark]
        return Plan(
            schedule_id=schedule_id,
            name=schedule_id,
            kind="task",
            expected_mark=self.due(mark),
            new_mark=self.due(max(decided)),
            fires=tuple(PlannedFire(self.due(n), origin) for n in fires),
            not_fired=tuple(not_fired),
            max_fires=max_fires,
            recover=recover,
            tells=tuple(tells),
        )

    def commit(self, *fires: float, owner: str = "b1", c: Coordinator | None = None, **plan: Any) -> CommitReply:
        """Commit one plan, from the mark ``mark`` (0)."""
        return (c or self.c).commit([self.plan(*fires, **plan)], owner)[1][0]

    def pending(self, n: float = 1, owner: str = "b1", schedule_id: str = "a") -> Hold:
        """A registered schedule with one fire in the outbox."""
        self.register(schedule_id)
        assert self.commit(n, owner=owner, schedule_id=schedule_id).fires
        return self.hold(n, owner, schedule_id=schedule_id)

    def sent(self, n: float = 1, schedule_id: str = "a", deadline: float | None = None) -> FireKey:
        """One fire that is with the broker, with its queue deadline in seconds from now."""
        hold = self.pending(n, schedule_id=schedule_id)
        self.confirm(hold, deadline=deadline)
        return hold.key

    def confirm(self, *holds: Hold, deadline: float | None = None) -> None:
        until = None if deadline is None else self.now() + timedelta(seconds=deadline)
        assert list(self.c.confirm(holds, [until] * len(holds))) == [True] * len(holds)

    def send_again(self, n: float = 1, owner: str = "b2") -> Fire:
        """A beat takes what is back in the outbox, and sends it."""
        found = [hold for hold in self.sweep(owner).due if hold.key == self.key(n)]
        assert len(found) == 1, f"{self.key(n)} is not to be taken"
        fire = self.c.take(found, owner)[0]
        assert fire is not None
        self.confirm(Hold(fire.key, owner, fire.tries))
        return fire

    def sweep(self, owner: str = "b1", c: Coordinator | None = None) -> SweepReply:
        return (c or self.c).sweep(self.beat(owner))

    # --- workers ---

    def delivery(self, n: float = 1, token: str = "t1", schedule_id: str = "a", **changes: Any) -> Delivery:
        return Delivery(
            key=self.key(n, schedule_id), name=schedule_id, kind="task", token=token, worker="w1", **changes
        )

    def start(self, n: float = 1, token: str = "t1", c: Coordinator | None = None, **changes: Any) -> StartReply:
        return (c or self.c).start([self.delivery(n, token, **changes)])[0]

    def running(self, n: float = 1, token: str = "t1") -> Lease:
        self.sent(n)
        assert self.start(n, token).verdict == "run"
        return Lease(self.key(n), token)

    def finish(self, n: float = 1, token: str = "t1", status: Status = Status.SUCCESS, **changes: Any) -> FinishReply:
        return self.c.finish([Outcome(lease=Lease(self.key(n), token), status=status, **changes)])[0]

    def keep(self, seconds: float, *leases: Lease) -> None:
        """Let time pass while these leases are renewed."""
        while seconds > 0:
            step = min(seconds, self.c.timing.lease / 3)
            self.pass_time(step)
            assert list(self.c.renew_leases(leases)) == [True] * len(leases)
            seconds -= step

    # --- looks ---

    def fire(self, n: float = 1, schedule_id: str = "a") -> Fire:
        fire = self.c.claims([self.key(n, schedule_id)])[0]
        assert fire is not None
        return fire

    def status(self, n: float = 1, schedule_id: str = "a") -> Status | None:
        fire = self.c.claims([self.key(n, schedule_id)])[0]
        return fire.status if fire is not None else None

    def state(self, schedule_id: str = "a") -> RunState:
        return self.c.run_states([schedule_id])[schedule_id]

    def record(self, n: float = 1, schedule_id: str = "a") -> FireRecord:
        found = [r for r in self.c.fires(schedule_id) if r.key == self.key(n, schedule_id)]
        assert len(found) == 1, f"{len(found)} history entries of {self.key(n, schedule_id)}"
        return found[0]


def near(stamp: datetime | None, now: datetime, seconds: float = 1.0) -> bool:
    """Whether a stamp is ``now`` but for the time that the calls took."""
    return stamp is not None and abs((stamp - now).total_seconds()) < seconds
