"""A fire: one due time of one schedule being acted on, and its identity."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any


class Origin(StrEnum):
    """Why a fire exists. An attribute, never part of its identity."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    RUN_NOW = "run_now"
    BACKFILL = "backfill"


DEMANDED = frozenset({Origin.RUN_NOW, Origin.BACKFILL})
"""Origins of fires that a person asked for: no plan commits them, no row knows of them before it is told."""


class Status(StrEnum):
    """Where a fire is in its life. The first four are on the way, the rest are outcomes."""

    PENDING = "pending"  # committed, in the outbox
    WAITING = "waiting"  # in line for a limit
    SENT = "sent"  # handed to the broker
    RUNNING = "running"  # a worker holds its lease
    SUCCESS = "success"
    ERROR = "error"
    TARGET_MISSING = "target_missing"
    ABANDONED = "abandoned"
    EXPIRED = "expired"
    MISSED = "missed"
    SKIPPED = "skipped"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """True once the fire has an outcome, which nothing changes any more."""
        return self not in _ON_THE_WAY

    @property
    def failure(self) -> bool:
        """True for the outcomes that count towards disabling the schedule."""
        return self in _FAILURES


_ON_THE_WAY = frozenset({Status.PENDING, Status.WAITING, Status.SENT, Status.RUNNING})
_FAILURES = frozenset({Status.ERROR, Status.TARGET_MISSING, Status.ABANDONED})


@dataclass(frozen=True, slots=True, order=True)
class FireKey:
    """The identity of a fire. Two beats that mean the same due time have equal keys.

    :ivar schedule_id: the schedule's id; of a code schedule, its name.
    :ivar due_at: the instant the trigger named, UTC.
    :ivar nonce: empty, but for run-now and forced backfill.
    """

    schedule_id: str
    due_at: datetime
    nonce: str = ""

    def __post_init__(self) -> None:
        if self.due_at.utcoffset() is None:
            raise ValueError(f"due_at must be aware, got {self.due_at!r}")
        if self.due_at.tzinfo is not UTC:
            object.__setattr__(self, "due_at", self.due_at.astimezone(UTC))

    @property
    def moment(self) -> str:
        """``due_at`` as UTC ISO text, with ``:nonce`` appended if there is one. Sorts by time."""
        due = self.due_at.isoformat()
        return f"{due}:{self.nonce}" if self.nonce else due

    @property
    def text(self) -> str:
        """``{schedule_id}:{moment}``, the tail of the claim key."""
        return f"{self.schedule_id}:{self.moment}"


@dataclass(frozen=True, slots=True)
class Namespace:
    """Names everything of one registered scheduler (``parrot_name``). Two names never meet.

    :ivar name: the registered name.
    :ivar hash_tag: wrap the name in braces, so that Redis Cluster keeps all keys in one slot.
    """

    name: str
    hash_tag: bool = False

    @property
    def prefix(self) -> str:
        """``parrot:scheduler:{name}:``, with the trailing colon."""
        name = f"{{{self.name}}}" if self.hash_tag else self.name
        return f"parrot:scheduler:{name}:"

    def key(self, suffix: str) -> str:
        return self.prefix + suffix

    def claim_key(self, key: FireKey) -> str:
        return self.prefix + "fire:" + key.text

    def fire_id(self, key: FireKey) -> str:
        """The text that is fire id, header, ``held_by`` and task id of the first attempt."""
        return _uuid_of(self.claim_key(key))

    def task_id(self, key: FireKey, attempt: int) -> str:
        """The Celery task id of an attempt (1, 2, …). Later ones differ: workers drop an id they saw end."""
        fire_id = self.fire_id(key)
        return fire_id if attempt == 1 else f"{fire_id}:{attempt}"


