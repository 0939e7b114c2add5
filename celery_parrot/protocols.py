"""The seams between rooms. Each method's docstring is its contract.

One method is one atomic operation of the backend and takes a batch. "Someone else won" is a value;
"I could not ask" is :exc:`~celery_parrot.errors.Unreachable` (the call may or may not have been carried out,
so every method here may be repeated safely with the same arguments); a coordinator that forgot what this
process knew raises :exc:`~celery_parrot.errors.MemoryLost` and has done nothing.

Every coordinator call also

* returns or carries a :class:`Reading`, taken by the coordinator's own clock;
* touches one common key. A call that finds it untouched for :attr:`Timing.untouched` seconds sets ``judge_from`` to
  now + one lease time. Before ``judge_from`` no call, Start included, treats a lease, a heartbeat, an age or a
  deadline as lapsed;
* compares the epoch the process knows with the stored one, and the server's identity with the one the epoch was
  made on. A process that knows none yet (it has not attached) adopts the stored one, as :meth:`Coordinator.attach`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Protocol

from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import Plan, PlannedFire, Verdict
from celery_parrot.model.schedule import Schedule
from celery_parrot.model.state import Beat, RunState
from celery_parrot.triggers.base import Trigger

# --- time and memory of the coordinator ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The durations that the coordinator's decisions depend on, in seconds; the same for every process.

    :ivar claim_ttl: life of a claim after its last change (``parrot_fire_lock_ttl``).
    :ivar takeover_after: age at which a claim of a living beat passes to whoever sweeps.
    :ivar heartbeat: silence after which a beat is gone.
    :ivar lease: life of a run lease between renewals.
    :ivar untouched: silence of everybody after which nobody is judged for one lease time.
    :ivar retry_cap: longest pause between two tries to send one fire; the first is 1 s, each next twice as long.
    """

    claim_ttl: float = 86400.0
    takeover_after: float = 10.0
    heartbeat: float = 3.0
    lease: float = 15.0
    untouched: float = 3.0
    retry_cap: float = 5.0
    history_limit: int = 1000
    history_days: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The coordinator at the moment of a call.

    :ivar now: its clock, UTC, at least millisecond precision.
    :ivar epoch: the identity of its memory.
    :ivar judge_from: before this instant nothing is treated as lapsed.
    :ivar quiet_until: until then, after a loss of memory, nothing is committed, granted or started.
    """

    now: datetime
    epoch: str
    judge_from: datetime
    quiet_until: datetime

    @property
    def judging(self) -> bool:
        return self.now >= self.judge_from

    @property
    def quiet(self) -> bool:
        return self.now < self.quiet_until


# --- marks ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A schedule of this process that shares its mark through the coordinator.

    :ivar when: fingerprint of everything that decides due times. A registration with another fingerprint than the
        stored one is an edit of *when*: the mark becomes ``initial`` (the coordinator's now if None), but never
        moves back, unless nothing was decided since it was registered.
    :ivar initial: the mark if there is none yet; None: the coordinator's now. Given for one-shots (just before
        their instant) and by processes that knew the mark before.
    """

    schedule_id: str
    when: str
    initial: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The shared mark of a schedule. ``held`` is why it must not fire now (``person``, ``failures``) or None."""

    schedule_id: str
    last_due: datetime
    held: str | None = None


# --- commit, outbox ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """What became of one plan.

    :ivar fires: the planned fires whose claim is now ours, in order (a due time someone else's claim already
        covers is left out, and the mark moves all the same; so are those over ``max_fires``).
    :ivar mark: the mark as it is now.
    :ivar held: with ``HELD``, why (``person``, ``failures``).
    """

    schedule_id: str
    verdict: Verdict
    mark: datetime | None = None
    held: str | None = None
    fires: tuple[PlannedFire, ...] = ()
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim as its owner knows it: the ticket for renew, confirm, drop. Compared with owner and ``tries``."""

    key: FireKey
    owner: str
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """End a fire of the outbox without sending it."""

    hold: Hold
    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReply:
    """The outbox as it is, and which entries may be taken over.

    :ivar entries: the whole outbox up to the page limit, oldest first: the mirror that survives a memory loss.
    :ivar due: those entries (of any owner, the caller included) that a sweeper may take now: the owner's heartbeat
        is gone, or the claim is older than ``takeover_after``, or it is the caller's own and its retry pause is over,
        or its owner left. None while quiet. Its own a beat may take before ``judge_from``: that judges nobody.
    :ivar beats: every beat that is known, living or not yet forgotten.
    :ivar line: the fires that wait for limits, in order, with what they wait for: mirrored like ``entries``. Empty
        where the coordinator keeps no limits.
    """

    reading: Reading
    entries: tuple[Fire, ...] = ()
    due: tuple[Hold, ...] = ()
    beats: tuple[Beat, ...] = ()
    line: tuple[Waiting, ...] = ()


