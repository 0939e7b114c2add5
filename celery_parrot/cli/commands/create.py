"""``create``: a new schedule, or several from a file."""

from __future__ import annotations

from typing import Any

import click

from celery_parrot.cli.fields import field_options
from celery_parrot.cli.output import instant, show_json, verb

_HELP = """Save a new schedule. Its first due time is the first after now.

TYPE and SPEC say when, as for preview. With --file the schedules come from YAML or JSON, all fields are possible, and
options are put on top.

\b
Examples:
  create "morning report" cron "30 6 * * mon-fri" --target shop.report --tz Europe/Madrid
  create stock interval 90s --target shop.sync --args '[7]' --options '{"queue": "slow"}'
  create --name x --target shop.x --type daily --config '{"hour": 9}'
  create --file schedules.yaml
  create --file - < one.json
"""


@verb("create", help=_HELP)
@click.argument("name_", metavar="[NAME]", required=False)
@click.argument("type_", metavar="[TYPE]", required=False)
@click.argument("spec", metavar="[SPEC]", required=False)
@click.option("--file", "file", type=click.File(encoding="utf-8"), help="Read YAML or JSON; - is standard input.")
@field_options()
@click.pass_context
def create(
    ctx: click.Context,
    /,
    name_: str | None,
    type_: str | None,
    spec: str | None,
    file: Any,
    as_json: bool,
    **options: str | None,
) -> None:
    """Save what the arguments, options and file describe."""
    from celery_parrot.cli.documents import read_file
    from celery_parrot.cli.fields import given
    from celery_parrot.cli.source import opened
    from celery_parrot.client import READ_ONLY, schedule_fields

    for option, value in (("name", name_), ("schedule_type", type_), ("schedule_config", spec)):
        if value is not None:
            if options[option] is not None:
                raise click.UsageError(f"{option} is given twice: {value!r} and {options[option]!r}.")
            options[option] = value
    fields = given(options)
    if file is None:
        documents, several = [fields], False
        missing = [name for name in ("name", "schedule_type", "schedule_config", "target") if name not in fields]
        if missing:
            raise click.UsageError(f"A schedule needs {', '.join(missing)}: NAME TYPE SPEC --target TASK, or --file.")
    else:
        documents, several = read_file(file)
        for number, document in enumerate(documents, 1):
            if not isinstance(document, dict):
                raise click.ClickException(f"Number {number} of the file is no object with the fields of a schedule.")
        documents = [
            {**{key: value for key, value in document.items() if key not in READ_ONLY}, **fields}
            for document in documents
        ]
    with opened(ctx) as source:
        source.must_be_shared()
        source.said()
        client = source.schedules
        made = client.create_many(documents)
        zone = source.zone
        if as_json:
            found = [schedule_fields(view, client.describe(view)) for view in made]
            show_json(found if several else found[0])
            return
    for view in made:
        due = f"due next at {instant(view.next_run, zone)}" if view.next_run else f"it is {view.state.value}"
        click.echo(f"{view.name} is in the {view.store} store; {due}.")
    if not made:
        click.echo("The file has no schedules.")
