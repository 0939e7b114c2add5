"""Run state and history: what is written down when a fire moves on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from celery_parrot.coordination.rules import failing, parcels
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.model.fire import DEMANDED, FireKey, FireRecord, Origin, Status
from celery_parrot.model.plan import NotFired, Plan
from celery_parrot.protocols import Carried
from celery_parrot.protocols.holding import Release

COPIES = 100
"""History entries kept here of a schedule whose history is in a database."""

MOST_STRAYS = 1000
"""So many fires that may be a row's wait to be carried; there may be no database to ask."""

AUTOMATIC = frozenset({Origin.SCHEDULE, Origin.CATCH_UP})


def record(
    space: Space,
    claim: Claim,
    *,
    output: str | None = None,
    error: str | None = None,
    traceback: str | None = None,
    counted: bool = True,
    delivery: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Write the fire's history entry as the claim is now. A row knows of its pending fires; everything later is
    carried there.

    :param delivery: notes to be added to those that it has."""
    fire = claim.fire
    before = space.entry(fire.key)
    record = FireRecord(
        fire_id=space.namespace.fire_id(fire.key),
        key=fire.key,
        name=fire.name,
        kind=fire.kind,
        origin=fire.origin,
        status=fire.status,
        reason=fire.reason,
        attempt=fire.attempt,
        beat=fire.owner,
        worker=fire.worker,
        committed_at=fire.committed_at,
        sent_at=fire.sent_at,
        started_at=fire.started_at,
        finished_at=fire.finished_at,
        output=output,
        error=error,
        late_result=before.late_result if before else None,
        traceback=traceback,
        delivery={**(before.delivery if before else {}), **delivery},
        waited_for=claim.waits_for,
        waited_from=claim.waits_since,
        waited_until=claim.waited_until,
        held_by=claim.waits_behind,
    )
    limit = space.timing.history_limit
    space.put_entry(record, min(limit, COPIES) if fire.store == "db" else limit)
    if fire.status is not Status.PENDING or fire.origin in DEMANDED:
        claim.uncounted = fire.status.failure and not counted
        _carry(space, claim, record)


def _carry(space: Space, claim: Claim, record: FireRecord) -> None:
    if claim.unsaid:
        return  # first what the attempt before came to: :func:`go_on` has the rest
    if claim.fire.store == "db" or (
        claim.stray and space.state(claim.fire.key.schedule_id) is None and space.count_uncarried() < MOST_STRAYS
    ):
        space.carry(Carried(record=record, serial=claim.serial, counted=not claim.uncounted))


def keep_failure(claim: Claim) -> None:
    """The fire is about to go on after a failure: its row is to hear of that before it hears of anything else."""
    claim.unsaid = claim.serial


def go_on(space: Space, item: Carried) -> None:
    """A row knows of this: if it was a failure that the fire has gone on after, carry what came since."""
    claim, record = space.find(item.record.key), space.entry(item.record.key)
    if claim is not None and claim.unsaid != item.serial:
        return
    if claim is not None:
        claim.unsaid = 0
    if record is None or record.attempt <= item.record.attempt or record.status is Status.PENDING:
        return
    serial = claim.serial if claim is not None else item.serial + 1
    space.carry(Carried(record=record, serial=serial, counted=claim is None or not claim.uncounted))


def record_range(space: Space, plan: Plan | Release, run: NotFired, owner: str) -> None:
    """One history entry for due times that are decided without firing. Never replaces that of a fire."""
    key = FireKey(plan.schedule_id, run.first)
    before = space.entry(key)
    if before is not None and before.committed_at is not None:
        return
    record = FireRecord(
        fire_id=space.namespace.fire_id(key),
        key=key,
        name=plan.name,
        kind=plan.kind,
        origin=Origin.SCHEDULE,
        status=run.status,
        reason=run.reason,
        beat=owner,
        finished_at=space.now,
        until=run.last if run.count > 1 else None,
        count=run.count,
    )
    space.put_entry(record, space.timing.history_limit)


def note_late(space: Space, claim: Claim, text: str) -> None:
    """Keep what a result that came too late said."""
    space.change(claim)
    before = space.entry(claim.fire.key)
    if before is not None:
        record = replace(before, late_result=text)
        space.put_entry(record, space.timing.history_limit)
        _carry(space, claim, record)


def keep_note(space: Space, record: FireRecord) -> None:
    """The entry has a note more, which the fire's row is to know, too. Nothing else of the fire changes."""
    key = record.key
    limit, elsewhere = space.timing.history_limit, space.state(key.schedule_id) is None
    space.put_entry(record, min(limit, COPIES) if elsewhere else limit)
    claim = space.claim(key) if elsewhere else None
    if claim is not None:
        space.change(claim)
        _carry(space, claim, record)
    elif elsewhere:
        waiting = space.carrying(key)
        if waiting is not None or space.count_uncarried() < MOST_STRAYS:
            serial = max(waiting.serial + 1 if waiting else 0, int(space.now.timestamp() * 1000))
            space.carry(Carried(record=record, serial=serial, counted=waiting is None or waiting.counted))


def recorded(space: Space, key: FireKey) -> bool:
    return space.entry(key) is not None


def ended(space: Space, key: FireKey) -> bool:
    """Whether the history knows an outcome of this fire, whose claim may have expired."""
    entry = space.entry(key)
    if entry is None or entry.committed_at is None or entry.status is Status.UNKNOWN:
        return False
    return entry.status.terminal


def history(space: Space, schedule_id: str, limit: int, before: datetime | None) -> Sequence[FireRecord]:
    oldest = space.now - timedelta(days=space.timing.history_days)
    return space.history(schedule_id, oldest, before, max(limit, 0))


def count_sent(space: Space, claim: Claim) -> None:
    """``last_run``, and ``run_count`` once a fire however often it is sent."""
    state = space.state(claim.fire.key.schedule_id)
    if state is None or claim.counted:
        claim.counted = True
        return
    claim.counted = True
    state.run = replace(state.run, last_run=space.now, run_count=state.run.run_count + 1)


def reserve(space: Space, schedule_id: str, origin: Origin, max_fires: int | None) -> bool:
    """Count an automatic fire against ``max_fires``; false if there is none left."""
    if origin not in AUTOMATIC:
        return True
    state = space.state(schedule_id)
    assert state is not None
    if max_fires is not None and state.run.auto_count >= max_fires:
        return False
    state.run = replace(state.run, auto_count=state.run.auto_count + 1)
    return True


def unsent(space: Space, claim: Claim) -> None:
    """It has ended. Give back what :func:`reserve` counted, if it was never sent."""
    state = space.state(claim.fire.key.schedule_id)
    if state is not None and claim.fire.origin in AUTOMATIC and not claim.counted:
        state.run = replace(state.run, auto_count=max(state.run.auto_count - 1, 0))


def outcome(
    space: Space,
    claim: Claim,
    *,
    output: str | None = None,
    error: str | None = None,
    traceback: str | None = None,
    counted: bool = True,
    over: bool = True,
) -> None:
    """The run state and history of a fire that has just ended, and who is told of it. Skipped, missed and expired leave
    the run state.

    :param over: false for one that is sent once more: what comes of that is told."""
    fire = claim.fire
    state = space.state(fire.key.schedule_id)
    disabled = False
    if state is not None and fire.status is Status.SUCCESS:
        failing.succeeded(space, state, output)
    elif state is not None and fire.status.failure:
        disabled = failing.failed(space, claim, state, error, counted)
    told = parcels.of_outcome(space, claim, output, error) if over else {}
    record(space, claim, output=output, error=error, traceback=traceback, counted=counted, delivery=told)
    if disabled and state is not None:
        parcels.of_disabling(space, claim, error, state)
