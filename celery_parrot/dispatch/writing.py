"""From the fires this process may send to their messages, which may run code of the user's."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from celery_parrot.clock import Clock
from celery_parrot.dispatch.routing import Router
from celery_parrot.model.fire import Fire, FireKey
from celery_parrot.protocols import Due, Hold, Limit, Message

_CHUNK = 500
_WRITE_FOR = 0.25
"""Seconds of writing messages, which evaluates lazy arguments, after which those that are written go out first."""
_SLOW = 0.05
"""Seconds of writing one message from which on its schedule has to wait until those of all others are sent."""
_KEEP_LATE, _LATE_FOR = 100, 60.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """A fire this process may send.

    :ivar since: monotonic stamp from before the call that made it ours: its age is never underestimated.
    :ivar limits: what it was granted.
    """

    fire: Fire
    due: Due
    since: float
    limits: tuple[Limit, ...] = ()

    @property
    def hold(self) -> Hold:
        return Hold(self.fire.key, self.fire.owner, self.fire.tries)


@dataclass(frozen=True, slots=True)
class Written:
    """A ticket with its message. Writing it again is avoided: it may have taken longer than a claim stays young.

    :ivar deadline: the queue deadline that the message carries.
    """

    ticket: Ticket
    message: Message
    deadline: datetime | None = None


def identity(fire: Fire) -> tuple[FireKey, int]:
    """Which message of which fire."""
    return fire.key, fire.attempt


class Writer:
    """Writes messages, a chunk at a time, the quick ones first.

    :param now: the coordinator's clock.
    :param unsendable: told of a fire whose message cannot be written, and why.
    """

    def __init__(
        self,
        router: Router,
        clock: Clock,
        now: Callable[[], datetime],
        unsendable: Callable[[Ticket, str], None],
    ) -> None:
        self._router, self._clock, self._now, self._unsendable = router, clock, now, unsendable
        self._slow: set[str] = set()
        self._late: OrderedDict[tuple[FireKey, int], tuple[float, Written]] = OrderedDict()

    def slow_last(self, tickets: Sequence[Ticket]) -> list[Ticket]:
        """The same in order, but schedules whose messages took long before come last."""
        return sorted(tickets, key=lambda ticket: ticket.fire.key.schedule_id in self._slow)

    def write(self, waiting: list[Ticket]) -> list[Written]:
        """Take the next tickets out of ``waiting``, a chunk or fewer if it takes long, and write their messages."""
        begun = self._clock.monotonic()
        written: list[Written] = []
        taken = 0
        for ticket in waiting[:_CHUNK]:
            if written and ticket.fire.key.schedule_id in self._slow:
                break
            taken += 1
            if (made := self._write_one(ticket)) is not None:
                written.append(made)
            if self._clock.monotonic() - begun > _WRITE_FOR:
                break
        del waiting[:taken]
        return written

    def _write_one(self, ticket: Ticket) -> Written | None:
        begun = self._clock.monotonic()
        at, late = self._late.pop(identity(ticket.fire), (0.0, None))
        if late is not None and begun - at < _LATE_FOR and late.ticket.due.schedule == ticket.due.schedule:
            return replace(late, ticket=ticket)
        made = self._make(ticket)
        slow = self._clock.monotonic() - begun > _SLOW
        (self._slow.add if slow else self._slow.discard)(ticket.fire.key.schedule_id)
        return made

    def keep(self, item: Written, now: float) -> None:
        """Keep the message: a beat that took the fire may take just as long over it, and then it comes back here."""
        if item.ticket.fire.key.schedule_id in self._slow:
            self._late[identity(item.ticket.fire)] = (now, item)
        while len(self._late) > _KEEP_LATE:
            self._late.popitem(last=False)

    def _make(self, ticket: Ticket) -> Written | None:
        fire, schedule = ticket.fire, ticket.due.schedule
        try:
            deadline = self._router.deadline(schedule, self._now(), holds=bool(ticket.limits))
            message = self._router.message(
                schedule,
                fire.key,
                origin=fire.origin,
                attempt=fire.attempt,
                deadline=deadline,
                override=fire.override,
                limits=bool(ticket.limits),
            )
            return Written(ticket, message, deadline)
        except Exception as exc:  # a lazy argument is code of the user's
            self._unsendable(ticket, f"{type(exc).__name__}: {exc}")
            return None
