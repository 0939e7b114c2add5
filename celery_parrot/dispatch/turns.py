"""Limits, between commit and send: who may go on, who stands in line, who ends here.

A fire that waits is nobody's to send: it has left the outbox. The step that frees what it lacks puts it back there,
where a sweep finds it and asks again, to be told that it was granted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from celery_parrot.dispatch.limits import in_words, is_kind, keeps_limits
from celery_parrot.dispatch.mirror import Mirror
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.telling import Teller
from celery_parrot.dispatch.writing import Ticket
from celery_parrot.model import events
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import IN_FLIGHT, OVERLAP, Coordinator, Grant, LimitReply, LimitRequest, Waiting

_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """:ivar granted: the tickets to send, in order.
    :ivar gone: fires that have left the outbox: they wait, or have ended.
    """

    granted: list[Ticket]
    gone: list[FireKey]


class Turns:
    """Asks for the limits of fires that need any, and remembers the line for a coordinator that forgot.

    :param now: the coordinator's clock.
    :param unsendable: told of a fire whose limits nobody would keep, and why.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        router: Router,
        now: Callable[[], datetime],
        teller: Teller,
        unsendable: Callable[[Ticket, str], None],
    ) -> None:
        self._limits = coordinator if keeps_limits(coordinator) else None
        self._keeper = type(coordinator).__name__
        self._router, self._now, self._tell, self._unsendable = router, now, teller.tell, unsendable
        self._line: Mirror[Waiting] = Mirror()

    @property
    def line(self) -> tuple[Waiting, ...]:
        """Who waits, as far as this process knows."""
        return self._line.items

    @property
    def pages(self) -> int:
        """As :attr:`~.mirror.Mirror.pages`."""
        return self._line.pages

    def saw(self, line: Sequence[Waiting], page: int) -> None:
        """Note a page of the line as a sweep found it."""
        self._line.saw(page, ((waiting.fire.key, waiting) for waiting in line))

    def left(self, key: FireKey) -> None:
        """This one waits no more."""
        self._line.left(key)

    def ask(self, tickets: Sequence[Ticket]) -> Asked:
        """Which of these may be sent. No fire needs a limit: nobody is asked. Else one round trip, in order of due
        times, for whoever is asked for first gets what is left.

        Raises Unreachable or MemoryLost where the coordinator does; nothing is forgotten then.
        """
        tickets = [self._limited(ticket) for ticket in tickets]
        if not any(ticket.limits for ticket in tickets):
            return Asked(tickets, [])
        tickets.sort(key=lambda ticket: ticket.fire.key.due_at)
        needing = [ticket for ticket in tickets if ticket.limits]
        if self._limits is None:
            for ticket in needing:
                self._unsendable(ticket, f"it needs limits, and {self._keeper} keeps none")
            return Asked([ticket for ticket in tickets if not ticket.limits], [])
        replies: dict[FireKey, LimitReply] = {}
        for first in range(0, len(needing), _BATCH):
            batch = needing[first : first + _BATCH]
            answers = self._limits.request([self._request(ticket) for ticket in batch])
            replies.update((ticket.fire.key, reply) for ticket, reply in zip(batch, answers, strict=True))
        return self._sorted_out(tickets, replies)

    def _limited(self, ticket: Ticket) -> Ticket:
        limits = self._router.limits(ticket.due.schedule)
        return ticket if limits == ticket.limits else replace(ticket, limits=limits)

    def _request(self, ticket: Ticket) -> LimitRequest:
        return LimitRequest(hold=ticket.hold, limits=ticket.limits, wait=self._router.patience(ticket.due.schedule))

    def _sorted_out(self, tickets: Sequence[Ticket], replies: dict[FireKey, LimitReply]) -> Asked:
        asked = Asked([], [])
        for ticket in tickets:
            reply = replies.get(ticket.fire.key)
            if reply is None or reply.grant is Grant.GRANTED:
                self.left(ticket.fire.key)
                asked.granted.append(ticket)
            elif reply.grant is Grant.WAITING:
                self._waits(ticket, reply)
                asked.gone.append(ticket.fire.key)
            elif reply.grant is Grant.SKIPPED:
                self._skipped(ticket, reply)
                asked.gone.append(ticket.fire.key)
        return asked

    def _waits(self, ticket: Ticket, reply: LimitReply) -> None:
        fire, now = ticket.fire, self._now()
        waiting = Waiting(
            replace(fire, status=Status.WAITING),
            ticket.limits,
            since=now,
            until=(now if fire.recovered else fire.committed_at)
            + timedelta(seconds=self._router.patience(ticket.due.schedule)),
        )
        self._line.add(fire.key, waiting)
        text = f"waits for {in_words(reply.limit)}{_held(reply)}"
        self._tell(events.FIRE_WAITING, logging.INFO, text, fire, **_fields(reply))

    def _skipped(self, ticket: Ticket, reply: LimitReply) -> None:
        reason = IN_FLIGHT if is_kind(reply.limit) else OVERLAP
        text = f"skipped ({reason}): no room in {in_words(reply.limit)}{_held(reply)}"
        self._tell(events.FIRE_SKIPPED, logging.INFO, text, ticket.fire, reason=reason, **_fields(reply))


def _held(reply: LimitReply) -> str:
    if not reply.held_by:
        return ""
    return f", held by fire {reply.held_by}" + (f" of kind {reply.held_by_kind}" if reply.held_by_kind else "")


def _fields(reply: LimitReply) -> dict[str, object]:
    return {"limit": reply.limit, "held_by": reply.held_by, "held_by_kind": reply.held_by_kind}
