"""One coordinator in memory, a clock that is moved by hand, and the lifecycles of several worker processes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Status
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.protocols import Delivery, Hold, Lease, Outcome, Registration, Timing
from celery_parrot.testing import FakeClock, RecordingEvents

LEASE = 15.0
NAME = Namespace("unit")
DUE = datetime(2026, 1, 1, tzinfo=UTC)


class Flaky:
    """A coordinator that can be cut off, and whose replies can be lost."""

    def __init__(self, inner: MemoryCoordinator) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.said: list[tuple[str, Any]] = []  # each call with its batch
        self.during: Callable[[], None] | None = None  # once, while a call is on its way
        self.down = False
        self.lose_reply = False
        self.error: Exception | None = None
        self.choke_on: Callable[[Any], bool] = lambda args: False

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.calls.append(name)
            self.said.append((name, args[0] if args else None))
            if self.during is not None:
                during, self.during = self.during, None
                during()
            if self.down:
                raise Unreachable("down")
            if self.error is not None:
                raise self.error
            if self.choke_on(args):
                raise RuntimeError("OOM command not allowed")
            value = getattr(self.inner, name)(*args)
            if self.lose_reply:
                self.lose_reply = False
                raise Unreachable("the reply was lost")
            return value

        return call


class Bench:
    """One server, one clock, and the lifecycles of several worker processes."""

    def __init__(self) -> None:
        self.clock = FakeClock(DUE)
        self.server = MemoryCoordinator(NAME, Timing(lease=LEASE), self.clock)
        self.server.attach()
        self.links: list[Flaky] = []
        self.events = RecordingEvents()

    def worker(self) -> Lifecycle:
        link = Flaky(self.server.client())
        self.links.append(link)
        return Lifecycle(link, self.clock, LEASE, namespace=NAME, events=self.events)

    def key(self, number: int = 0) -> FireKey:
        return FireKey(f"s{number}", DUE)

    def sent(self, number: int = 0) -> FireKey:
        """A fire whose message is with the broker."""
        key = self.committed(number)
        self.server.client().confirm([Hold(key, "beat")])
        return key

    def committed(self, number: int = 0) -> FireKey:
        """A fire in the outbox."""
        key, before = self.key(number), DUE - timedelta(seconds=1)
        coordinator = self.server.client()
        coordinator.register([Registration(schedule_id=key.schedule_id, when="-", initial=before)])
        plan = Plan(
            schedule_id=key.schedule_id,
            name=key.schedule_id,
            kind="task",
            expected_mark=before,
            new_mark=DUE,
            fires=(PlannedFire(DUE),),
        )
        coordinator.commit([plan], "beat")
        return key

    def delivery(self, token: str = "t1", number: int = 0, **changes: Any) -> Delivery:
        key = self.key(number)
        return Delivery(key=key, name=key.schedule_id, kind="task", token=token, worker="w", **changes)

    def claim(self, number: int = 0) -> Fire:
        (claim,) = self.server.client().claims([self.key(number)])
        assert claim is not None
        return claim

    def record(self, number: int = 0) -> FireRecord:
        (record,) = self.server.client().fires(f"s{number}")
        return record

    def pass_time(self, seconds: float, *workers: Lifecycle, touch: bool = True) -> None:
        """Let time pass in steps, as keepers do; somebody touches the coordinator meanwhile."""
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            if touch:
                self.server.client().attach()
            self.clock.advance(min([end - self.clock.monotonic(), 0.5, *(worker.keep() for worker in workers)]))


def success(delivery: Delivery, output: str = "done") -> Outcome:
    return Outcome(lease=Lease(delivery.key, delivery.token), status=Status.SUCCESS, output=output)
