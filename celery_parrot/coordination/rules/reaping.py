"""The reaper: fires that show no sign of life end, or go out once more."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from celery_parrot.coordination.rules import limits, records, turns
from celery_parrot.coordination.rules.space import Claim, Moment, Space
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.planning.backlog import TOO_LATE
from celery_parrot.protocols import NEVER_STARTED, QUEUE_DEADLINE, SILENT, WORKER_LOST, Reaped, Reservation

_RESERVABLE = frozenset({Status.PENDING, Status.SENT})


def reap(space: Space, limit: int, holding: bool) -> Sequence[Reaped]:
    """In the order of :meth:`~celery_parrot.protocols.Coordinator.reap`."""
    if not space.judging:
        return []
    reaped: list[Reaped] = []
    for moment, end in _ENDS:
        for claim in space.soonest(moment, limit - len(reaped), holding=holding):
            # Not lapsed any more: the end of one before has moved it on.
            if space.lapsed(claim, moment) and not (moment is Moment.WAIT and _may_be_sent(space, claim)):
                reaped.append(end(space, claim))
    turns.admit(space)  # what a quiet time held up
    return reaped


def _may_be_sent(space: Space, claim: Claim) -> bool:
    # Ages in the outbox are judged later than the rest.
    return claim.fire.status is Status.PENDING and space.now < space.beats_from


def _worker_lost(space: Space, claim: Claim) -> Reaped:
    return _abandon(space, claim, WORKER_LOST)


def _silent(space: Space, claim: Claim) -> Reaped:
    return _abandon(space, claim, SILENT)


def _abandon(space: Space, claim: Claim, reason: str) -> Reaped:
    once_more = claim.fire.recover and not claim.fire.recovered
    reaped = _end(space, claim, Status.ABANDONED, reason, over=not once_more)
    if not once_more:
        return reaped
    records.keep_failure(claim)
    _again(space, claim, reason, recovered=True)
    return Reaped(fire=claim.fire, named=reaped.named, again=True)


def _expired(space: Space, claim: Claim) -> Reaped:
    return _end(space, claim, Status.EXPIRED, QUEUE_DEADLINE)


def _unknown(space: Space, claim: Claim) -> Reaped:
    return _end(space, claim, Status.UNKNOWN, NEVER_STARTED)


def _overdue(space: Space, claim: Claim) -> Reaped:
    if claim.fire.status is Status.PENDING:
        return _end(space, claim, Status.MISSED, TOO_LATE)
    return _end(space, claim, Status.ERROR, limits.overdue(space, claim))


def _unreserved(space: Space, claim: Claim) -> Reaped:
    _again(space, claim, WORKER_LOST, recovered=claim.fire.recovered)
    return Reaped(fire=claim.fire, again=True)


_ENDS: tuple[tuple[Moment, Callable[[Space, Claim], Reaped]], ...] = (
    (Moment.LEASE, _worker_lost),
    (Moment.SILENT, _silent),
    (Moment.DEADLINE, _expired),
    (Moment.UNKNOWN, _unknown),
    (Moment.WAIT, _overdue),
    (Moment.RESERVED, _unreserved),
)


def _end(space: Space, claim: Claim, status: Status, reason: str, *, counted: bool = True, over: bool = True) -> Reaped:
    claim.ended_by = None
    claim.reserved_by, claim.reserved_until = "", None
    turns.leave(space, claim)
    fire = space.change(claim, status=status, reason=reason, token="", lease_until=None, finished_at=space.now)
    records.unsent(space, claim)
    records.outcome(space, claim, counted=counted, over=over)
    return Reaped(fire=fire, named=tuple(limits.release(space, claim)))


def _again(space: Space, claim: Claim, reason: str, *, recovered: bool) -> None:
    """Back into the outbox as the next attempt, takeable at once. One more try, so that what the last owner still says
    of the attempt before is not taken for this one."""
    attempt = claim.fire.attempt + 1
    claim.ended_by, claim.passed = None, ""
    claim.put_back_at, claim.renewed = None, True
    claim.reserved_by, claim.reserved_until = "", None
    if claim.send_until is not None:
        claim.send_until = max(claim.send_until, space.now + space.seconds(space.timing.send_within))
    space.change(
        claim,
        status=Status.PENDING,
        reason=reason,
        tries=claim.fire.tries + 1,
        attempt=attempt,
        sent_as=attempt,
        retries=0,
        token="",
        lease_until=None,
        worker="",
        started_at=None,
        finished_at=None,
        deadline=None,
        progress_at=None,
        progress="",
        silent_after=None,
        recovered=recovered,
    )
    claim.free = space.named = True
    records.record(space, claim)


# --- by hand ---


def free(space: Space, key: FireKey, reason: str) -> Reaped | None:
    claim = space.claim(key)
    if claim is None or claim.fire.status.terminal:
        return None
    return _end(space, claim, Status.ABANDONED, reason, counted=False)


# --- reservations ---


def reserve(space: Space, reservation: Reservation) -> bool:
    claim = space.claim(reservation.key)
    if claim is None or claim.fire.status not in _RESERVABLE or not (claim.granted and claim.limits):
        return False
    if (reservation.attempt, reservation.retries) < (claim.fire.sent_as, claim.fire.retries):
        return False
    claim.reserved_by, claim.reserved_until = reservation.worker, space.now + space.lease
    space.change(claim)
    return True
