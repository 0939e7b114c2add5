"""Limits: asking for them, giving them back, and what a loss of memory leaves of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from celery_parrot.coordination.rules import records, turns
from celery_parrot.coordination.rules.space import GUARD, Claim, Space
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import (
    EXPIRED_WAITING,
    IN_FLIGHT,
    IN_FLIGHT_SKIP_OUTPUT_KEY,
    OVERLAP,
    Busy,
    Grant,
    Holder,
    Limit,
    LimitReply,
    LimitRequest,
    LimitState,
    Waiting,
)

_SKIPS = {(Status.SUCCESS, IN_FLIGHT), (Status.SKIPPED, OVERLAP)}


def request(space: Space, request: LimitRequest) -> LimitReply:
    hold = request.hold
    claim = space.claim(hold.key)
    if claim is None or (claim.fire.owner, claim.fire.tries) != (hold.owner, hold.tries):
        return LimitReply(grant=Grant.LOST)
    if claim.fire.status is Status.WAITING:
        return _waiting(space, claim)
    if (claim.fire.status, claim.fire.reason) in _SKIPS:
        return LimitReply(grant=Grant.SKIPPED)  # the reply to the first request was lost
    if claim.fire.status is not Status.PENDING or space.quiet:
        return LimitReply(grant=Grant.LOST)
    if claim.granted:
        return LimitReply(grant=Grant.GRANTED)
    raised = [limit for limit in request.limits if space.note_capacity(limit)]
    if raised:
        turns.admit(space)  # whoever asked before must not wait for ever, nor be passed
    for limit in request.limits:
        if limit.busy is not Busy.WAIT and not turns.has_room(space, limit, hold.key):
            return _skip(space, claim, limit)
    for limit in request.limits:
        if limit.busy is Busy.WAIT and _is_crowded(space, limit):
            return _overlap(space, claim, limit)
    claim.limits = request.limits
    turns.hold(space, claim, waited=False)
    return _join(space, claim, request.wait)


def _is_crowded(space: Space, limit: Limit) -> bool:
    if limit.buffer is None:
        return False
    return len(space.holders(limit.name)) + space.waiting(limit.name) >= limit.capacity + limit.buffer


def _skip(space: Space, claim: Claim, limit: Limit) -> LimitReply:
    if limit.busy is Busy.OVERLAP:
        return _overlap(space, claim, limit)
    # A success that did nothing. No failure count moves: it is no success of the target.
    holder = next(iter(space.holders(limit.name)))
    output = json.dumps({IN_FLIGHT_SKIP_OUTPUT_KEY: True, "held_by": space.namespace.fire_id(holder)})
    fire = space.change(claim, status=Status.SUCCESS, reason=IN_FLIGHT, finished_at=space.now)
    records.unsent(space, claim)
    if state := space.state(fire.key.schedule_id):
        state.run = replace(state.run, last_status="success", last_result=output, last_result_at=space.now)
    records.record(space, claim, output=output)
    return _reply(space, Grant.SKIPPED, limit.name, holder)


def _overlap(space: Space, claim: Claim, limit: Limit) -> LimitReply:
    space.change(claim, status=Status.SKIPPED, reason=OVERLAP, finished_at=space.now)
    records.unsent(space, claim)
    records.record(space, claim)
    holder = next(iter(space.holders(limit.name)), None)
    if holder is None:
        holder = next((other.fire.key for other in space.line((limit.name,))), None)
    return _reply(space, Grant.SKIPPED, limit.name, holder)


def _join(space: Space, claim: Claim, wait: float | None) -> LimitReply:
    """Into the line, and on at once if the line lets it: a newcomer never passes one that waits."""
    since = space.now if claim.fire.recovered else claim.fire.committed_at  # what it ran for was no wait
    claim.wait_until = None if wait is None else since + timedelta(seconds=wait)
    space.queue(claim)
    turns.admit(space, newcomer=claim.fire.key)
    if claim.granted:
        space.change(claim)
        return LimitReply(grant=Grant.GRANTED)
    claim.waits_since, claim.waited_until = space.now, None
    claim.waits_for, before = turns.lacking(space, claim)
    claim.waits_behind = space.namespace.fire_id(before) if before is not None else ""
    space.change(claim, status=Status.WAITING)
    records.record(space, claim)
    return _reply(space, Grant.WAITING, claim.waits_for, before)


def _waiting(space: Space, claim: Claim) -> LimitReply:
    return _reply(space, Grant.WAITING, *turns.lacking(space, claim))


def _reply(space: Space, grant: Grant, limit: str, holder: FireKey | None) -> LimitReply:
    if holder is None:
        return LimitReply(grant=grant, limit=limit)
    claim = space.find(holder)
    kind = claim.fire.kind if claim is not None else ""
    return LimitReply(grant=grant, limit=limit, held_by=space.namespace.fire_id(holder), held_by_kind=kind)


def overdue(space: Space, claim: Claim) -> str:
    """The reason of a fire that stood in line for too long."""
    name, _, rest = turns.lacking(space, claim)[0].partition(":")
    words = f"{name} {rest}" if rest and name != "schedule" else name
    return f"{EXPIRED_WAITING} {words}"


def enter(space: Space, claim: Claim) -> None:
    """A waiting fire that runs all the same (its message was out before a loss of memory): count what it uses."""
    if claim.arrival:
        turns.grant(space, claim)


def release(space: Space, claim: Claim) -> Sequence[FireKey]:
    """The fire has ended: give back what it held, and name those that now fit."""
    if not claim.limits:
        return ()
    turns.leave(space, claim)
    for limit in claim.limits:
        space.let_go(limit.name, claim.fire.key)
    claim.limits, claim.granted, claim.send_until = (), False, None
    return turns.admit(space)


# --- looking ---


def line(space: Space, offset: int, limit: int) -> Sequence[Waiting]:
    return [_in_line(claim) for claim in space.line_page(offset, limit)]


def _in_line(claim: Claim) -> Waiting:
    return Waiting(claim.fire, claim.limits, since=claim.waits_since, until=claim.wait_until)


def inspect(space: Space) -> Sequence[LimitState]:
    waiting: dict[str, list[Claim]] = {}
    for claim in space.line():
        for limit in turns.waited_for(claim.limits):
            waiting.setdefault(limit.name, []).append(claim)
    held = (name for name in space.held_limits() if not name.startswith(GUARD))
    return [_inspected(space, name, waiting.get(name, [])) for name in sorted({*held, *waiting})]


def _inspected(space: Space, name: str, waiting: Sequence[Claim]) -> LimitState:
    held = [(claim, since) for key, since in space.holders(name).items() if (claim := space.find(key)) is not None]
    return LimitState(
        name=name,
        capacity=space.capacity(name),
        holders=tuple(Holder(fire=claim.fire, since=since) for claim, since in held),
        waiting=tuple(_in_line(claim) for claim in waiting),
    )


# --- loss of memory ---


def restore_waiting(space: Space, waiting: Waiting) -> None:
    """Back into the line, with what a waiting fire holds."""
    if space.claim(waiting.fire.key) is not None:
        return
    claim = space.add(waiting.fire)
    claim.limits = waiting.limits
    claim.counted = waiting.fire.sent_at is not None
    space.restore_capacities(claim.limits)
    claim.mirrored = space.epoch
    turns.hold(space, claim, waited=False)
    space.queue(claim)
    claim.waits_since = waiting.since or space.now
    claim.waits_for = next((limit.name for limit in turns.waited_for(claim.limits)), "")
    claim.wait_until = waiting.until
    space.change(claim, status=Status.WAITING)
    records.record(space, claim)


def restore_holds(space: Space, claim: Claim, holds: Sequence[Limit]) -> None:
    """A running fire holds what it held, whoever else may have got it since."""
    turns.leave(space, claim)
    claim.limits = tuple(holds) or claim.limits
    space.restore_capacities(claim.limits)
    turns.hold(space, claim, waited=False)
    turns.hold(space, claim, waited=True)
    claim.granted = bool(claim.limits)
