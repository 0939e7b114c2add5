"""Pausing schedules whose run state is here."""

from __future__ import annotations

from dataclasses import replace

from celery_parrot.coordination.rules import records
from celery_parrot.coordination.rules.space import Space
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols.holding import Held, Release


def hold(space: Space, schedule_id: str, by: str, note: str) -> bool:
    state = space.state(schedule_id)
    if state is None or state.run.last_due is None:
        return False
    if by == "person" or state.run.disabled_by != "person":
        state.run = replace(state.run, disabled_by=by)
        state.note, state.held_at = note, space.now
    return True


def release(space: Space, release: Release) -> Verdict:
    state = space.state(release.schedule_id)
    if state is None or state.run.last_due is None:
        return Verdict.UNKNOWN
    if state.run.disabled_by is None:
        return Verdict.COMMITTED
    if state.run.last_due != release.expected_mark:
        return Verdict.MOVED
    for run in release.skipped:
        records.record_range(space, release, run, "")
    mark = max(release.new_mark, release.expected_mark)
    state.run = replace(state.run, last_due=mark, disabled_by=None, consecutive_failures=0, failing_since=None)
    state.note, state.held_at, state.initial = "", None, False
    return Verdict.COMMITTED


def held(space: Space, schedule_id: str) -> Held | None:
    state = space.state(schedule_id)
    if state is None or state.run.last_due is None:
        return None
    return Held(mark=state.run.last_due, by=state.run.disabled_by, note=state.note or None, at=state.held_at)
