"""``next NAME``: when a schedule is due next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from celery_parrot.cli.lazy import closest
from celery_parrot.cli.output import instant, seconds, show, show_json, verb

if TYPE_CHECKING:
    from celery_parrot.cli.source import Source
    from celery_parrot.triggers import Trigger


@verb("next")
@click.argument("name")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many due times.")
@click.pass_context
def next_(ctx: click.Context, name: str, count: int, as_json: bool) -> None:
    """Show the next due times of the schedule NAME."""
    from celery_parrot.cli.commands.preview import remark
    from celery_parrot.cli.source import opened
    from celery_parrot.client import occurrence_fields
    from celery_parrot.clock import SystemClock
    from celery_parrot.triggers import preview

    with opened(ctx) as source:
        trigger, state = _found(source, name)
    now = SystemClock().now()
    found = preview(trigger, now, count)
    if as_json:
        show_json([occurrence_fields(each) for each in found])
        return
    click.echo(trigger.describe())
    if state in ("paused", "disabled"):
        click.echo(f"It is {state}: these are the times at which it would be due.")
    rows = [
        (instant(each.due_at, source.zone), seconds((each.due_at - now).total_seconds()), remark(each))
        for each in found
    ]
    columns = 3 if any(row[2] for row in rows) else 2
    show(
        ["due", "in", "clock change"][:columns],
        [row[:columns] for row in rows],
        empty=f"{name} will not be due again.",
    )


def _found(source: Source, name: str) -> tuple[Trigger, str]:
    """When it is due, and how it is. What the code says needs no server: then how it is may be unknown, empty."""
    from celery_parrot.errors import InvalidSchedule, Unreachable
    from celery_parrot.runtime.reach import out_of_reach

    client = source.schedules
    try:
        trigger = client.trigger(name)
    except InvalidSchedule as error:
        raise click.ClickException(f"{name} {error.reason}.") from None
    except Unreachable as error:
        hint = f"There is no schedule {name!r}. {closest(name, client.in_code)}".rstrip()
        raise click.ClickException(f"{hint} Only the code was asked: {out_of_reach(source.settings, error)}") from None
    try:
        return trigger, client.get(name).state.value
    except Unreachable:
        return trigger, ""
