"""Limits: an opt-in capability of a coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from celery_parrot.model.fire import FireKey
from celery_parrot.protocols.line import Limit, LimitState
from celery_parrot.protocols.outbox import Hold
from celery_parrot.protocols.runs import Reaped

IN_FLIGHT: Final = "in flight"
"""The reason of a success that did nothing because its kind was busy."""

OVERLAP: Final = "overlap"
"""The reason of a fire skipped because its schedule was busy."""

EXPIRED_WAITING: Final = "expired waiting for"
"""How the reason of a fire begins that stood in line too long; the limit it lacked follows, e.g. ``group gpu``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    """:ivar wait: seconds from its commit for which the fire may stand in line, of a recovered fire from this request;
    None: for ever."""

    hold: Hold
    limits: tuple[Limit, ...]
    wait: float | None = None


class Grant(StrEnum):
    GRANTED = "granted"
    WAITING = "waiting"
    SKIPPED = "skipped"  # ended: success with the in-flight-skip output, or skipped(overlap)
    LOST = "lost"  # not pending under this hold any more, or nothing is granted while quiet: the outbox has it


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReply:
    """:ivar limit: the limit that had no room, with ``WAITING`` and ``SKIPPED``.
    :ivar held_by: id of a fire that holds it (or stands before this one in its line); ``held_by_kind``: its kind.
    """

    grant: Grant
    held_by: str = ""
    held_by_kind: str = ""
    limit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A message of a fire that holds limits, received by a worker that has not started it yet.

    :ivar attempt: the attempt that the message was sent as. ``retries``: its count of ``retry()`` calls. Both as in
        :class:`~.runs.Delivery`, and compared with the claim's ``sent_as`` and ``retries`` as in Start: what has gone
        on as a retry meanwhile must not be noted for the message before it.
    :ivar worker: an id of that worker process; it renews the reservation while it lives.
    """

    key: FireKey
    attempt: int
    worker: str
    retries: int = 0


@runtime_checkable
class Limits(Protocol):
    """Opt-in capability: a coordinator that keeps limits (DESIGN: one mechanism for every "not at the same time").

    A hold has no expiry: from its grant to a terminal outcome (finish, reap, drop, expiry at Start, :meth:`free`) the
    fire holds all it was granted, through retries and next attempts. Each such outcome releases, and in the same step
    puts the waiting fires that now fit back into the outbox, as their own owner's, takeable at once, and wakes the
    beats where there is a channel. :meth:`Coordinator.reap` also ends fires that stood in line beyond their wait
    deadline (``error``, reason ``expired waiting for group gpu``; counted as a failure), and those that were granted
    and that no beat has sent (``missed``), names what a quiet time held
    up, and sends reserved fires again whose worker is gone.
    """

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        """Ask for all limits of each fire, in order. Idempotent by fire.

        First the limits that skip (``SKIP``, ``OVERLAP``): no room means the fire ends at once, ``SKIPPED``; what
        ``max_fires`` had reserved is given back. Then those whose ``buffer`` is full, likewise ``SKIPPED``. Then all
        others together or none: no capacity, and the fire joins the one line (ordered by due time, then arrival), its
        claim ``waiting`` and out of the outbox, still holding what it got in the first step. A newcomer never passes
        the line; who lacks another limit reserves no slot. An in-flight skip sets ``last_status`` and ``last_result``
        and no failure count; an overlap skip leaves the run state alone. A fire granted before (by name, or in an
        attempt before) is ``GRANTED`` whatever it asks for now."""
        ...

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        """A worker has these messages in hand: note it for one lease time, or renew what is noted.

        True while noted. False, and nothing is noted, where the fire holds no limits, has started or ended, or the
        message is not of its newest attempt. Start ends a reservation. One that lapses (nothing before ``judge_from``)
        sends the fire again as its next attempt, back in the outbox and takeable at once, limits kept: see
        :meth:`Coordinator.reap`. What another worker has reserved passes to the newest who asks."""
        ...

    def limits(self) -> Sequence[LimitState]:
        """Every limit that somebody holds or waits for, by name."""
        ...

    def free(self, keys: Sequence[FireKey], reason: str) -> Sequence[Reaped | None]:
        """A person ends fires that block others: ``abandoned`` with this reason, from any state on the way, not
        counted as a failure, not recovered. None where the fire had ended or is not known. A worker that still runs
        it finds its lease gone."""
        ...
