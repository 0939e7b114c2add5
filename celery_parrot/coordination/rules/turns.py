"""The line: who fits next, and what keeps the others back.

Fires that asked for exactly the same limits fit one after the other, so only the first of each such group is looked
at: the cost goes by how many different things are waited for, never by how many fires wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from celery_parrot.coordination.rules import records
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import SLOTS, Busy, Limit


def waited_for(limits: Sequence[Limit]) -> list[Limit]:
    """Those that a fire waits for, slots last."""
    return sorted((limit for limit in limits if limit.busy is Busy.WAIT), key=lambda limit: limit.name == SLOTS)


def has_room(space: Space, limit: Limit, key: FireKey) -> bool:
    holders = space.holders(limit.name)
    return key in holders or len(holders) < space.capacity(limit.name)


def hold(space: Space, claim: Claim, *, waited: bool) -> None:
    """Give it the limits that it waits for, or the others."""
    for limit in claim.limits:
        if (limit.busy is Busy.WAIT) is waited:
            space.hold(limit.name, claim.fire.key)


def leave(space: Space, claim: Claim) -> None:
    """Out of the line, if it stands there."""
    if space.unqueue(claim) and claim.waits_since is not None and claim.waited_until is None:
        claim.waited_until = space.now


def grant(space: Space, claim: Claim) -> None:
    """Out of the line, with everything it asked for."""
    leave(space, claim)
    hold(space, claim, waited=True)
    claim.granted = True
    if claim.wait_until is not None:
        claim.send_until = max(claim.wait_until, space.now + space.seconds(space.timing.send_within))


def admit(space: Space, newcomer: FireKey | None = None) -> Sequence[FireKey]:
    """Walk the line in order. Who fits gets everything it asked for and goes back into the outbox; who does not
    keeps later ones from the limits it needs. Slots are judged last: who lacks another limit reserves none."""
    named: list[FireKey] = []
    blocked: dict[str, FireKey] = {}
    for claim in _walk(space) if not space.quiet and _somebody_may_fit(space) else ():
        key = claim.fire.key
        if _blocks(space, claim, blocked):
            continue
        grant(space, claim)
        if key != newcomer:
            space.change(claim, status=Status.PENDING)
            claim.free = space.named = True
            records.record(space, claim)
            named.append(key)
    return named


def _somebody_may_fit(space: Space) -> bool:
    """False where each kind of wish meets a limit without room: then there is no need to ask who comes first. Many
    ends in a row that free nothing, as of fires that waited too long, would otherwise walk the line each time."""
    full: dict[str, bool] = {}
    for limits in space.wanted():
        for limit in reversed(limits):  # the shared ones come last
            if limit.busy is Busy.WAIT:
                if limit.name not in full:
                    full[limit.name] = len(space.holders(limit.name)) >= space.capacity(limit.name)
                if full[limit.name]:
                    break
        else:
            return True
    return False


def lacking(space: Space, claim: Claim) -> tuple[str, FireKey | None]:
    """The limit that keeps this waiting fire back, and who has it: holds it, or stands before this one in its line."""
    wanted = waited_for(claim.limits)
    for limit in wanted:
        if not has_room(space, limit, claim.fire.key):
            return limit.name, next(iter(space.holders(limit.name)), None)
    blocked: dict[str, FireKey] = {}
    for earlier in _walk(space):
        if _place(earlier) >= _place(claim):
            break
        _blocks(space, earlier, blocked)
    for limit in wanted:
        if limit.name in blocked:
            return limit.name, blocked[limit.name]
    return (wanted[0].name if wanted else ""), None


def _walk(space: Space) -> Iterator[Claim]:
    """In order, the first of each group; when that has left the line, the next of its group in its turn."""
    heads = [(_place(claim), claim) for limits in space.wanted() if (claim := space.first(limits)) is not None]
    heap = [(place, n) for n, (place, _) in enumerate(heads)]
    claims = [claim for _, claim in heads]
    heapq.heapify(heap)
    while heap:
        _, n = heapq.heappop(heap)
        claim = claims[n]
        yield claim
        after = space.first(claim.limits) if not claim.arrival else None
        if after is not None and after is not claim:
            claims[n] = after
            heapq.heappush(heap, (_place(after), n))


def _place(claim: Claim) -> tuple[object, ...]:
    return claim.fire.key.due_at, claim.arrival


def _blocks(space: Space, claim: Claim, blocked: dict[str, FireKey]) -> bool:
    """Whether it has to go on waiting; notes then what it keeps others from."""
    key = claim.fire.key
    wanted = waited_for(claim.limits)
    others = [limit for limit in wanted if limit.name != SLOTS]
    if any(limit.name in blocked or not has_room(space, limit, key) for limit in others):
        kept = others
    elif any(limit.name in blocked or not has_room(space, limit, key) for limit in wanted):
        kept = wanted
    else:
        return False
    for limit in kept:
        blocked.setdefault(limit.name, key)
    return True
