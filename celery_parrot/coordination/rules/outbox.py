"""Beats: marks, commits, the outbox, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from celery_parrot.coordination.rules import limits, parcels, records
from celery_parrot.coordination.rules.space import FORGET_BEATS, Claim, ScheduleState, Space
from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import Plan, PlannedFire, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import CommitReply, Drop, Hold, Mark, Registration, SweepReply


def register(space: Space, registration: Registration) -> Mark:
    state = space.state(registration.schedule_id)
    initial = registration.initial or space.now
    if state is None:
        state = ScheduleState(run=RunState(last_due=initial), when=registration.when)
        space.put_state(registration.schedule_id, state)
    elif state.run.last_due is None:
        state.run = replace(state.run, last_due=initial)
    elif state.when and state.when != registration.when:  # an edit of when
        last_due = initial if state.initial else max(initial, state.run.last_due)
        state.run = replace(state.run, last_due=last_due)
    state.when = registration.when
    return mark_of(registration.schedule_id, state)


def mark_of(schedule_id: str, state: ScheduleState) -> Mark:
    assert state.run.last_due is not None
    return Mark(schedule_id=schedule_id, last_due=state.run.last_due, held=state.run.disabled_by)


# --- commit ---


def commit(space: Space, plan: Plan, owner: str) -> CommitReply:
    state = space.state(plan.schedule_id)
    mark = state.run.last_due if state is not None else None
    if space.quiet:
        return CommitReply(schedule_id=plan.schedule_id, verdict=Verdict.MOVED, mark=mark)
    if state is None or mark is None:
        return CommitReply(schedule_id=plan.schedule_id, verdict=Verdict.UNKNOWN)
    if state.run.disabled_by is not None:
        return CommitReply(schedule_id=plan.schedule_id, verdict=Verdict.HELD, mark=mark, held=state.run.disabled_by)
    if mark != plan.expected_mark:
        return CommitReply(schedule_id=plan.schedule_id, verdict=Verdict.MOVED, mark=mark)
    won: list[PlannedFire] = []
    lost = 0
    for planned in plan.fires:
        key = FireKey(plan.schedule_id, planned.due_at)
        if space.claim(key) is not None:
            lost += 1
        elif records.reserve(space, plan.schedule_id, planned.origin, plan.max_fires):
            _claim(space, plan, planned, owner)
            won.append(planned)
    for run in plan.not_fired:
        records.record_range(space, plan, run, owner)
        parcels.of_range(space, plan, run)
    state.run = replace(state.run, last_due=max(mark, plan.new_mark))
    state.initial = False
    return CommitReply(
        schedule_id=plan.schedule_id,
        verdict=Verdict.COMMITTED,
        mark=state.run.last_due,
        fires=tuple(won),
        lost=lost,
    )


def _claim(space: Space, plan: Plan, planned: PlannedFire, owner: str) -> None:
    claim = space.add(
        Fire(
            key=FireKey(plan.schedule_id, planned.due_at),
            name=plan.name,
            kind=plan.kind,
            origin=planned.origin,
            owner=owner,
            owned_at=space.now,
            committed_at=space.now,
            store=plan.store,
            recover=plan.recover,
            tells=plan.tells,
        )
    )
    space.change(claim)
    records.record(space, claim)


# --- the owner's moves ---


def renew(space: Space, hold: Hold) -> bool:
    claim = space.held(hold.key, hold.owner, hold.tries)
    if claim is None:
        return False
    seen(space, hold.owner)  # else a long send outlives its heartbeat, and another beat takes what is being sent
    claim.free = False
    space.change(claim, owned_at=space.now)
    return True


def confirm(space: Space, hold: Hold, deadline: datetime | None = None) -> bool:
    claim = space.held(hold.key, hold.owner, hold.tries)
    if claim is None:
        return False
    space.change(claim, status=Status.SENT, sent_at=space.now, deadline=deadline)
    records.count_sent(space, claim)
    records.record(space, claim)
    return True


def drop(space: Space, drop: Drop) -> bool:
    claim = space.held(drop.hold.key, drop.hold.owner, drop.hold.tries)
    if claim is None:
        return False
    space.change(claim, status=drop.status, reason=drop.reason, finished_at=space.now)
    records.unsent(space, claim)
    records.outcome(space, claim)
    limits.release(space, claim)
    return True


# --- heartbeats and takeover ---


def seen(space: Space, owner: str) -> None:
    space.see(owner)


def sweep(space: Space, beat: Beat, offset: int, limit: int) -> SweepReply:
    space.see(beat.owner, beat)
    space.purge()
    page = space.outbox_page(offset, limit)
    return SweepReply(
        reading=space.reading(),
        entries=tuple(claim.fire for claim in page),
        due=tuple(
            Hold(claim.fire.key, claim.fire.owner, claim.fire.tries)
            for claim in page
            if takeable(space, claim, beat.owner)
        ),
        beats=tuple(beats(space)),
        line=tuple(limits.line(space, offset, limit)),
    )


def beats(space: Space) -> Sequence[Beat]:
    return [beat for beat in space.beats() if space.now - beat.seen <= FORGET_BEATS]


def retry_pause(space: Space, tries: int) -> timedelta:
    """1 s, then twice as long each time, up to the cap."""
    return timedelta(seconds=min(2.0 ** min(tries, 30), space.timing.retry_cap))


def takeable(space: Space, claim: Claim, who: str) -> bool:
    """Whether ``who`` may take this pending claim now."""
    age = space.now - claim.fire.owned_at
    if space.quiet:
        return False
    if claim.free:
        return True
    if claim.fire.owner == who and age >= retry_pause(space, claim.fire.tries):
        return True  # its own: no judgement of anybody, so no need to wait for judge_from
    if not space.judging or space.now < space.beats_from:
        return False
    return not space.alive(claim.fire.owner) or age >= space.seconds(space.timing.takeover_after)


def take(space: Space, hold: Hold, owner: str) -> Fire | None:
    claim = space.held(hold.key, hold.owner, hold.tries)
    if claim is None or not takeable(space, claim, owner):
        return None
    claim.free = False
    return space.change(claim, owner=owner, owned_at=space.now, tries=claim.fire.tries + 1)


def leave(space: Space, owner: str) -> None:
    space.forget_beat(owner)
    for claim in space.owned_by(owner):
        claim.free = True
