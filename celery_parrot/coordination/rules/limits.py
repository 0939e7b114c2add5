"""Limits: holders of each, and one line for the fires that wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from celery_parrot.coordination.rules import records
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import (
    IN_FLIGHT_SKIP_OUTPUT_KEY,
    SLOTS,
    Busy,
    Grant,
    Limit,
    LimitReply,
    LimitRequest,
    Waiting,
)

_SKIPPED = "in flight"


def request(space: Space, request: LimitRequest) -> LimitReply:
    hold = request.hold
    claim = space.claim(hold.key)
    if claim is None or (claim.fire.owner, claim.fire.tries) != (hold.owner, hold.tries):
        return LimitReply(grant=Grant.LOST)
    if claim.fire.status is Status.WAITING:
        return _waiting(space, claim)
    if claim.fire.status is Status.SUCCESS and claim.fire.reason == _SKIPPED:
        return LimitReply(grant=Grant.SKIPPED)  # the reply to the first request was lost
    if claim.fire.status is not Status.PENDING or space.quiet:
        return LimitReply(grant=Grant.LOST)
    if claim.granted:
        return LimitReply(grant=Grant.GRANTED)
    claim.limits = request.limits
    for limit in request.limits:
        if limit.busy is Busy.SKIP and not _free(space, limit, hold.key):
            return _skip(space, claim, limit)
    _hold(space, claim, Busy.SKIP)
    return _join(space, claim)


def _skip(space: Space, claim: Claim, limit: Limit) -> LimitReply:
    """Record the fire as a success that did nothing. No failure count moves: it is no success of the target."""
    held_by = space.namespace.fire_id(next(iter(space.holders(limit.name))))
    output = json.dumps({IN_FLIGHT_SKIP_OUTPUT_KEY: True, "held_by": held_by})
    fire = space.change(claim, status=Status.SUCCESS, reason=_SKIPPED, finished_at=space.now)
    records.unreserve(space, fire)
    if state := space.state(fire.key.schedule_id):
        state.run = replace(state.run, last_status="success", last_result=output, last_result_at=space.now)
    records.record(space, claim, output=output)
    return LimitReply(grant=Grant.SKIPPED, held_by=held_by, limit=limit.name)


def _join(space: Space, claim: Claim) -> LimitReply:
    """Into the line, and on at once if the line lets it: a newcomer never passes one that waits."""
    key = claim.fire.key
    space.queue(claim)
    admit(space, newcomer=key)
    if claim.granted:
        return LimitReply(grant=Grant.GRANTED)
    space.change(claim, status=Status.WAITING)
    records.record(space, claim)
    return _waiting(space, claim)


def _waiting(space: Space, claim: Claim) -> LimitReply:
    for limit in claim.limits:
        if limit.busy is Busy.WAIT and not _free(space, limit, claim.fire.key):
            holder = next(iter(space.holders(limit.name)))
            return LimitReply(grant=Grant.WAITING, held_by=space.namespace.fire_id(holder), limit=limit.name)
    # Everything it needs is free, so an earlier fire of the line has the right to it.
    return LimitReply(grant=Grant.WAITING, limit=next((x.name for x in claim.limits if x.busy is Busy.WAIT), ""))


def admit(space: Space, newcomer: FireKey | None = None) -> Sequence[FireKey]:
    """Walk the line in order. Who fits gets everything it asked for and goes back into the outbox; who does not
    keeps later ones from the limits it needs. Slots are judged last: who lacks another limit reserves none."""
    if space.quiet:
        return ()
    blocked: set[str] = set()
    named: list[FireKey] = []
    for claim in list(space.line()):
        key = claim.fire.key
        wanted = [limit for limit in claim.limits if limit.busy is Busy.WAIT]
        others = [limit for limit in wanted if limit.name != SLOTS]
        slots = [limit for limit in wanted if limit.name == SLOTS]
        if not all(limit.name not in blocked and _free(space, limit, key) for limit in others):
            blocked.update(limit.name for limit in others)
            continue
        if not all(limit.name not in blocked and _free(space, limit, key) for limit in slots):
            blocked.update(limit.name for limit in wanted)
            continue
        space.unqueue(claim)
        _hold(space, claim, Busy.WAIT)
        claim.granted = True
        if key != newcomer:
            space.change(claim, status=Status.PENDING)
            claim.free = True
            records.record(space, claim)
            named.append(key)
    return named


def enter(space: Space, claim: Claim) -> None:
    """A waiting fire that runs all the same (its message was out before a loss of memory): count what it uses."""
    if space.unqueue(claim):
        _hold(space, claim, Busy.WAIT)
        claim.granted = True


def line(space: Space) -> Sequence[Waiting]:
    return [Waiting(claim.fire, claim.limits) for claim in space.line()]


def restore_waiting(space: Space, waiting: Waiting) -> None:
    """Back into the line after a loss of memory, with what a waiting fire holds."""
    if space.claim(waiting.fire.key) is not None:
        return
    claim = space.add(waiting.fire)
    claim.limits = waiting.limits
    claim.mirrored = space.epoch
    space.change(claim, status=Status.WAITING)
    _hold(space, claim, Busy.SKIP)
    space.queue(claim)
    records.record(space, claim)


def restore_holds(space: Space, claim: Claim, holds: Sequence[Limit]) -> None:
    """A running fire holds what it held, whoever else may have got it since."""
    space.unqueue(claim)
    claim.limits = tuple(holds) or claim.limits
    _hold(space, claim, Busy.SKIP)
    _hold(space, claim, Busy.WAIT)
    claim.granted = bool(claim.limits)


def release(space: Space, claim: Claim) -> Sequence[FireKey]:
    """The fire has ended: give back what it held, and name those that now fit."""
    key = claim.fire.key
    if not claim.limits:
        return ()
    space.unqueue(claim)
    for limit in claim.limits:
        space.let_go(limit.name, key)
    claim.granted = False
    return admit(space)


def _free(space: Space, limit: Limit, key: FireKey) -> bool:
    holders = space.holders(limit.name)
    return key in holders or len(holders) < limit.capacity


def _hold(space: Space, claim: Claim, busy: Busy) -> None:
    for limit in claim.limits:
        if limit.busy is busy:
            space.hold(limit.name, claim.fire.key)
