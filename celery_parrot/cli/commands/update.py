"""``update NAME``: change some fields of a schedule."""

from __future__ import annotations

from typing import Any

import click

from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.fields import field_options
from celery_parrot.cli.output import show_json, verb

_HELP = """Change fields of the schedule NAME, and no others.

A field is changed by its option, as FIELD=VALUE, or by an object in --file. A change of when it is due, or of enabled,
starts its due times anew from now; other changes move nothing.

\b
Examples:
  update "morning report" kwargs='{"to": "everyone"}' misfire_grace=900
  update "morning report" --type cron --config "0 7 * * *" --version 4
  update "morning report" name="early report"
  update stock prompt=null
"""


@verb("update", help=_HELP)
@click.argument("schedule", metavar="NAME", shell_complete=schedule_names)
@click.argument("pairs", metavar="[FIELD=VALUE]...", nargs=-1)
@click.option("--version", type=int, metavar="N", help="Refuse if it has another by now; show tells it.")
@click.option("--file", "file", type=click.File(encoding="utf-8"), help="Read YAML or JSON; - is standard input.")
@field_options(without=("store",))
@click.pass_context
def update(
    ctx: click.Context,
    /,
    schedule: str,
    pairs: tuple[str, ...],
    version: int | None,
    file: Any,
    as_json: bool,
    **options: str | None,
) -> None:
    """Change what the arguments, options and file say."""
    from celery_parrot.cli.commands.listing import brief
    from celery_parrot.cli.fields import assigned, given
    from celery_parrot.cli.source import opened
    from celery_parrot.client import schedule_fields

    texts = {**{name: text for name, text in options.items() if text is not None}, **assigned(pairs)}
    document = {} if file is None else _one(file)
    if not texts and not document:
        raise click.UsageError("Nothing to change: give FIELD=VALUE, an option or --file.")
    with opened(ctx) as source:
        source.must_be_shared()
        source.said()
        client = source.schedules
        before = client.get(schedule)
        view = client.update(schedule, version=version, **{**document, **given(texts, before.schedule_type)})
        description = client.describe(view)
        zone = str(source.zone)
    if as_json:
        show_json(schedule_fields(view, description))
    elif view.version == before.version:
        click.echo(f"{view.name} was like that already, at version {view.version}.")
    else:
        when = brief(description, zone) if description else view.broken_reason
        click.echo(f"{view.name} is at version {view.version}: {when}.")


def _one(file: Any) -> dict[str, Any]:
    from celery_parrot.cli.documents import read_file
    from celery_parrot.client import READ_ONLY

    documents, _ = read_file(file)
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise click.ClickException("The file must hold one object with the fields to change.")
    return {key: value for key, value in documents[0].items() if key not in READ_ONLY}
