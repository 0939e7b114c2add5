"""What a coordinator keeps of a fire and of a schedule, and the moments at which something is due for a claim."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from celery_parrot.model.fire import Fire, Status
from celery_parrot.model.state import RunState
from celery_parrot.protocols import Limit, Parcel, Timing

BEGINNING = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class Claim:
    """A fire with what only the coordinator needs to know of it.

    :ivar changed: last change; a claim that is not in flight is forgotten ``claim_ttl`` later.
    :ivar free: takeable by any sweeper at once (its owner left, or a release named it).
    :ivar counted: already in ``run_count``.
    :ivar put_back_at: when a delivery was last put back because another one held the lease.
    :ivar renewed: the lease was renewed since then, which proves that its delivery lives.
    :ivar ended_by: token and status of the last outcome taken, to recognise its repeat.
    :ivar passed: the token whose run went on as the next attempt before it had reported.
    :ivar stray: made by a message alone: its schedule may be a row's.
    :ivar uncounted: its failure does not count towards disabling.
    :ivar serial: grows with each change, over a loss of memory, too.
    :ivar limits: what it asked for; ``granted`` once it holds all of them.
    :ivar arrival: its number in the line, 0 while it is not there.
    :ivar wait_until: its wait deadline, None if it has none. ``waits_since``: when it joined the line it stands in, or
        stood in last; ``waited_until``: when it left that. ``waits_for``: what it lacked then; ``waits_behind``: the id
        of the fire that had it.
    :ivar send_until: once it is granted: by when it must be sent, None if it has no wait deadline.
    :ivar reserved_by: the worker that has its message in hand; ``reserved_until``: until when that is known.
    :ivar unsaid: the serial of its recovered failure, until rows know of that: what came after is carried then.
    :ivar mirrored: the epoch in which it came from a beat's memory, else empty.
    """

    fire: Fire
    changed: datetime
    free: bool = False
    counted: bool = False
    put_back_at: datetime | None = None
    renewed: bool = True
    ended_by: tuple[str, Status] | None = None
    passed: str = ""
    stray: bool = False
    uncounted: bool = False
    serial: int = 0
    limits: tuple[Limit, ...] = ()
    granted: bool = False
    arrival: int = 0
    wait_until: datetime | None = None
    waits_since: datetime | None = None
    waited_until: datetime | None = None
    waits_for: str = ""
    waits_behind: str = ""
    send_until: datetime | None = None
    reserved_by: str = ""
    reserved_until: datetime | None = None
    unsaid: int = 0
    mirrored: str = ""


@dataclass(slots=True)
class ScheduleState:
    """Run state and mark of one schedule.

    :ivar when: fingerprint of the definition that the mark belongs to; empty if not known.
    :ivar initial: nothing was decided from the mark since it was registered.
    :ivar told_due: due time of the fire whose delivery the run state tells of.
    """

    run: RunState = field(default_factory=RunState)
    when: str = ""
    initial: bool = True
    note: str = ""
    held_at: datetime | None = None
    told_due: datetime | None = None


@dataclass(slots=True)
class Queued:
    """A parcel that is not sent yet.

    :ivar owner: the beat that is to send it, empty for none. ``taken_at``: since when.
    """

    parcel: Parcel
    owner: str = ""
    taken_at: datetime | None = None


class Moment(StrEnum):
    """When something is due for a claim. What is kept in order by these can be asked for without looking at the rest.

    They follow from the claim (:func:`moment_of`); an earlier one than before must come with a
    :meth:`~celery_parrot.coordination.rules.space.Space.change`, a later one need not.
    """

    LEASE = "lease"  # running: its lease lapses, and no delivery that was put back is on its way
    SILENT = "silent"  # running: no sign of progress for too long
    DEADLINE = "deadline"  # sent: to be started by then
    UNKNOWN = "unknown"  # sent, no deadline: nobody started it for too long
    WAIT = "wait"  # waiting: its wait deadline; pending and granted: it must be sent by then
    RESERVED = "reserved"  # pending or sent: the reservation of a worker lapses
    EXPIRES = "expires"  # ended: the claim is forgotten


def moment_of(claim: Claim, moment: Moment, timing: Timing) -> datetime | None:
    """When that is for this claim as it is now, or None."""
    return moments_of(claim, timing).get(moment)


def moments_of(claim: Claim, timing: Timing) -> dict[Moment, datetime]:
    """All that there are for this claim as it is now."""
    fire = claim.fire
    found: dict[Moment, datetime | None] = {}
    match fire.status:
        case Status.RUNNING:
            found[Moment.LEASE] = _lease(claim, timing)
            if fire.silent_after is not None and fire.progress_at is not None:
                found[Moment.SILENT] = fire.progress_at + timedelta(seconds=fire.silent_after)
        case Status.WAITING:
            found[Moment.WAIT] = claim.wait_until
        case Status.PENDING:
            found[Moment.RESERVED] = claim.reserved_until
            found[Moment.WAIT] = _unsent(claim, timing)
        case Status.SENT:
            found[Moment.RESERVED] = claim.reserved_until
            found[Moment.DEADLINE] = fire.deadline
            if fire.deadline is None:
                found[Moment.UNKNOWN] = claim.changed + timedelta(seconds=timing.unknown_after)
        case _:
            found[Moment.EXPIRES] = claim.changed + timedelta(seconds=min(timing.claim_ttl, timing.ended_ttl))
    return {moment: at for moment, at in found.items() if at is not None}


def _unsent(claim: Claim, timing: Timing) -> datetime | None:
    # What a beat has taken just now it is about to send; what a worker has in hand was sent.
    if claim.send_until is None or not (claim.granted and claim.limits) or claim.reserved_until is not None:
        return None
    return max(claim.send_until, claim.fire.owned_at + timedelta(seconds=timing.takeover_after))


def _lease(claim: Claim, timing: Timing) -> datetime | None:
    # A delivery that was put back is on its way and will go on with the fire.
    until = claim.fire.lease_until
    if until is None or claim.put_back_at is None:
        return until
    return max(until, claim.put_back_at + 2 * timedelta(seconds=timing.lease))
