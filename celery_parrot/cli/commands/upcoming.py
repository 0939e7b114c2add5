"""``next NAME``: when a schedule is due next."""

from __future__ import annotations

import click

from celery_parrot.cli.output import instant, seconds, show, show_json, verb


@verb("next")
@click.argument("name")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many due times.")
@click.pass_context
def next_(ctx: click.Context, name: str, count: int, as_json: bool) -> None:
    """Show the next due times of the schedule NAME."""
    from celery_parrot.cli.commands.preview import as_fields, remark
    from celery_parrot.cli.source import opened
    from celery_parrot.clock import SystemClock
    from celery_parrot.triggers import preview

    with opened(ctx) as source:
        definition = source.found(name)
    if definition.trigger is None:
        raise click.ClickException(f"{name} is broken: {definition.broken}.")
    now = SystemClock().now()
    found = preview(definition.trigger, now, count)
    if as_json:
        show_json([as_fields(each) for each in found])
        return
    click.echo(definition.trigger.describe())
    if not definition.schedule.enabled:
        click.echo("It is switched off in the code: these are the times at which it would be due.")
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