# --- start, lease, finish ----------------------------------------------------------------------------------


class StartVerdict(StrEnum):
    """What a worker does with a delivery."""

    RUN = "run"
    DUPLICATE = "duplicate"  # acknowledge, do not run
    PUT_BACK = "put_back"  # another delivery holds a live lease: same id again, one lease time later
    QUIET = "quiet"  # the coordinator lost its memory: same id again, when it speaks again
    EXPIRED = "expired"  # over its queue deadline, now recorded as such


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a fire's message to a worker. The key, name, kind and origin come from the message's header.

    :ivar token: an id of this delivery; asking again with it wins again.
    :ivar attempt: the attempt the message was sent as.
    :ivar retries: Celery's count of ``retry()`` calls.
    :ivar put_back: this is a copy that a worker put back after ``PUT_BACK``. A copy made after ``QUIET`` is not:
        its claim may be what was forgotten.
    :ivar deadline: the queue deadline, or None.
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
class Lease:
    """The ticket of a running delivery."""

    key: FireKey
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a delivery ended.

    :ivar status: a terminal status, or ``SENT`` for a delivery that ended in ``retry()``: the fire goes on.
    :ivar retry_at: when the next attempt is to start, with status ``SENT``.
    :ivar counted: whether a failure counts towards disabling (a revoked fire does not).
    :ivar output: formatted, already cut. ``error``: ``Type: message``, already cut.
    """

    lease: Lease
    status: Status
    reason: str = ""
    output: str | None = None
    error: str | None = None
    counted: bool = True
    retry_at: datetime | None = None


WORKER_LOST: Final = "worker lost"
"""The reason of a fire that was reaped because its lease lapsed."""


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
    """A running fire whose lease lapsed, now ``abandoned``."""

    fire: Fire
    named: tuple[FireKey, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a beat remembers for a coordinator that forgot: its marks (by schedule id, with the registrations they
    belong to), the outbox and the line as last swept."""

    registrations: tuple[Registration, ...] = ()
    marks: tuple[Mark, ...] = ()
    outbox: tuple[Fire, ...] = ()
    line: tuple[Waiting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What a worker remembers of a fire it runs, for a coordinator that forgot.

    :ivar holds: the limits it holds, as told by :class:`StartReply`.
    """

    delivery: Delivery
    started_at: datetime
    attempt: int = 1
    holds: tuple[Limit, ...] = ()


class Coordinator(Protocol):
    """Where beats and workers agree. See the module's text for what every call does besides."""

    timing: Timing

    # -- memory --

    def attach(self) -> Reading:
        """Adopt the stored epoch, or create one if the coordinator is empty, and know it from now on.

        A server that changed but kept its data may lack the last writes: a new epoch is made, quiet for one lease
        time, as by :meth:`remember` with nothing to remember."""
        ...

    def remember(self, memory: Memory) -> Reading:
        """After :exc:`MemoryLost`, from a beat: put back what it knows, and adopt or create an epoch.

        Creates a new epoch with ``quiet_until`` = now + one lease time if there is none or the server changed.
        Otherwise joins the epoch that another process made (and extends quiet only if nobody remembered into it yet).
        A mark is set to the later of stored and remembered, but a mark that nothing was decided from since it was
        registered gives way to the remembered one. A mark that belongs to another ``when`` than the stored one is
        ignored. A remembered outbox entry is added unless its claim exists.
        """
        ...

    def remember_running(self, running: Sequence[Running]) -> Reading:
        """After :exc:`MemoryLost`, from a worker: as :meth:`remember`, for fires that run there, with their tokens.

        A claim that exists and is terminal or belongs to another token is left alone."""
        ...

    # -- beats --

    def register(self, registrations: Sequence[Registration]) -> Sequence[Mark]:
        """The shared mark of each, created or moved as :class:`Registration` says; first come wins. In order."""
        ...

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        """Claim the planned fires, put them in the outbox, record the rest as not fired, move the mark.

        Per plan all or nothing, and only if the mark equals ``expected_mark``; nothing at all while quiet (every
        plan is then ``MOVED`` with its mark unchanged, and ``reading.quiet`` says why). Counts as a heartbeat of
        ``owner``. After a lost reply the repeat answers ``MOVED``; the fires are then the owner's own in the next
        sweep.
        """
        ...

    def renew(self, holds: Sequence[Hold]) -> Sequence[bool]:
        """Make each claim young again; false where the owner or ``tries`` differ or it is no longer pending."""
        ...

    def confirm(self, holds: Sequence[Hold]) -> Sequence[bool]:
        """The fire reached the broker: ``sent``, out of the outbox, ``last_run`` and ``run_count``, history.

        False where the claim is not pending under this hold any more (a worker's Start or a takeover was first)."""
        ...

    def drop(self, drops: Sequence[Drop]) -> Sequence[bool]:
        """End pending fires without sending: outcome, out of the outbox, history; false as :meth:`renew`.
        Returns what ``max_fires`` had reserved for it. A failure counts as one in :meth:`finish`."""
        ...

    def sweep(self, beat: Beat, *, offset: int = 0, limit: int = 1000) -> SweepReply:
        """A heartbeat of ``beat``, and a look at the outbox from ``offset`` on. Forgets beats silent for an hour."""
        ...

    def take(self, holds: Sequence[Hold], owner: str) -> Sequence[Fire | None]:
        """Pass claims to ``owner`` with ``tries`` + 1, each only if still exactly as in its hold and, judged again
        now, still takeable; None where not."""
        ...

    def reap(self, *, limit: int = 500) -> Sequence[Reaped]:
        """End as ``abandoned`` (reason ``worker lost``) the running fires whose lease lapsed and was not put back
        within the last two lease times. Nothing before ``judge_from``. Counts as a failure, see :meth:`finish`."""
        ...

    def leave(self, owner: str) -> None:
        """Forget a beat that stops in good order; its pending claims become takeable at once."""
        ...

    # -- workers --

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        """Open each fire for its delivery. In this order:

        1. quiet: ``QUIET``.
        2. unknown claim: a put-back copy is a ``DUPLICATE``; any other creates the claim, then 7 and 8.
        3. ended: ``DUPLICATE`` (``unknown`` is no end: it runs after all).
        4. ``(attempt, retries)`` of the message lower than the claim's ``(sent_as, retries)``: ``DUPLICATE``.
           Higher: the next attempt, runs at once, whatever the lease of the one before.
        5. running under this token: ``RUN`` again, nothing changes.
        6. running under another token: lease live (or not yet to be judged): a put-back copy whose predecessor
           renewed since (the lease is truly live) is a ``DUPLICATE``, everything else is ``PUT_BACK`` and noted on
           the claim. Lease lapsed: the next attempt, runs.
        7. over its deadline: ``EXPIRED``, recorded.
        8. pending, waiting or sent: runs. Pending counts as confirmed.
        """
        ...

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        """One more lease time for each; false where the token is not the running one any more."""
        ...

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        """Record each outcome, only from ``running`` and with the right token: claim, run state, history, release.

        An empty token ends a fire that no worker is running (revoked in the queue, task unknown): from ``pending``,
        ``waiting`` or ``sent`` only.
        With status ``SENT`` (the task retries) the fire goes back to ``sent`` without a lease and expects a message
        with one more retry (an older one is then a duplicate); if its next attempt has begun already, nothing
        changes and the answer is ``RECORDED``. Repeating an outcome whose reply was lost answers ``RECORDED``. A late
        one becomes ``late_result`` of the history entry and changes nothing else.

        Success clears ``last_error`` and the failure count. ``error``, ``target_missing`` and ``abandoned`` set
        ``last_status`` and ``last_error``, and count unless ``counted`` is false. Other outcomes leave the run state.
        """
        ...

    # -- reading --

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """History of one schedule, newest due time first, in-flight fires included, strictly before ``before``."""
        ...

    def run_states(self, schedule_ids: Sequence[str]) -> Mapping[str, RunState]:
        """Run state of each schedule that has one."""
        ...

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        """The claims of these fires, as they are."""
        ...

    def beats(self) -> Sequence[Beat]:
        """Beats seen within the last hour; living ones were seen within :attr:`Timing.heartbeat`."""
        ...

    def close(self) -> None: ...


# --- limits: a capability of a coordinator --------------------------------------------------------------------

IN_FLIGHT_SKIP_OUTPUT_KEY: Final = "in_flight_skip"
"""Key in the output of a fire skipped because a limit was busy: ``{"in_flight_skip": true, "held_by": fire id}``."""

SLOTS: Final = "slots"
"""Name of the limit that bounds everything of one scheduler; judged last."""


class Busy(StrEnum):
    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Limit:
    """A named capacity that a fire must hold while in flight, e.g. ``kind:agent``, ``group:gpu``, ``slots``."""

    name: str
    capacity: int = 1
    busy: Busy = Busy.WAIT


@dataclass(frozen=True, slots=True)
class Waiting:
    """A fire in line, with everything it asked for."""

    fire: Fire
    limits: tuple[Limit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    hold: Hold
    limits: tuple[Limit, ...]


class Grant(StrEnum):
    GRANTED = "granted"
    WAITING = "waiting"
    SKIPPED = "skipped"  # recorded as success with the in-flight-skip output
    LOST = "lost"  # not pending under this hold any more, or nothing is granted while quiet: the outbox has it


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReply:
    grant: Grant
    held_by: str = ""
    limit: str = ""


class Limits(Protocol):
    """Opt-in capability: a coordinator that keeps limits (DESIGN: one mechanism for every "not at the same time")."""

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        """Ask for all limits of each fire, in order. Idempotent by fire.

        First the limits that skip: busy means ``SKIPPED``. Then all others together or none: no capacity, and the
        fire joins the one line (ordered by due time, then arrival), its claim ``waiting`` and out of the outbox,
        still holding what it got in the first step. A newcomer never passes the line. Every terminal outcome
        (finish, reap, drop, expiry at Start) releases, and in the same step puts the waiting fires that now fit back
        into the outbox: as their own owner's, takeable at once. A skipped fire sets ``last_status`` and
        ``last_result`` and no failure count."""
        ...


# --- stores ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule as a store hands it to the planner.

    :ivar mark: the latest decided due time as the store knows it; the commit compares.
    :ivar held: why it must not fire now (``person``, ``failures``), as last told; the commit judges again.
    """

    schedule: Schedule
    trigger: Trigger
    mark: datetime
    held: str | None = None


class ScheduleStore(Protocol):
    """Where definitions live. What happened to them is the coordinator's."""

    name: str

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """Enabled schedules of exactly these kinds with an undecided due time whose sending instant (jitter
        included) is at or before ``before``, earliest first. Costs by what is due. No kinds: nothing."""
        ...

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """As :meth:`due`, for schedules of any kind *but* these. Asked once a minute."""
        ...

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """The earliest coming sending instant of these kinds, or None."""
        ...

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        """The current definition of each that exists here, paused ones included."""
        ...

    def registrations(self) -> Sequence[Registration]:
        """Schedules whose mark this store does not know (yet, or any more)."""
        ...

    def learn(self, marks: Iterable[Mark]) -> None:
        """Take over marks that the coordinator told. A mark for an unknown schedule is ignored."""
        ...

    def forget_marks(self) -> None:
        """Ask for every mark again: :meth:`registrations` then returns all, with the marks known so far as
        ``initial``. Until told again, nothing of this store is due."""
        ...

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        """Registrations and marks as known, for a coordinator that forgot."""
        ...


# --- sending ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One task message to send. Arguments are evaluated; nothing here is logged.

    :ivar options: ``apply_async`` options less headers and task id.
    :ivar headers: what goes into the message's headers besides Celery's own.
    """

    task: str
    task_id: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)


class SendStatus(StrEnum):
    SENT = "sent"
    FAILED = "failed"  # refused or doubtful: may or may not have reached the broker; the broker is at fault
    BROKEN = "broken"  # this message can never be sent (e.g. not serialisable); others can
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class SendResult:
    status: SendStatus
    error: str = ""


class Sender(Protocol):
    """Hands messages to the broker."""

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        """Send in order, one result each. Begins no message after ``until`` (this process's monotonic clock) and
        none after the first ``FAILED``: the rest is ``NOT_TRIED``. Bounded: a single publish takes under 3 s.
        Raises nothing but programming errors."""
        ...

    def close(self) -> None: ...


class EventSink(Protocol):
    """Takes what happened. Never raises, never blocks."""

    def emit(self, event: Event) -> None: ...


class WakeChannel(Protocol):
    """Wakes beats before their sleep is over."""

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken. Loses no wake-up between two calls. Never raises for an
        unreachable backend: it then just sleeps."""
        ...

    def wake(self) -> None:
        """Wake every beat of this registered name, at best effort."""
        ...

    def close(self) -> None: ...
