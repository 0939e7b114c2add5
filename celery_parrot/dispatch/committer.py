"""Scan, plan, commit: from what is due to fires that the outbox owns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from celery_parrot.clock import Clock
from celery_parrot.dispatch.ledgers import Ledgers
from celery_parrot.dispatch.stores import Stores
from celery_parrot.dispatch.telling import Teller
from celery_parrot.dispatch.writing import Ticket
from celery_parrot.errors import StoreUnreachable
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import Plan, PlannedFire, Verdict
from celery_parrot.planning import plan
from celery_parrot.protocols import CommitReply, Due, EventSink, Mark, Reading

_TRIED_AGAIN = 10.0
"""Seconds for which a schedule that the coordinator cannot read is left alone."""


@runtime_checkable
class Reporting(Protocol):
    """A coordinator that tells of stored data it cannot read."""

    def report_to(self, tell: Callable[[str, Mapping[str, str]], None]) -> None: ...


def listen(coordinator: object, emit: EventSink) -> None:
    """Make events of what a coordinator cannot read."""

    def tell(sentence: str, fields: Mapping[str, str]) -> None:
        name = events.SCHEDULE_BROKEN if "schedule" in fields else events.STORE_FAILED
        emit.emit(Event(name, logging.ERROR, sentence, fields))

    if isinstance(coordinator, Reporting):
        coordinator.report_to(tell)


@dataclass(frozen=True, slots=True)
class Committed:
    """What committing the due schedules of one store came to.

    :ivar tickets: the fires that are ours to send, in order.
    :ivar more: something may still be due: look again before sleeping.
    """

    reading: Reading
    tickets: tuple[Ticket, ...] = ()
    more: bool = False


class Committer:
    """Decides due times by committing plans. A schedule that cannot be planned never delays the others."""

    def __init__(
        self,
        ledgers: Ledgers,
        stores: Stores,
        clock: Clock,
        emit: EventSink,
        teller: Teller,
        owner: str,
        on_time: float,
    ) -> None:
        self._ledgers, self._stores, self._clock, self._events = ledgers, stores, clock, emit
        self._teller = teller
        self._owner, self._on_time = owner, on_time
        self._broken: dict[str, str] = {}
        self._aside: dict[str, float] = {}  # unreadable ones, until when

    def commit(self, now: datetime, kinds: frozenset[str], limit: int) -> Iterator[Committed]:
        """Commit what is due at ``now`` of ``kinds``, at most ``limit`` schedules of each store, store by store.

        Lazy, so that the fires of one store are noted before the next is asked. Raises Unreachable and MemoryLost
        where the coordinator does; a store that cannot be asked is left out.
        """
        found: dict[str, list[Due]] = {}
        aside = self._left_alone()
        # Those that could not be planned stay due, in front of all others.
        for due in self._stores.due(now, kinds, limit + len(aside) + len(self._broken)):
            if due.schedule.schedule_id in aside:
                continue
            found.setdefault(due.schedule.store, []).append(due)
        for store, dues in found.items():
            planned = [(due, made) for due in dues if (made := self._plan(due, now)) is not None]
            if not planned:
                continue
            try:
                yield self._commit(store, planned, len(dues) >= limit)
            except StoreUnreachable as exc:
                self._stores.failed(store, exc)

    def _commit(self, store: str, planned: Sequence[tuple[Due, Plan]], more: bool) -> Committed:
        since = self._clock.monotonic()
        reading, replies = self._ledgers.of(store).commit([made for _, made in planned], self._owner)
        tickets: list[Ticket] = []
        marks: list[Mark] = []
        for (due, made), reply in zip(planned, replies, strict=True):
            if reply.verdict is Verdict.MOVED and reply.held is not None:  # it cannot be read, the coordinator says why
                self._aside[made.schedule_id] = since + _TRIED_AGAIN
                continue
            if reply.verdict is Verdict.UNKNOWN:
                self._stores.forget_marks()
            else:
                marks.append(_mark(due, made, reply))
            ours = [self._ticket(due, made, fire, reading, since) for fire in reply.fires]
            tickets.extend(ours)
            self._tell(made, reply, ours)
            more = more or made.more or (reply.verdict is Verdict.MOVED and reply.mark != made.expected_mark)
        self._stores.learn(marks)
        return Committed(reading, tuple(tickets), more and not reading.quiet)

    def _left_alone(self) -> frozenset[str]:
        now = self._clock.monotonic()
        self._aside = {schedule_id: until for schedule_id, until in self._aside.items() if until > now}
        return frozenset(self._aside)

    def _plan(self, due: Due, now: datetime) -> Plan | None:
        schedule = due.schedule
        try:
            made = plan(schedule, due.trigger, due.mark, now, on_time=self._on_time)
        except Exception as exc:  # a foreign schedule object is code of the user's
            reason = f"{type(exc).__name__}: {exc}"
            if self._broken.get(schedule.schedule_id) != reason:
                self._broken[schedule.schedule_id] = reason
                text = f"{schedule.name}: its due times cannot be computed, all others run: {reason}"
                fields = {**_identity(schedule.schedule_id, schedule.name, schedule.kind), "reason": reason}
                self._events.emit(Event(events.SCHEDULE_BROKEN, logging.ERROR, text, fields))
            return None
        self._broken.pop(schedule.schedule_id, None)
        return made

    def _ticket(self, due: Due, made: Plan, planned: PlannedFire, reading: Reading, since: float) -> Ticket:
        fire = Fire(
            key=FireKey(made.schedule_id, planned.due_at),
            name=made.name,
            kind=made.kind,
            origin=planned.origin,
            owner=self._owner,
            owned_at=reading.now,
            committed_at=reading.now,
            recover=made.recover,
            store=made.store,
            tells=made.tells,
        )
        return Ticket(fire, Due(due.schedule, due.trigger, planned.due_at, due.held), since)

    def _tell(self, made: Plan, reply: CommitReply, ours: Sequence[Ticket]) -> None:
        fields = _identity(made.schedule_id, made.name, made.kind)
        if reply.verdict is Verdict.COMMITTED:
            for ticket in ours:
                self._teller.tell(events.FIRE_CLAIMED, logging.DEBUG, "claimed", ticket.fire)
            self._tell_not_fired(made, fields)
        elif reply.verdict is Verdict.MOVED:
            text = f"{made.name}: decided by another beat"
            self._events.emit(Event(events.CLAIM_LOST, logging.DEBUG, text, fields))

    def _tell_not_fired(self, made: Plan, fields: Mapping[str, object]) -> None:
        for gone in made.not_fired:
            text = (
                f"{made.name}: {gone.count} due time(s) {gone.status} ({gone.reason}), "
                f"{gone.first.isoformat()} to {gone.last.isoformat()}"
            )
            first = FireKey(made.schedule_id, gone.first)
            more = {
                **fields,
                "fire_id": self._teller.fire_id(first),
                "due_at": gone.first.isoformat(),
                "until": gone.last.isoformat(),
                "count": gone.count,
                "status": str(gone.status),
                "reason": gone.reason,
            }
            name = events.FIRE_SKIPPED if gone.status is Status.SKIPPED else events.FIRE_MISSED
            self._events.emit(Event(name, logging.WARNING, text, more))


def _mark(due: Due, made: Plan, reply: CommitReply) -> Mark:
    """What a commit that found the schedule says of its mark."""
    mark = made.new_mark if reply.verdict is Verdict.COMMITTED else (reply.mark or due.mark)
    held = (reply.held or "person") if reply.verdict is Verdict.HELD else None
    return Mark(schedule_id=made.schedule_id, last_due=mark, held=held)


def _identity(schedule_id: str, name: str, kind: str) -> dict[str, object]:
    return {"schedule": name, "schedule_id": schedule_id, "kind": kind}
