"""Fires that a person asks for, and the guard that lets one run-now of a schedule be on its way at a time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from celery_parrot.coordination.rules import records
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import NotFired
from celery_parrot.protocols import Demand, DemandReply, DemandVerdict

_UNSENT = frozenset({Status.PENDING, Status.WAITING})


def demand(space: Space, demand: Demand) -> DemandReply:
    if space.quiet:
        return DemandReply(verdict=DemandVerdict.QUIET)
    claim, entry = space.claim(demand.key), space.entry(demand.key)
    if demand.origin is Origin.BACKFILL:
        if _has_fired(claim, entry):
            return DemandReply(verdict=DemandVerdict.FIRED)
    elif (known := _asked_before(space, demand, claim, entry)) is not None:
        return DemandReply(verdict=DemandVerdict.ASKED, key=known, again=True)
    if demand.guard is not None and (holder := guarding(space, demand.key.schedule_id)) is not None:
        fire = holder.fire
        return DemandReply(
            verdict=DemandVerdict.RUNNING, held_by=space.namespace.fire_id(fire.key), since=fire.committed_at
        )
    if demand.split is not None and not _split(space, demand):
        return DemandReply(verdict=DemandVerdict.MOVED)
    _commit(space, demand, claim, entry)
    return DemandReply(verdict=DemandVerdict.ASKED, key=demand.key)


def _has_fired(claim: Claim | None, entry: FireRecord | None) -> bool:
    if claim is not None:
        return not claim.fire.status.terminal or claim.fire.started_at is not None
    if entry is None or entry.committed_at is None:
        return False
    return not entry.status.terminal or entry.started_at is not None


def _asked_before(space: Space, demand: Demand, claim: Claim | None, entry: FireRecord | None) -> FireKey | None:
    """The fire of an earlier asking with this key or its nonce, whatever became of it."""
    if claim is not None or entry is not None:
        return demand.key
    key = demand.key
    return space.asked(key.schedule_id, key.nonce) if key.nonce else None


def _commit(space: Space, demand: Demand, before: Claim | None, entry: FireRecord | None) -> None:
    attempt = demand.attempt
    if before is not None:
        attempt = max(attempt, before.fire.attempt + 1)
    if entry is not None and entry.committed_at is not None:
        attempt = max(attempt, entry.attempt + 1)
    claim = space.add(
        Fire(
            key=demand.key,
            name=demand.name,
            kind=demand.kind,
            origin=demand.origin,
            owned_at=space.now,
            committed_at=space.now,
            attempt=attempt,
            sent_as=attempt,
            store=demand.store,
            recover=demand.recover,
            tells=demand.tells,
            guard=demand.guard,
            override=override_text(demand),
        )
    )
    if before is not None:  # its serial and its place in ``run_count`` go on
        claim.serial, claim.counted = before.serial, before.counted
    elif entry is not None:
        claim.counted = entry.sent_at is not None
    space.change(claim)
    claim.free = space.named = True
    records.record(space, claim)


def override_text(demand: Demand) -> str:
    """As the claim keeps it: text, so that whatever stores it changes nothing in it."""
    return "" if demand.override is None else json.dumps(dict(demand.override), separators=(",", ":"))


# --- the guard ---


def guarding(space: Space, schedule_id: str) -> Claim | None:
    """The claim that has the guard. One that has ended, is unknown or has lapsed has it no longer."""
    for key in list(space.holders(space.guard(schedule_id))):
        claim = space.claim(key)
        if claim is not None and claim.fire.guard is not None and not claim.fire.status.terminal:
            until = claim.changed + timedelta(seconds=claim.fire.guard)
            if claim.fire.status in _UNSENT or space.now < until:
                return claim
        space.let_go(space.guard(schedule_id), key)
    return None


# --- entries of several due times ---


def _split(space: Space, demand: Demand) -> bool:
    """Leave of the entry what lies before and after; false if it is not as it was read."""
    split, schedule_id = demand.split, demand.key.schedule_id
    assert split is not None
    whole = split.whole
    entry = space.entry(FireKey(schedule_id, whole.first))
    if (
        entry is None
        or entry.committed_at is not None
        or (entry.until or entry.due_at, entry.count)
        != (
            whole.last,
            whole.count,
        )
    ):
        return False
    keep = space.timing.history_limit
    if split.before is not None:  # else the fire's own entry takes its place
        space.put_entry(_part(space, entry, split.before), keep)
    if split.after is not None:
        space.put_entry(_part(space, entry, split.after), keep)
    return True


def _part(space: Space, entry: FireRecord, run: NotFired) -> FireRecord:
    key = FireKey(entry.key.schedule_id, run.first)
    until = run.last if run.count > 1 else None
    return replace(entry, fire_id=space.namespace.fire_id(key), key=key, until=until, count=run.count)
