"""Workers: start, lease, finish."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.coordination.rules import limits, records, turns
from celery_parrot.coordination.rules.space import GUARD_OF_STRAYS, Claim, Space
from celery_parrot.model.fire import Fire, FireKey, Origin, Status
from celery_parrot.model.schedule import TELLS_ALL
from celery_parrot.protocols import (
    QUEUE_DEADLINE,
    Delivery,
    FinishReply,
    FinishVerdict,
    Lease,
    Outcome,
    StartReply,
    StartVerdict,
)

_BEFORE_RUNNING = frozenset({Status.PENDING, Status.WAITING, Status.SENT})


# --- start ---


def start(space: Space, delivery: Delivery) -> StartReply:
    """The rules of :meth:`~celery_parrot.protocols.Coordinator.start`, numbered as there."""
    if space.quiet:  # 1
        pause = (space.quiet_until - space.now).total_seconds()
        return StartReply(verdict=StartVerdict.QUIET, attempt=delivery.attempt, retry_after=pause)
    claim = space.claim(delivery.key)
    if claim is None:  # 2
        if delivery.put_back or records.ended(space, delivery.key):
            return StartReply(verdict=StartVerdict.DUPLICATE, attempt=delivery.attempt)
        claim = _unknown(space, delivery)
        if delivery.limits and not _is_over(space, claim):
            return _ask_again(space, claim, delivery)
        return _open(space, claim, delivery)
    fire = claim.fire
    if fire.status.terminal and fire.status is not Status.UNKNOWN:  # 3
        return StartReply(verdict=StartVerdict.DUPLICATE, attempt=fire.attempt)
    message, newest = (delivery.attempt, delivery.retries), (fire.sent_as, fire.retries)
    if message < newest:  # 4
        return StartReply(verdict=StartVerdict.DUPLICATE, attempt=fire.attempt)
    if message > newest:
        claim.passed = fire.token
        return _run(space, claim, delivery, attempt=max(fire.attempt + 1, delivery.attempt))
    if fire.status is Status.RUNNING:
        return _meet(space, claim, delivery)
    return _open(space, claim, delivery)


def _unknown(space: Space, delivery: Delivery) -> Claim:
    claim = space.add(
        Fire(
            key=delivery.key,
            name=delivery.name,
            kind=delivery.kind,
            origin=delivery.origin,
            status=Status.SENT,
            owned_at=space.now,
            committed_at=space.now,
            attempt=delivery.attempt,
            sent_as=delivery.attempt,
            retries=delivery.retries,
            deadline=delivery.deadline,
            tells=TELLS_ALL,
            guard=GUARD_OF_STRAYS if delivery.origin is Origin.RUN_NOW else None,
            override=delivery.override,
        )
    )
    # Known to the history, it has been counted before its claim expired.
    claim.counted = records.recorded(space, delivery.key)
    claim.stray = True
    return claim


def _ask_again(space: Space, claim: Claim, delivery: Delivery) -> StartReply:
    """What it held may be somebody else's by now: a beat asks for its limits, and sends the next attempt."""
    attempt = delivery.attempt + 1
    _sent(space, claim)
    space.change(claim, status=Status.PENDING, attempt=attempt, sent_as=attempt, retries=0, deadline=None)
    claim.free = space.named = True
    records.record(space, claim)
    return StartReply(verdict=StartVerdict.ASKS_AGAIN, attempt=attempt)


def _meet(space: Space, claim: Claim, delivery: Delivery) -> StartReply:
    """Rules 5 and 6: the fire is running."""
    fire = claim.fire
    if fire.token == delivery.token:
        return _running(claim)
    assert fire.lease_until is not None
    live = space.now < fire.lease_until
    if not live and space.judging:
        return _run(space, claim, delivery, attempt=fire.attempt + 1)
    if delivery.put_back and live and claim.renewed:
        return StartReply(verdict=StartVerdict.DUPLICATE, attempt=fire.attempt)
    claim.put_back_at, claim.renewed = space.now, False
    return StartReply(verdict=StartVerdict.PUT_BACK, attempt=fire.attempt, retry_after=space.timing.lease)


def _open(space: Space, claim: Claim, delivery: Delivery) -> StartReply:
    """Rules 7 and 8: nobody runs it."""
    if _is_over(space, claim):
        _sent(space, claim)
        claim.ended_by = None
        fire = space.change(claim, status=Status.EXPIRED, reason=QUEUE_DEADLINE, finished_at=space.now)
        records.outcome(space, claim)
        limits.release(space, claim)
        return StartReply(verdict=StartVerdict.EXPIRED, attempt=fire.attempt)
    return _run(space, claim, delivery, attempt=claim.fire.attempt)


