"""``list``: every schedule in the app's code, and how it is."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import click

from celery_parrot.cli.output import distance, plain, show, show_json, verb
from celery_parrot.model.state import RunState

if TYPE_CHECKING:
    from celery_parrot.cli.source import Found


@verb("list")
@click.option("--kind", help="Only schedules of this kind.")
@click.pass_context
def list_(ctx: click.Context, kind: str | None, as_json: bool) -> None:
    """Show all schedules: when they run, how they are, what came of the last fire.

    The schedules are those in the code of the app; the rest is asked of the coordinator.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.clock import SystemClock

    with opened(ctx) as source:
        states = source.run_states()
        names = [each.name for each in source.schedules() if kind is None or each.kind == kind]
        found = [source.found(name) for name in names]
        zone = str(source.zone)
    now = SystemClock().now()
    rows = [(each, states.get(each.schedule.schedule_id, RunState())) for each in found]
    if as_json:
        show_json([as_fields(each, state, now) for each, state in rows])
        return
    show(
        ["name", "when", "kind", "state", "last due", "next due", "outcome"],
        [
            (
                each.schedule.name,
                brief(each.trigger.describe(), zone) if each.trigger else each.broken,
                each.schedule.kind,
                state_of(each, state, now),
                distance(state.last_due if state.run_count else None, now),
                distance(next_due(each, now), now),
                state.last_status,
            )
            for each, state in rows
        ],
        empty="No schedules." if kind is None else f"No schedules of kind {kind}.",
    )


def brief(sentence: str, zone: str) -> str:
    """The sentence of a trigger without what clock changes do to it, and without the app's own zone: ``next`` tells."""
    what, _, rest = sentence.rstrip(".").partition(" (")
    of = rest.rstrip(")").partition(",")[0]
    what = what.partition(", counted from ")[0]
    return what if of in ("", zone) else f"{what} ({of})"


def state_of(found: Found, state: RunState, now: datetime) -> str:
    """``active``, ``paused``, ``disabled``, ``completed`` or ``broken``."""
    if found.trigger is None:
        return "broken"
    if state.disabled_by == "failures":
        return "disabled"
    if state.disabled_by is not None or not found.schedule.enabled:
        return "paused"
    limit = found.schedule.policy.max_fires
    if next_due(found, now) is None or (limit is not None and state.auto_count >= limit):
        return "completed"
    return "active"


def next_due(found: Found, now: datetime) -> datetime | None:
    """When it is due next, or would be were it not paused."""
    return None if found.trigger is None else found.trigger.next_after(now)


def as_fields(found: Found, state: RunState, now: datetime) -> dict[str, object]:
    """Definition and run state, as JSON has them."""
    fields = plain(found.schedule)
    assert isinstance(fields, dict)
    return {
        **fields,
        "description": found.trigger.describe() if found.trigger else None,
        "state": state_of(found, state, now),
        "broken_reason": found.broken or None,
        "next_run": plain(next_due(found, now)),
        "run_state": plain(state),
    }
