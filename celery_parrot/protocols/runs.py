"""What workers and the coordinator tell each other: start, lease, finish; and what both remember for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from celery_parrot.model.fire import Fire, FireKey, Origin, Status
from celery_parrot.protocols.line import Limit, Waiting
from celery_parrot.protocols.outbox import Mark, Registration


class StartVerdict(StrEnum):
    """What a worker does with a delivery."""

    RUN = "run"
    DUPLICATE = "duplicate"  # acknowledge, do not run
    PUT_BACK = "put_back"  # another delivery holds a live lease: same id again, one lease time later
    QUIET = "quiet"  # the coordinator lost its memory: same id again, when it speaks again
    ASKS_AGAIN = "asks_again"  # acknowledge, do not run: its limits were forgotten, its next attempt asks for them
    EXPIRED = "expired"  # over its queue deadline, now recorded as such


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a fire's message to a worker. The key, name, kind and origin come from the message's header.

    :ivar token: an id of this delivery; asking again with it wins again.
    :ivar attempt: the attempt the message was sent as.
    :ivar retries: Celery's count of ``retry()`` calls.
    :ivar put_back: this is a copy that a worker put back after ``PUT_BACK``. A copy made after ``QUIET`` is not:
        its claim may be what was forgotten.
    :ivar deadline: the queue deadline as the message says, or None. The claim's own counts where there is one.
    :ivar silent_after: seconds without a sign of progress after which the fire is reaped, or None.
    :ivar limits: it was sent holding limits. ``override``: of such a fire, as :attr:`Fire.override`; where its claim is
        forgotten, it is sent again with that.
    """

    key: FireKey
    name: str
    kind: str
    token: str
    worker: str
    origin: Origin = Origin.SCHEDULE
    attempt: int = 1
    retries: int = 0
    put_back: bool = False
    deadline: datetime | None = None
    silent_after: float | None = None
    limits: bool = False
    override: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartReply:
    """:ivar attempt: the attempt that now runs (``RUN``), or that was met.
    :ivar holds: the limits that the fire holds (``RUN``), for :class:`Running`.
    """

    verdict: StartVerdict
    attempt: int = 1
    lease_until: datetime | None = None
    retry_after: float = 0.0
    holds: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of progress that the task itself gave. ``fraction``: 0 to 1, if it knows; ``note``: short, cut by us."""

    note: str = ""
    fraction: float | None = None

    @property
    def text(self) -> str:
        """Both in one, as :attr:`Fire.progress` has it: ``40% note``."""
        percent = "" if self.fraction is None else f"{self.fraction:.0%}"
        return f"{percent} {self.note}".strip()


@dataclass(frozen=True, slots=True)
class Lease:
    """The ticket of a running delivery.

    :ivar progress: in a renewal, the newest sign of progress given since the last renewal, or None.
    """

    key: FireKey
    token: str
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a delivery ended.

    :ivar status: a terminal status, or ``SENT`` for a delivery that ended in ``retry()``: the fire goes on.
    :ivar attempt: with an empty token, the attempt that the message was sent as; 0: whichever. Where a newer one is on
        its way, what became of this message changes nothing.
    :ivar retry_at: when the next attempt is to start, with status ``SENT``.
    :ivar deadline: the queue deadline of that attempt, or None.
    :ivar counted: whether a failure counts towards disabling (a revoked fire does not).
    :ivar output: formatted, already cut. ``error``: ``Type: message``, already cut.
    :ivar traceback: where it was raised, masked and cut, for the history.
    """

    lease: Lease
    status: Status
    reason: str = ""
    output: str | None = None
    error: str | None = None
    counted: bool = True
    traceback: str | None = None
    attempt: int = 0
    retry_at: datetime | None = None
    deadline: datetime | None = None


WORKER_LOST: Final = "worker lost"
"""The reason of a fire that was reaped because its lease lapsed."""

SILENT: Final = "silent"
"""The reason of a fire that was reaped because it gave no sign of progress for too long."""

QUEUE_DEADLINE: Final = "queue deadline"
"""The reason of a fire that expired because nobody had started it by its deadline."""

NEVER_STARTED: Final = "no worker reported a start"
"""The reason of a sent fire without a deadline whose outcome is ``unknown``."""


class FinishVerdict(StrEnum):
    RECORDED = "recorded"
    LATE = "late"  # the fire had an outcome, or another delivery holds it: kept as a note at most
    UNKNOWN = "unknown"  # no such claim


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishReply:
    """:ivar named: waiting fires that this release put back into the outbox."""

    verdict: FinishVerdict
    named: tuple[FireKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """A fire that the reaper ended, as it now is: its status and reason say how.

    :ivar again: it is back in the outbox as its next attempt: ``recover``, or its reservation lapsed. Its status is
        then ``pending``, and ``reason`` says why.
    """

    fire: Fire
    named: tuple[FireKey, ...] = ()
    again: bool = False


SAME_AGE: Final = 1.5
"""Seconds by which the sweeps of two living beats may lie apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a beat remembers for a coordinator that forgot: its marks (by schedule id, with the registrations they
    belong to), the outbox and the line as last swept.

    :ivar seen_at: when that was, by the coordinator's clock. The freshest memory counts: one that is older by more
        than :data:`SAME_AGE` adds nothing to outbox and line, and what an older one added before is taken back, for
        it has been sent since.
    """

    registrations: tuple[Registration, ...] = ()
    marks: tuple[Mark, ...] = ()
    outbox: tuple[Fire, ...] = ()
    line: tuple[Waiting, ...] = ()
    seen_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a worker remembers of a fire it runs, for a coordinator that forgot.

    :ivar holds: the limits it holds, as told by :class:`StartReply`.
    """

    delivery: Delivery
    started_at: datetime
    attempt: int = 1
    holds: tuple[Limit, ...] = ()
