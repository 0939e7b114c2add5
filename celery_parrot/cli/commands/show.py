"""``show NAME``: one schedule, with all that is known of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import click

from celery_parrot.cli.commands.listing import HELD
from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.output import aligned, clock_time, distance, instant, show_json, verb
from celery_parrot.errors import printable

if TYPE_CHECKING:
    from datetime import tzinfo

    from celery_parrot.client import ScheduleView

_UPCOMING = 3


@verb("show")
@click.argument("name", shell_complete=schedule_names)
@click.pass_context
def show_(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show the schedule NAME: what it calls and when, how it is, what came of its last fire.

    Fields that have their default are left out; --json has all.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.client import document_of, schedule_fields, without_secrets
    from celery_parrot.clock import SystemClock

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        view = client.get(name)
        description = client.describe(view)
        if as_json:
            show_json(schedule_fields(view, description))
            return
        upcoming = [] if view.broken_reason else client.next(view.schedule_id, _UPCOMING)
        zone = source.zone
    now = SystemClock().now()
    document = {key: value for key, value in document_of(view).items() if key not in ("name", "store", "target")}
    if not view.schedule_type:  # it cannot even be read: these are not its own
        document = {}
    document = {key: without_secrets(key, value) for key, value in document.items()}
    lines: list[tuple[str, object]] = [
        ("when", description or f"cannot be computed: {view.broken_reason}"),
        ("target", view.target),
        *((key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
          for key, value in document.items()),
        ("would be due" if view.state.value in HELD else "next due",
         "" if view.broken_reason else _times(upcoming, zone, now) or "nothing more"),
        *_history(view, zone, now),
        ("id", view.schedule_id),
    ]  # fmt: skip
    head = (printable(view.name), f"{_state(view)} · {view.store} store · version {view.version}")
    rest = [(key, printable(str(value))) for key, value in lines if value not in (None, "")]
    for line in aligned(["", ""], [head, *rest])[1:]:
        click.echo(line)


def _state(view: ScheduleView) -> str:
    state = view.state.value
    return click.style(state, fg={"active": "green", "paused": "yellow"}.get(state, "red")) + (
        f" ({printable(view.note)})" if view.note else ""
    )


def _history(view: ScheduleView, zone: tzinfo, now: datetime) -> Iterable[tuple[str, object]]:
    state = view.run_state
    if state.last_run is not None:
        yield "last sent", f"{instant(state.last_run, zone)}, {distance(state.last_run, now)}"
    yield "sent", state.run_count
    yield "last outcome", state.last_status
    if state.last_error:
        yield "last error", f"{state.last_error} ({distance(state.last_error_at, now)})"
    if state.last_result:
        yield "last result", f"{state.last_result} ({distance(state.last_result_at, now)})"
    if state.last_delivery_status:
        undone = [f"{one['callback']}: {one['error']}" for one in state.last_callbacks if one.get("error")]
        told = f"{state.last_delivery_status} ({distance(state.last_delivery_at, now)})"
        yield "last delivery", ", ".join([told, *undone])
    yield "failures in a row", state.consecutive_failures or None


def _times(due: Sequence[datetime], zone: tzinfo, now: datetime) -> str:
    if not due:
        return ""
    return ", ".join(clock_time(each, zone) for each in due) + f" ({distance(due[0], now)})"
