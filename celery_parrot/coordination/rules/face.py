"""The face of a coordinator that runs these rules: compares the epoch, touches, and hands each item of a batch to its
rule."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from celery_parrot.coordination.rules import (
    deliveries,
    demands,
    holding,
    limits,
    memory,
    outbox,
    reaping,
    records,
    rows,
    runs,
)
from celery_parrot.coordination.rules.space import Space
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    Carried,
    CommitReply,
    Delivery,
    DeliveryReport,
    Demand,
    DemandReply,
    Drop,
    FinishReply,
    Hold,
    Lease,
    LimitReply,
    LimitRequest,
    LimitState,
    Mark,
    Memory,
    Outcome,
    Parcel,
    Reading,
    Reaped,
    Registration,
    Reservation,
    Running,
    StartReply,
    SweepReply,
    Timing,
)
from celery_parrot.protocols.holding import Held, Release

T = TypeVar("T")


class RulesCoordinator(ABC):
    """A :class:`~celery_parrot.protocols.Coordinator` with all of its capabilities: limits, preparing for rows that
    decide, holding schedules of code. Where the data is, is for :meth:`_transact` to say.

    :param namespace: the registered name.
    :param timing: the durations; the same for every coordinator of a name.
    """

    def __init__(self, namespace: Namespace, timing: Timing | None = None) -> None:
        self.namespace = namespace
        self.timing = timing or Timing()
        self._known = ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.namespace.name!r})"

    # -- every call --

    @abstractmethod
    def _transact(self, work: Callable[[Space], T]) -> T:
        """Run ``work`` on the space as one atomic step, with ``space.now`` and ``space.run_id`` set. What it changed
        is kept if it returns, and not if it raises. It may be run several times; the last one counts.

        :raises Unreachable: if that cannot be done; it may have been done all the same."""

    def _call(self, work: Callable[[Space], T], keys: Iterable[FireKey] = (), schedules: Iterable[str] = ()) -> T:
        """One operation. ``keys`` and ``schedules``: what it is going to ask for, to be read in one go."""
        known, keys, schedules = self._known, tuple(keys), tuple(schedules)

        def operation(space: Space) -> tuple[T, str, bool]:
            space.named = False
            if not known:  # a process's first call adopts what there is
                memory.attach(space)
            space.check(known or space.epoch)
            space.touch()
            space.prefetch(keys, schedules)
            return work(space), space.epoch, space.named

        answer, epoch, named = self._transact(operation)
        if not known:
            self._known = epoch
        if named:
            self._named()
        return answer

    def _named(self) -> None:  # noqa: B027 - where there is none, nothing is done
        """An operation put fires into the outbox that any beat may take at once: wake the beats, if there is a way."""

    # -- memory --

    def attach(self) -> Reading:
        self._known = ""
        return self._call(lambda space: space.reading())

    def remember(self, memory_: Memory) -> Reading:
        return self._rejoin(lambda space: memory.restore(space, memory_))

    def remember_running(self, running: Sequence[Running]) -> Reading:
        def restore(space: Space) -> None:
            space.prefetch([one.delivery.key for one in running])
            for one in running:
                memory.restore_running(space, one)

        return self._rejoin(restore)

    def _rejoin(self, restore: Callable[[Space], None]) -> Reading:
        known = self._known

        def operation(space: Space) -> Reading:
            space.touch()
            memory.rejoin(space, known)
            restore(space)
            return space.reading()

        reading = self._transact(operation)
        self._known = reading.epoch
        return reading

    # -- beats --

    def register(self, registrations: Sequence[Registration]) -> Sequence[Mark]:
        return self._call(
            lambda space: [outbox.register(space, registration) for registration in registrations],
            schedules=[registration.schedule_id for registration in registrations],
        )

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        def work(space: Space) -> tuple[Reading, Sequence[CommitReply]]:
            outbox.seen(space, owner)
            replies = [outbox.commit(space, plan, owner) for plan in plans]
            return space.reading(), replies

        return self._call(work, _planned(plans), [plan.schedule_id for plan in plans])

    def renew(self, holds: Sequence[Hold]) -> Sequence[bool]:
        return self._call(lambda space: [outbox.renew(space, hold) for hold in holds], [hold.key for hold in holds])

    def confirm(self, holds: Sequence[Hold], deadlines: Sequence[datetime | None] | None = None) -> Sequence[bool]:
        until = deadlines if deadlines is not None else [None] * len(holds)
        return self._call(
            lambda space: [outbox.confirm(space, hold, at) for hold, at in zip(holds, until, strict=True)],
            [hold.key for hold in holds],
        )

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        return self._call(lambda space: [outbox.drop(space, drop) for drop in drops], [drop.hold.key for drop in drops])

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        return self._call(lambda space: outbox.sweep(space, beat, offset, limit))

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        def work(space: Space) -> Sequence[Fire | None]:
            outbox.seen(space, owner)
            return [outbox.take(space, hold, owner) for hold in holds]

        return self._call(work, [hold.key for hold in holds])

    def reap(self, *, limit: int = 500, holding: bool = False) -> Sequence[Reaped]:
        return self._call(lambda space: reaping.reap(space, limit, holding))

    def leave(self, owner: str) -> None:
        self._call(lambda space: outbox.leave(space, owner))

    # -- rows that decide --

    def prepare(self, plans: Sequence[Plan], owner: str, token: str) -> tuple[Reading, Sequence[CommitReply]]:
        def work(space: Space) -> tuple[Reading, Sequence[CommitReply]]:
            outbox.seen(space, owner)
            replies = [rows.prepare(space, plan, owner, token) for plan in plans]
            return space.reading(), replies

        return self._call(work, _planned(plans))

    def discard(self, holds: Sequence[Hold], token: str) -> Sequence[bool]:
        return self._call(
            lambda space: [rows.discard(space, hold, token) for hold in holds], [hold.key for hold in holds]
        )

    def uncarried(self, *, limit: int = 500) -> Sequence[Carried]:
        return self._call(lambda space: rows.uncarried(space, limit))

    def carried(self, items: Sequence[Carried]) -> None:
        def work(space: Space) -> None:
            for item in items:
                rows.carried(space, item)

        self._call(work, [item.record.key for item in items])

    # -- holding --

    def hold(self, schedule_ids: Sequence[str], by: str, note: str) -> Sequence[bool]:
        return self._call(
            lambda space: [holding.hold(space, schedule_id, by, note) for schedule_id in schedule_ids],
            schedules=schedule_ids,
        )

    def release(self, releases: Sequence[Release]) -> Sequence[Verdict]:
        return self._call(
            lambda space: [holding.release(space, release) for release in releases],
            schedules=[release.schedule_id for release in releases],
        )

    def holds(self, schedule_ids: Sequence[str]) -> Mapping[str, Held]:
        def work(space: Space) -> Mapping[str, Held]:
            found = {schedule_id: holding.held(space, schedule_id) for schedule_id in schedule_ids}
            return {schedule_id: held for schedule_id, held in found.items() if held is not None}

        return self._call(work, schedules=schedule_ids)

    # -- what people ask for --

    def demand(self, demands_: Sequence[Demand]) -> Sequence[DemandReply]:
        return self._call(
            lambda space: [demands.demand(space, demand) for demand in demands_],
            [demand.key for demand in demands_],
        )

    # -- limits --

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        return self._call(
            lambda space: [limits.request(space, request) for request in requests],
            [request.hold.key for request in requests],
        )

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        return self._call(
            lambda space: [reaping.reserve(space, reservation) for reservation in reservations],
            [reservation.key for reservation in reservations],
        )

    def limits(self) -> Sequence[LimitState]:
        return self._call(limits.inspect)

    def free(self, keys: Sequence[FireKey], reason: str) -> Sequence[Reaped | None]:
        return self._call(lambda space: [reaping.free(space, key, reason) for key in keys], keys)

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        return self._call(
            lambda space: [runs.start(space, delivery) for delivery in deliveries],
            [delivery.key for delivery in deliveries],
        )

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        return self._call(lambda space: [runs.renew(space, lease) for lease in leases], [lease.key for lease in leases])

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        return self._call(
            lambda space: [runs.finish(space, outcome) for outcome in outcomes],
            [outcome.lease.key for outcome in outcomes],
        )

    # -- telling --

    def queue_parcels(self, parcels: Sequence[Parcel]) -> None:
        def work(space: Space) -> None:
            for parcel in parcels:
                deliveries.queue(space, parcel)

        self._call(work)

    def parcels(self, owner: str, limit: int, after: str = "") -> Sequence[Parcel]:
        return self._call(lambda space: deliveries.page(space, owner, limit, after))

    def take_parcels(self, owner: str, ids: Sequence[str]) -> Sequence[bool]:
        return self._call(lambda space: deliveries.take(space, owner, ids))

    def parcels_sent(self, ids: Sequence[str]) -> None:
        self._call(lambda space: space.sent_parcels(ids))

    def report(self, reports: Sequence[DeliveryReport]) -> None:
        def work(space: Space) -> None:
            for told in reports:
                deliveries.report(space, told)

        self._call(work, [told.key for told in reports])

    # -- reading --

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        return self._call(lambda space: records.history(space, schedule_id, limit, before))

    def run_states(self, schedule_ids: Sequence[str]) -> Mapping[str, RunState]:
        def work(space: Space) -> Mapping[str, RunState]:
            found = {schedule_id: space.state(schedule_id) for schedule_id in schedule_ids}
            return {schedule_id: state.run for schedule_id, state in found.items() if state is not None}

        return self._call(work, schedules=schedule_ids)

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        def work(space: Space) -> Sequence[Fire | None]:
            found = [space.claim(key) for key in keys]
            return [claim.fire if claim is not None else None for claim in found]

        return self._call(work, keys)

    def beats(self) -> Sequence[Beat]:
        return self._call(outbox.beats)

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened."""


def _planned(plans: Sequence[Plan]) -> list[FireKey]:
    """What a commit of these looks at: claims and history entries."""
    fires = [FireKey(plan.schedule_id, planned.due_at) for plan in plans for planned in plan.fires]
    return fires + [FireKey(plan.schedule_id, run.first) for plan in plans for run in plan.not_fired]
