"""``why NAME``: what became of one due time, and why."""

from __future__ import annotations

import click

from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.output import show_json, verb


@verb("why")
@click.argument("name", shell_complete=schedule_names)
@click.option("--at", metavar="TIME", help="The due time: 2026-03-02T03:00, 03:00 (today) or 'yesterday 03:00'.")
@click.option("--fire", metavar="ID", help="The id of a fire instead; fires shows them.")
@click.pass_context
def why(ctx: click.Context, name: str, at: str | None, fire: str | None, as_json: bool) -> None:
    """Tell why the schedule NAME ran at a due time, or did not.

    Without --at or --fire it is about the latest due time that is decided or on its way. Times without an offset are
    in the schedule's zone; the story is told in the app's.
    """
    from celery_parrot.cli.source import opened

    if at is not None and fire is not None:
        raise click.UsageError("Give either --at or --fire, not both.")
    with opened(ctx) as source:
        source.must_be_shared()
        story = source.schedules.why(name, at, fire, zone=source.zone)
    if as_json:
        show_json(story.to_json())
    else:
        click.echo(str(story))
