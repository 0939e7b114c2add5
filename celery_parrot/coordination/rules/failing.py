"""Failures in a row, and the hold that ends them."""

from __future__ import annotations

from dataclasses import replace

from celery_parrot.coordination.rules.space import Claim, ScheduleState, Space
from celery_parrot.model.fire import Status
from celery_parrot.planning import HELD_BY_FAILURES, disabled_note, disables


def succeeded(space: Space, state: ScheduleState, output: str | None) -> None:
    """The row of failures ends. Who is held stays so: a fire that was sent before has come through."""
    state.run = replace(
        state.run,
        last_status="success",
        last_error=None,
        last_result=output,
        last_result_at=space.now,
        consecutive_failures=0,
        failing_since=None,
    )


def failed(space: Space, claim: Claim, state: ScheduleState, error: str | None, counted: bool) -> bool:
    """One failure more. True if this is what disables the schedule."""
    run = state.run
    status, said = claim.fire.status, error or claim.fire.reason
    state.run = run = replace(
        run,
        last_status="target_missing" if status is Status.TARGET_MISSING else "error",
        last_error=said,
        last_error_at=space.now,
        consecutive_failures=run.consecutive_failures + counted,
        failing_since=(run.failing_since or space.now) if counted else run.failing_since,
    )
    if not counted or run.disabled_by is not None or not disables(run.consecutive_failures, space.timing.max_failures):
        return False
    state.run = replace(run, disabled_by=HELD_BY_FAILURES)
    state.note = disabled_note(run.consecutive_failures, run.failing_since, said)
    state.held_at = space.now
    return True
