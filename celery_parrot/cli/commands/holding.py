"""``pause``, ``resume`` and ``delete``."""

from __future__ import annotations

import click

from celery_parrot.cli.asking import confirmed, who, yes_option
from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.output import instant, show_json, verb

_name = click.argument("name", shell_complete=schedule_names)
_version = click.option("--version", type=int, metavar="N", help="Refuse if it has another by now; show tells it.")


@verb("pause")
@_name
@click.option("--note", default="", help="Why; shown wherever the schedule is.")
@click.option("--by", help="Who does this.  [default: the user of this shell]")
@_version
@click.pass_context
def pause(ctx: click.Context, name: str, note: str, by: str | None, version: int | None, as_json: bool) -> None:
    """Stop the schedule NAME until it is resumed. What was sent goes on.

    Works for schedules of the code too, and outlives restarts and deployments. The time in which it is paused is not
    missed: none of its due times is made up for.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.client import schedule_fields

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        view = client.pause(name, note=note, actor=who(by), version=version)
        if as_json:
            show_json(schedule_fields(view, client.describe(view)))
            return
    click.echo(f"{view.name} is paused ({view.note})." if view.note else f"{view.name} is paused.")


@verb("resume")
@_name
@_version
@click.pass_context
def resume(ctx: click.Context, name: str, version: int | None, as_json: bool) -> None:
    """Let the schedule NAME run again, from now on.

    Also one that repeated failure disabled: its failures are counted anew.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.client import schedule_fields

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        view = client.resume(name, version=version)
        zone = source.zone
        if as_json:
            show_json(schedule_fields(view, client.describe(view)))
            return
    due = f"; due next at {instant(view.next_run, zone)}" if view.next_run else ""
    click.echo(f"{view.name} is {view.state.value}{due}.")


@verb("delete")
@_name
@yes_option
@_version
@click.pass_context
def delete(ctx: click.Context, name: str, yes: bool, version: int | None, as_json: bool) -> None:
    """Remove the schedule NAME. What was sent goes on, and its history is kept until it is too old."""
    from celery_parrot.cli.commands.listing import brief
    from celery_parrot.cli.source import opened

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        view = client.get(name)
        when = brief(client.describe(view) or "broken", str(source.zone))
        confirmed(f"Delete {view.name} ({view.store} store, {when})?", yes)
        client.delete(view.schedule_id, version=version)
    if as_json:
        show_json({"name": view.name, "schedule_id": view.schedule_id, "deleted": True})
    else:
        click.echo(f"{view.name} is deleted; its history is under {view.schedule_id}.")