@lru_cache(maxsize=4096)
def _uuid_of(claim_key: str) -> str:
    """Asked for several times while a fire is on its way: by its message, its header and each of its events."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, claim_key))


@dataclass(frozen=True, slots=True)
class Proof:
    """What proves or refutes a commit that a row in a database decides.

    :ivar token: written with the history rows of the commit; found there, the commit happened.
    :ivar plan: the plan as JSON text, to repeat the compare-and-set with.
    """

    token: str
    plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """What a coordinator knows of a committed fire: its claim.

    Stamps are the coordinator's clock, UTC.

    :ivar owner: id of the beat process that may send it (an id per process start).
    :ivar owned_at: when that owner took or renewed it.
    :ivar committed_at: when it was committed.
    :ivar tries: how often sending it was begun by a takeover or a repeat, 0 for the first owner.
    :ivar attempt: 1 for the first; retries, redeliveries after a death and recoveries add one.
    :ivar sent_as: the ``attempt`` that its newest message carries in its header (a redelivery keeps it).
    :ivar retries: the highest Celery ``retries`` seen at Start of that message.
    :ivar token: the delivery that runs it, empty unless running.
    :ivar lease_until: until when that delivery is known to live.
    :ivar deadline: of a sent fire, until when it must have been started.
    :ivar progress_at: of a running fire, its start or the last sign of progress. ``progress``: what that said.
    :ivar silent_after: of a running fire, seconds without progress after which it is reaped.
    :ivar recover: an abandoned fire is sent once more. ``recovered``: it has been.
    :ivar store: where its schedule lives.
    :ivar tells: which outcomes somebody wants to be told of, as its schedule said when it was committed. One that was
        made without a commit (a message alone, a loss of memory) tells all: the definition is looked at before sending.
    :ivar proof: of a fire whose commit is decided by a row elsewhere: the token and plan to prove it with. While it
        is there, the fire is not sent before that row has been asked.
    :ivar guard: seconds for which it keeps its schedule's run-now guard without a sign of life; None: it has none.
    :ivar override: JSON text of the arguments (``args``, ``kwargs``) that it was asked for with in place of its
        schedule's, or empty. Not for logs.
    """

    key: FireKey
    name: str
    kind: str
    origin: Origin = Origin.SCHEDULE
    status: Status = Status.PENDING
    owner: str = ""
    owned_at: datetime
    committed_at: datetime
    tries: int = 0
    attempt: int = 1
    sent_as: int = 1
    retries: int = 0
    token: str = ""
    lease_until: datetime | None = None
    worker: str = ""
    sent_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str = ""
    deadline: datetime | None = None
    progress_at: datetime | None = None
    progress: str = ""
    silent_after: float | None = None
    recover: bool = False
    recovered: bool = False
    store: str = "code"
    tells: tuple[str, ...] = ()
    guard: float | None = None
    override: str = field(default="", repr=False)
    proof: Proof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FireRecord:
    """One history entry: a fire with what came of it, or a range of due times that were not fired.

    :ivar until: last due time of a range; None for a single fire.
    :ivar count: how many due times the entry stands for.
    :ivar output: the formatted result, cut.
    :ivar error: ``Type: message``, cut. ``traceback``: its last lines, cut.
    :ivar delivery: what became of telling somebody, by what it was about (``success``, ``failure``, ``missed``,
        ``alert``), in plain JSON types: ``status``, ``at`` (ISO text, the coordinator's clock), ``tries`` and
        ``callbacks``.
    :ivar waited_for: the limit it last stood in line for, e.g. ``group:gpu``; ``waited_from``, ``waited_until``: from
        when until when. ``held_by``: the fire that had it when it joined the line.
    :ivar late_result: what a result that came after the outcome said; it changes nothing.
    """

    fire_id: str
    key: FireKey
    name: str
    kind: str
    origin: Origin
    status: Status
    reason: str = ""
    attempt: int = 1
    beat: str = ""
    worker: str = ""
    committed_at: datetime | None = None
    sent_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    output: str | None = None
    error: str | None = None
    late_result: str | None = None
    waited_for: str = ""
    waited_from: datetime | None = None
    waited_until: datetime | None = None
    held_by: str = ""
    until: datetime | None = None
    count: int = 1
    traceback: str | None = None
    delivery: Mapping[str, Any] = field(default_factory=dict)

    @property
    def due_at(self) -> datetime:
        return self.key.due_at
