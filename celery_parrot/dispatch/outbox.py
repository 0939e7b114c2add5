"""Committed fires on their way to the broker: send, confirm, and what is left over by the dead and the doubtful.

From the commit on the outbox owns a fire; the scan never sees it again. A fire leaves it when the broker has it
(confirm), when a worker started it, with an outcome of its own (drop), or to stand in line for a limit
(:mod:`~celery_parrot.dispatch.turns`), from where it comes back.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from celery_parrot.clock import Clock
from celery_parrot.dispatch.ledgers import Ledgers
from celery_parrot.dispatch.mirror import Mirror
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.stores import Stores
from celery_parrot.dispatch.telling import Teller
from celery_parrot.dispatch.turns import Turns
from celery_parrot.dispatch.writing import Ticket, Writer, Written, identity
from celery_parrot.errors import StoreUnreachable
from celery_parrot.model import events
from celery_parrot.model.fire import DEMANDED, Fire, FireKey, Origin, Status
from celery_parrot.planning import sending_at
from celery_parrot.protocols import (
    Coordinator,
    Drop,
    Due,
    EventSink,
    Hold,
    Sender,
    SendResult,
    SendStatus,
    SweepReply,
    Waiting,
)

# What is left of the heartbeat is what one publish may take (2 s of 3 s): what is begun in time ends before anybody may
# take the claim.
_SENDING_SHARE = 0.3
_REMEMBER_SENT = 20_000
_ORPHANED_AFTER = timedelta(days=1)
_LATE = 60.0
"""Seconds of lateness from which on a fire is said to be late."""


class Outbox:
    """This process's view of the outbox and its way of emptying it."""

    def __init__(
        self,
        coordinator: Coordinator,
        ledgers: Ledgers,
        sender: Sender,
        router: Router,
        stores: Stores,
        clock: Clock,
        now: Callable[[], datetime],
        emit: EventSink,
        owner: str,
    ) -> None:
        self._coordinator, self._ledgers, self._sender = coordinator, ledgers, sender
        self._router, self._stores = router, stores
        self._clock, self._events, self._owner = clock, emit, owner
        timing = coordinator.timing
        self._safe_age = min(timing.takeover_after / 2, timing.heartbeat * _SENDING_SHARE)
        self._mirror: Mirror[Fire] = Mirror()
        self._sent: OrderedDict[tuple[FireKey, int], datetime | None] = OrderedDict()
        self._writer = Writer(router, clock, now, self._unsendable)
        teller = Teller(router.namespace, emit)
        self._tell = teller.tell
        self._turns = Turns(coordinator, router, now, teller, self._unsendable)
        self.released = False  #: a fire that others may wait for has ended here: look at the outbox soon
        self.broker_down = ""

    # -- sending --

    def send(self, tickets: Sequence[Ticket]) -> None:
        """Ask for limits, send in order, confirm in batches. What could not be sent stays in the outbox for the next
        sweep.

        Schedules whose messages take long to write (lazy arguments are code of the user's) come last.
        Raises Unreachable or MemoryLost where the coordinator does; nothing is forgotten then.
        """
        asked = self._turns.ask(tickets)
        for key in asked.gone:
            self._mirror.left(key)
        waiting = self._writer.slow_last(asked.granted)
        unsent: list[Written] = []
        while waiting or unsent:
            written = unsent or self._writer.write(waiting)
            chunk = self._still_ours(written)
            left = self._send_chunk(chunk) if chunk else []
            if left is None:
                return
            if left and len(left) == len(chunk) and chunk is not written:
                return  # renewed just now, and no time for even one: the network is too slow, the next sweep tries
            unsent = left

    def _still_ours(self, chunk: list[Written]) -> list[Written]:
        """Renew claims that are no longer young; leave out those that others took."""
        if not chunk or self._clock.monotonic() - min(item.ticket.since for item in chunk) < self._safe_age:
            return chunk
        since = self._clock.monotonic()
        kept = self._coordinator.renew([item.ticket.hold for item in chunk])
        for item, ours in zip(chunk, kept, strict=True):
            if not ours:
                self._writer.keep(item, since)
        return [
            replace(item, ticket=replace(item.ticket, since=since))
            for item, ours in zip(chunk, kept, strict=True)
            if ours
        ]

    def _send_chunk(self, chunk: list[Written]) -> list[Written] | None:
        """Those there was no time for, or None if the broker is at fault and the rest must wait."""
        until = min(item.ticket.since for item in chunk) + self._safe_age
        results = self._sender.send([item.message for item in chunk], until)
        sent: list[Written] = []
        left: list[Written] = []
        for item, result in zip(chunk, results, strict=True):
            if result.status is SendStatus.SENT:
                sent.append(item)
            elif result.status is SendStatus.BROKEN:
                self._unsendable(item.ticket, result.error)
            elif result.status is SendStatus.NOT_TRIED:
                left.append(item)
        failed = next((result for result in results if result.status is SendStatus.FAILED), None)
        self._note_broker(failed, bool(sent))
        self._confirm(sent)
        return None if failed is not None else left

    def _unsendable(self, ticket: Ticket, error: str) -> None:
        self._tell(events.FIRE_FAILED, logging.ERROR, f"cannot be sent: {error}", ticket.fire, error=error)
        self._drop([(ticket.hold, Status.ERROR, f"cannot be sent: {error}")])

    def _note_broker(self, failed: SendResult | None, any_sent: bool) -> None:
        if failed is not None:
            if not self.broker_down or any_sent:
                text = f"broker out of reach, fires wait in the outbox: {failed.error}"
                self._events.emit(events.Event(events.SEND_FAILED, logging.WARNING, text, {"error": failed.error}))
            self.broker_down = failed.error or "unknown"
        elif any_sent and self.broker_down:
            self.broker_down = ""
            self._events.emit(events.Event(events.SEND_FAILED, logging.INFO, "broker is back"))

    def _confirm(self, sent: Sequence[Written]) -> None:
        if not sent:
            return
        for item in sent:
            self._sent[identity(item.ticket.fire)] = item.deadline
            late = self._lateness(item.ticket)
            more = {} if late is None else {"late": round(late, 3)}
            self._tell(
                events.FIRE_SENT, logging.INFO, "sent", item.ticket.fire, attempt=item.ticket.fire.attempt, **more
            )
            if late is not None and late > _LATE:
                seconds = round(late, 1)
                text = f"sent {seconds:g} s late"
                self._tell(events.FIRE_LATE, logging.WARNING, text, item.ticket.fire, late=seconds)
        while len(self._sent) > _REMEMBER_SENT:
            self._sent.popitem(last=False)
        self._coordinator.confirm([item.ticket.hold for item in sent], [item.deadline for item in sent])
        for item in sent:
            self._mirror.left(item.ticket.fire.key)

    def _lateness(self, ticket: Ticket) -> float | None:
        """Seconds after its time, jitter included, by the coordinator's clock; None where there is no such time: a
        backfill is late by design, and one that stood in line may be."""
        if ticket.fire.origin is Origin.BACKFILL or (ticket.limits and ticket.fire.tries):
            return None
        schedule, due_at = ticket.due.schedule, ticket.fire.key.due_at
        if ticket.fire.origin not in DEMANDED and schedule.policy.jitter:
            try:
                due_at = sending_at(schedule, ticket.due.trigger, due_at)
            except Exception:  # a foreign schedule object is code of the user's, and this fire is sent already
                return None
        sent_at = ticket.fire.owned_at + timedelta(seconds=self._clock.monotonic() - ticket.since)
        return (sent_at - due_at).total_seconds()

    def _drop(self, drops: Sequence[tuple[Hold, Status, str]]) -> None:
        if not drops:
            return
        self._coordinator.drop([Drop(hold=hold, status=status, reason=reason) for hold, status, reason in drops])
        self.released = self.released or bool(self.line)
        for hold, _, _ in drops:
            self._mirror.left(hold.key)

    # -- the mirror --

    @property
    def mirror(self) -> tuple[Fire, ...]:
        """What is in the outbox as far as this process knows, for a coordinator that forgot."""
        return self._mirror.items

    @property
    def line(self) -> tuple[Waiting, ...]:
        """Who waits for limits, likewise."""
        return self._turns.line

    def committed(self, fires: Iterable[Fire]) -> None:
        """Note fires that are in the outbox: this process just committed them, or has seen them there."""
        for fire in fires:
            self._mirror.add(fire.key, fire)
            self._turns.left(fire.key)

    @property
    def pages(self) -> int:
        """How many pages of :data:`~.mirror.PAGE` outbox and line may have."""
        return max(self._mirror.pages, self._turns.pages)

    def saw(self, reply: SweepReply, page: int = 0) -> None:
        """Note what a sweep found, also in a time when nothing may be taken: memory may be lost again."""
        self._mirror.saw(page, ((fire.key, fire) for fire in reply.entries))
        self._turns.saw(reply.line, page)

    # -- takeover --

    def swept(self, reply: SweepReply, now: datetime) -> None:
        """Take over what a sweep offers, and send it.

        While the broker is out of reach one fire at a time is tried, so that a long outbox is not churned.
        """
        offered = {hold.key for hold in reply.due}
        entries = [fire for fire in reply.entries if fire.key in offered]
        if not entries:
            return
        known = self._stores.definitions({fire.key.schedule_id for fire in entries})
        self._end_deleted([fire for fire in entries if fire.key.schedule_id not in known], reply.reading.now)
        mine = [fire for fire in entries if self._is_known(fire, known)]
        self._confirm_again([fire for fire in mine if fire.owner == self._owner and identity(fire) in self._sent])
        mine = [fire for fire in mine if fire.owner != self._owner or identity(fire) not in self._sent]
        if self.broker_down:
            self._keep(mine[1:], known, now)
            mine = mine[:1]
        self._take(mine, known, now)

    def _confirm_again(self, fires: Sequence[Fire]) -> None:
        """Sent by us before: the answer to the confirm was lost, or the coordinator forgot it."""
        if fires:
            deadlines = [self._sent[identity(fire)] for fire in fires]
            self._coordinator.confirm([_hold(fire) for fire in fires], deadlines)

    def _end_deleted(self, strangers: Sequence[Fire], now: datetime) -> None:
        """Those that a row refutes were never committed: they are discarded without an entry."""
        broken = self._stores.broken({fire.key.schedule_id for fire in strangers if self._stores.shares(fire.store)})
        deleted = self._proven([fire for fire in strangers if self._is_deleted(fire, broken, now)])
        for fire in deleted:
            self._tell(events.FIRE_SKIPPED, logging.WARNING, "not sent: deleted", fire, reason="deleted")
        self._drop([(_hold(fire), Status.SKIPPED, "deleted") for fire in deleted])

    def _is_deleted(self, fire: Fire, broken: Collection[str], now: datetime) -> bool:
        """A shared store that answers and does not have it has lost it; other code may know what ours does not."""
        if self._stores.shares(fire.store):
            return fire.key.schedule_id not in broken
        return now - fire.committed_at > _ORPHANED_AFTER

    def _is_known(self, fire: Fire, known: Mapping[str, Due]) -> bool:
        due = known.get(fire.key.schedule_id)
        routed = (fire.kind, due.schedule.kind) if due is not None else ()
        return due is not None and all(self._router.kind(kind) is not None for kind in routed)

    def _keep(self, fires: Sequence[Fire], known: Mapping[str, Due], now: datetime) -> None:
        """Only the broker is at fault: past their wait deadline they would count as fires that no beat can send."""
        late = [
            fire
            for fire in fires
            if self._router.limits(schedule := known[fire.key.schedule_id].schedule)
            and now > fire.committed_at + timedelta(seconds=self._router.patience(schedule))
        ]
        if late:
            self._coordinator.take([_hold(fire) for fire in late], self._owner)

    def _take(self, fires: Sequence[Fire], known: Mapping[str, Due], now: datetime) -> None:
        if not fires:
            return
        since = self._clock.monotonic()
        taken = [fire for fire in self._coordinator.take([_hold(fire) for fire in fires], self._owner) if fire]
        self._confirm_again([fire for fire in taken if identity(fire) in self._sent])
        taken = self._proven([fire for fire in taken if identity(fire) not in self._sent])
        tickets: list[Ticket] = []
        drops: list[tuple[Hold, Status, str]] = []
        owners = {fire.key: fire.owner for fire in fires}
        for fire in taken:
            due = known[fire.key.schedule_id]
            if (end := self._obsolete(fire, due, now)) is not None:
                drops.append((_hold(fire), *end))
                name = events.FIRE_MISSED if end[0] is Status.MISSED else events.FIRE_SKIPPED
                self._tell(name, logging.WARNING, f"not sent: {end[1]}", fire, reason=end[1])
            else:
                tickets.append(Ticket(fire, due, since))
                self._tell_taken(fire, owners[fire.key])
        self._drop(drops)
        self.send(tickets)

    def _obsolete(self, fire: Fire, due: Due, now: datetime) -> tuple[Status, str] | None:
        """Why the current definition does not want this fire sent any more, or None."""
        schedule = due.schedule
        if fire.origin in DEMANDED:  # a person knew what they asked for, and when
            return None
        if due.held is not None or not schedule.enabled:
            return Status.SKIPPED, "paused"
        grace = schedule.policy.misfire_grace
        if grace is None or fire.attempt > 1:  # one that is sent again was in time once
            return None
        until = sending_at(schedule, due.trigger, fire.key.due_at) + timedelta(seconds=grace)
        if self._router.limits(schedule):  # it was in time at its commit; what bounds its wait is its wait deadline
            until = max(until, fire.committed_at + timedelta(seconds=self._router.patience(schedule)))
        return (Status.MISSED, "too_late") if now > until else None

    def _tell_taken(self, fire: Fire, before: str) -> None:
        """A publish that failed, a commit whose answer was lost, or a turn that has come is no takeover: the fire was
        ours all along. One that a person asked for was nobody's."""
        if not before and fire.origin in DEMANDED:
            self._tell(events.FIRE_CLAIMED, logging.DEBUG, f"claimed, {fire.origin} asked for", fire)
        elif not before:
            self._tell(events.TRIED_AGAIN, logging.WARNING, "its limits were forgotten, it asks for them again", fire)
        elif before == self._owner:
            self._tell(events.TRIED_AGAIN, logging.INFO, f"in the outbox again, try {fire.tries}", fire)
        else:
            self._tell(events.TAKEN_OVER, logging.INFO, f"taken over from another beat, try {fire.tries}", fire)

    def _proven(self, fires: Sequence[Fire]) -> list[Fire]:
        """Those whose commit is certain. Where a store cannot be asked, its fires stay in the outbox."""
        by_store: dict[str, list[Fire]] = {}
        for fire in fires:
            by_store.setdefault(fire.store, []).append(fire)
        certain: set[FireKey] = set()
        for store, some in by_store.items():
            try:
                answers = self._ledgers.of(store).prove(some)
            except StoreUnreachable as exc:
                self._stores.failed(store, exc)
            else:
                certain.update(key for key, proven in answers.items() if proven)
                for key, proven in answers.items():
                    if not proven:
                        self._mirror.left(key)
        return [fire for fire in fires if fire.key in certain]


def _hold(fire: Fire) -> Hold:
    return Hold(fire.key, fire.owner, fire.tries)