def _is_over(space: Space, claim: Claim) -> bool:
    deadline = claim.fire.deadline
    return deadline is not None and space.now > deadline and space.judging


def _run(space: Space, claim: Claim, delivery: Delivery, *, attempt: int) -> StartReply:
    _sent(space, claim)
    limits.enter(space, claim)
    claim.put_back_at, claim.renewed = None, True
    claim.reserved_by, claim.reserved_until = "", None
    space.change(
        claim,
        status=Status.RUNNING,
        attempt=attempt,
        sent_as=delivery.attempt,
        retries=delivery.retries,
        token=delivery.token,
        worker=delivery.worker,
        started_at=space.now,
        lease_until=space.now + space.lease,
        progress_at=space.now,
        progress="",
        silent_after=delivery.silent_after,
        finished_at=None,
        reason="",
    )
    records.record(space, claim)
    return _running(claim)


def _running(claim: Claim) -> StartReply:
    fire = claim.fire
    return StartReply(verdict=StartVerdict.RUN, attempt=fire.attempt, lease_until=fire.lease_until, holds=claim.limits)


def _sent(space: Space, claim: Claim) -> None:
    """A message of it has arrived, so it was sent, whatever the beat knows."""
    if claim.fire.sent_at is None:
        space.change(claim, sent_at=space.now)
    records.count_sent(space, claim)


def renew(space: Space, lease: Lease) -> bool:
    claim = space.claim(lease.key)
    if claim is None or claim.fire.status is not Status.RUNNING or claim.fire.token != lease.token:
        return False
    space.change(claim, lease_until=space.now + space.lease)
    if lease.progress is not None:
        space.change(claim, progress_at=space.now, progress=lease.progress.text)
    claim.renewed = True
    return True


# --- finish ---


def finish(space: Space, outcome: Outcome) -> FinishReply:
    claim = space.claim(outcome.lease.key)
    if claim is None:
        return FinishReply(verdict=FinishVerdict.UNKNOWN)
    if _may_end(claim, outcome):
        return FinishReply(verdict=FinishVerdict.RECORDED, named=tuple(_end(space, claim, outcome)))
    token = outcome.lease.token
    if claim.ended_by == (token, outcome.status):
        return FinishReply(verdict=FinishVerdict.RECORDED)  # the reply to the first was lost
    if outcome.status is Status.SENT:
        passed_on = bool(token) and token == claim.passed  # its retry has begun already: nothing to say
        return FinishReply(verdict=FinishVerdict.RECORDED if passed_on else FinishVerdict.LATE)
    if token:
        records.note_late(space, claim, late_text(outcome))
    return FinishReply(verdict=FinishVerdict.LATE)


def late_text(outcome: Outcome) -> str:
    said = outcome.error or outcome.output or outcome.reason
    return f"{outcome.status}: {said}" if said else str(outcome.status)


def _may_end(claim: Claim, outcome: Outcome) -> bool:
    if outcome.lease.token:
        return claim.fire.status is Status.RUNNING and claim.fire.token == outcome.lease.token
    if outcome.attempt and outcome.attempt < claim.fire.sent_as:
        return False  # of a message before the newest
    return claim.fire.status in _BEFORE_RUNNING and outcome.status is not Status.SENT


def _end(space: Space, claim: Claim, outcome: Outcome) -> Sequence[FireKey]:
    claim.ended_by = (outcome.lease.token, outcome.status)
    fire = claim.fire
    if outcome.status is Status.SENT:
        # The coming message carries one more retry. Expecting it makes a redelivery of this one a duplicate.
        space.change(
            claim,
            status=Status.SENT,
            token="",
            lease_until=None,
            attempt=fire.attempt + 1,
            retries=fire.retries + 1,
            deadline=outcome.deadline,
        )
        records.record(space, claim)
        return ()
    turns.leave(space, claim)
    _sent(space, claim)
    space.change(claim, status=outcome.status, reason=outcome.reason, token="", lease_until=None, finished_at=space.now)
    records.outcome(
        space,
        claim,
        output=outcome.output,
        error=outcome.error,
        traceback=outcome.traceback,
        counted=outcome.counted,
    )
    return limits.release(space, claim)
