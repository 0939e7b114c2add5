"""The coordinator's face: locks, touches, compares the epoch, and hands each item of a batch to its rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from celery_parrot.coordination.memory.server import MemoryServer, ServerClock
from celery_parrot.coordination.rules import holding, limits, memory, outbox, records, rows, runs
from celery_parrot.coordination.rules.space import Space
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    Carried,
    CommitReply,
    Delivery,
    Drop,
    FinishReply,
    Hold,
    Lease,
    LimitReply,
    LimitRequest,
    Mark,
    Memory,
    Outcome,
    Reading,
    Reaped,
    Registration,
    Running,
    StartReply,
    SweepReply,
    Timing,
)
from celery_parrot.protocols.holding import Held, Release


class MemoryCoordinator:
    """A :class:`~celery_parrot.protocols.Coordinator` in memory, with all of its capabilities: limits, preparing for
    rows that decide, holding schedules of code.

    Thread-safe. Coordinates what shares one :class:`MemoryServer`: by default only this object; :meth:`client`
    makes another with an epoch knowledge of its own, as another process would have.

    :param namespace: the registered name.
    :param timing: the durations; the same for every coordinator of a name.
    :param clock: the coordinator's own clock. Ignored if ``server`` is given, which has one.
    """

    def __init__(
        self,
        namespace: Namespace,
        timing: Timing | None = None,
        clock: ServerClock | None = None,
        *,
        server: MemoryServer | None = None,
    ) -> None:
        if server is None:
            if clock is None:
                raise TypeError("a MemoryCoordinator needs a clock or a server")
            server = MemoryServer(clock)
        self.namespace = namespace
        self.timing = timing or Timing()
        self.server = server
        self._known = ""

    def __repr__(self) -> str:
        return f"MemoryCoordinator({self.namespace.name!r})"

    def client(self, namespace: Namespace | None = None) -> MemoryCoordinator:
        """Another coordinator on the same server, of the same name unless one is given."""
        return MemoryCoordinator(namespace or self.namespace, self.timing, server=self.server)

    # -- test hooks --

    def flush(self) -> None:
        """Lose everything, as FLUSHALL would."""
        self.server.flush()

    def forget_identity(self) -> None:
        """Become another server with the same data, as a restart would."""
        self.server.forget_identity()

    # -- every call --

    @contextmanager
    def _call(self) -> Iterator[Space]:
        with self.server.space(self.namespace, self.timing) as space:
            if not self._known:  # a process's first call adopts what there is
                memory.attach(space)
                self._known = space.epoch
            space.check(self._known)
            space.touch()
            yield space

    # -- memory --

    def attach(self) -> Reading:
        self._known = ""
        with self._call() as space:
            return space.reading()

    def remember(self, memory_: Memory) -> Reading:
        with self.server.space(self.namespace, self.timing) as space:
            space.touch()
            memory.rejoin(space, self._known)
            memory.restore(space, memory_)
            self._known = space.epoch
            return space.reading()

    def remember_running(self, running: Sequence[Running]) -> Reading:
        with self.server.space(self.namespace, self.timing) as space:
            space.touch()
            memory.rejoin(space, self._known)
            for one in running:
                memory.restore_running(space, one)
            self._known = space.epoch
            return space.reading()

    # -- beats --

    def register(self, registrations: Sequence[Registration]) -> Sequence[Mark]:
        with self._call() as space:
            return [outbox.register(space, registration) for registration in registrations]

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        with self._call() as space:
            outbox.seen(space, owner)
            replies = [outbox.commit(space, plan, owner) for plan in plans]
            return space.reading(), replies

    def renew(self, holds: Sequence[Hold]) -> Sequence[bool]:
        with self._call() as space:
            return [outbox.renew(space, hold) for hold in holds]

    def confirm(self, holds: Sequence[Hold], deadlines: Sequence[datetime | None] | None = None) -> Sequence[bool]:
        with self._call() as space:
            return [outbox.confirm(space, hold) for hold in holds]

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        with self._call() as space:
            return [outbox.drop(space, drop) for drop in drops]

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        with self._call() as space:
            return outbox.sweep(space, beat, offset, limit)

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        with self._call() as space:
            outbox.seen(space, owner)
            return [outbox.take(space, hold, owner) for hold in holds]

    def reap(self, *, limit: int = 500, holding: bool = False) -> Sequence[Reaped]:
        with self._call() as space:
            return runs.reap(space, limit)

    def leave(self, owner: str) -> None:
        with self._call() as space:
            outbox.leave(space, owner)

    # -- rows that decide --

    def prepare(self, plans: Sequence[Plan], owner: str, token: str) -> tuple[Reading, Sequence[CommitReply]]:
        with self._call() as space:
            outbox.seen(space, owner)
            replies = [rows.prepare(space, plan, owner, token) for plan in plans]
            return space.reading(), replies

    def discard(self, holds: Sequence[Hold], token: str) -> Sequence[bool]:
        with self._call() as space:
            return [rows.discard(space, hold, token) for hold in holds]

    def uncarried(self, *, limit: int = 500) -> Sequence[Carried]:
        with self._call() as space:
            return rows.uncarried(space, limit)

    def carried(self, items: Sequence[Carried]) -> None:
        with self._call() as space:
            for item in items:
                rows.carried(space, item)

    # -- holding --

    def hold(self, schedule_ids: Sequence[str], by: str, note: str) -> Sequence[bool]:
        with self._call() as space:
            return [holding.hold(space, schedule_id, by, note) for schedule_id in schedule_ids]

    def release(self, releases: Sequence[Release]) -> Sequence[Verdict]:
        with self._call() as space:
            return [holding.release(space, release) for release in releases]

    def holds(self, schedule_ids: Sequence[str]) -> Mapping[str, Held]:
        with self._call() as space:
            found = {schedule_id: holding.held(space, schedule_id) for schedule_id in schedule_ids}
            return {schedule_id: held for schedule_id, held in found.items() if held is not None}

    # -- limits --

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        with self._call() as space:
            return [limits.request(space, request) for request in requests]

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        with self._call() as space:
            return [runs.start(space, delivery) for delivery in deliveries]

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        with self._call() as space:
            return [runs.renew(space, lease) for lease in leases]

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        with self._call() as space:
            return [runs.finish(space, outcome) for outcome in outcomes]

    # -- reading --

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        with self._call() as space:
            return records.history(space, schedule_id, limit, before)

    def run_states(self, schedule_ids: Sequence[str]) -> Mapping[str, RunState]:
        with self._call() as space:
            return {i: space.states[i].run for i in schedule_ids if i in space.states}

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        with self._call() as space:
            found = [space.claim(key) for key in keys]
            return [claim.fire if claim is not None else None for claim in found]

    def beats(self) -> Sequence[Beat]:
        with self._call() as space:
            return outbox.beats(space)

    def close(self) -> None:
        """Nothing to close."""
