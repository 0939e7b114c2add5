"""``import``: schedules of another scheduler, shown first and created only when told to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from celery_parrot.cli.output import instant, show, show_json, verb

if TYPE_CHECKING:
    from datetime import tzinfo

    from celery_parrot.cli.source import Source
    from celery_parrot.importers.items import Found
    from celery_parrot.importers.sources import Asked
    from celery_parrot.importers.transfer import Carry, Step

SOURCES = ("redbeat", "django-celery-beat", "sqlalchemy-celery-beat", "shelve", "apscheduler", "agents-scheduler")

_HELP = """Create schedules from those of another scheduler.

SOURCE is redbeat, django-celery-beat, sqlalchemy-celery-beat, shelve, apscheduler or agents-scheduler; LOCATION its
URL, or the path of a file. Without --write it only shows what would be created, and what cannot be and why. Nothing in
the source is changed, and what exists here is left as it is unless --update is given: run it as often as you like.

\b
Examples:
  import redbeat redis://localhost/1
  import django-celery-beat postgresql://user@host/app --write
  import sqlalchemy-celery-beat sqlite:///schedule.db --schema beat
  import shelve celerybeat-schedule --trust-pickles
  import apscheduler sqlite:///jobs.sqlite --trust-pickles --task-map app.jobs:clean=app.clean
  import agents-scheduler postgresql://user@host/app --reminders redis://localhost/0
"""


@verb("import", help=_HELP)
@click.argument("source", metavar="SOURCE", type=click.Choice(SOURCES))
@click.argument("location", metavar="[LOCATION]", required=False)
@click.option("--write", "--yes", "-y", "write", is_flag=True, help="Create them.")
@click.option("--dry-run", is_flag=True, help="Only show; the default.")
@click.option("--update", is_flag=True, help="Overwrite existing schedules that differ.")
@click.option("--store", type=click.Choice(["db", "redis"]), help="Where they go.  [default: db if there is one]")
@click.option("--prefix", default="", help="Put this before every name.")
@click.option("--timezone", help="Zone of readings for which the source names none.  [default: the app's]")
@click.option("--schema", help="Schema of the source's tables.  [agents-scheduler: navigator]")
@click.option("--table", help="Table of APScheduler's jobs.  [default: apscheduler_jobs]")
@click.option("--key-prefix", help="RedBeat's redbeat_key_prefix.  [default: that of the app, else redbeat:]")
@click.option("--jobs-key", help="Redis key of APScheduler's jobs.  [default: apscheduler.jobs]")
@click.option("--reminders", metavar="URL", help="Redis whose old reminders are listed, for agents-scheduler.")
@click.option("--trust-pickles", is_flag=True, help="Read pickles, where the source is made of them.")
@click.option("--task-map", "task_map", multiple=True, metavar="MODULE:FUNCTION=TASK", help="Which task a function is.")
@click.pass_context
def import_(
    ctx: click.Context,
    /,
    source: str,
    location: str | None,
    write: bool,
    dry_run: bool,
    update: bool,
    store: str | None,
    prefix: str,
    as_json: bool,
    **said: Any,
) -> None:
    """Show, or carry out, an import."""
    from celery_parrot.cli.source import opened
    from celery_parrot.clock import SystemClock
    from celery_parrot.importers.sources import read
    from celery_parrot.importers.transfer import Action, carry_out, plan

    if write and dry_run:
        raise click.UsageError("Give --write or --dry-run, not both.")
    with opened(ctx) as here:
        found = read(source, _asked(source, location, said, ctx.obj.app))
        steps = plan(found, here.schedules, SystemClock().now(), store=store, prefix=prefix, update=update)
        if write:
            steps = carry_out(steps, here.schedules, _carry(here))
        unknown = _unknown(steps, ctx.obj.app)
        if as_json:
            show_json({**_as_json(source, found, steps, write), "unknown_tasks": unknown})
        else:
            _print(found, steps, write, here.zone, unknown)
    ctx.exit(1 if any(step.action is Action.FAILED for step in steps) else 0)


def _asked(source: str, location: str | None, said: Mapping[str, Any], app: Any) -> Asked:
    from celery_parrot.importers.apscheduler import Tasks
    from celery_parrot.importers.sources import Asked
    from celery_parrot.runtime.celery_schedules import zone_name

    named = {}
    for pair in said["task_map"]:
        function, equals, task = pair.partition("=")
        if not (function and equals and task):
            raise click.UsageError(f"--task-map {pair!r}: write MODULE:FUNCTION=TASK.")
        named[function] = task
    app.loader.import_default_modules()
    prefix = app.conf.get("redbeat_key_prefix") if source == "redbeat" else None
    optional = {
        "table": said["table"], "jobs_key": said["jobs_key"], "prefix": said["key_prefix"] or prefix,
    }  # fmt: skip
    return Asked(
        location=location or _default(source, app),
        zone=said["timezone"] or zone_name(app.timezone),
        schema=said["schema"] if said["schema"] is not None else _schema(source, app),
        reminders=said["reminders"],
        trust_pickles=said["trust_pickles"],
        tasks=Tasks(named, lambda name: name in app.tasks),
        **{name: value for name, value in optional.items() if value is not None},
    )


def _default(source: str, app: Any) -> str:
    """Where the settings of the source's own scheduler, or ours, say that it is."""
    setting = {
        "redbeat": "redbeat_redis_url", "sqlalchemy-celery-beat": "beat_dburi", "shelve": "beat_schedule_filename",
        "agents-scheduler": "parrot_database_url", "django-celery-beat": "parrot_database_url",
    }.get(source)  # fmt: skip
    found = None if setting is None else app.conf.get(setting)
    if not found and source == "redbeat":
        found = app.conf.broker_url
    if not found:
        raise click.UsageError(f"Say where the source is: import {source} LOCATION.")
    return str(found)


def _schema(source: str, app: Any) -> str | None:
    return app.conf.get("beat_schema") if source == "sqlalchemy-celery-beat" else None


def _carry(here: Source) -> Carry | None:
    """How run state is brought along, where there is a database for it."""
    if here.settings.database is None:
        return None
    from celery_parrot.clock import SystemClock
    from celery_parrot.stores.sql import make_engine
    from celery_parrot.stores.sql.foreign import carry

    address = here.settings.database

    def write(past: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        engine = make_engine(address.url, address.options)
        try:
            carry(engine, address.schema, SystemClock(), past)
        finally:
            engine.dispose()

    return write


# --- telling -------------------------------------------------------------------------------------------------------


def _unknown(steps: Sequence[Step], app: Any) -> list[str]:
    """Tasks that are to be scheduled and that this app does not have."""
    named = {step.fields["target"] for step in steps if step.fields and step.fields.get("kind", "task") == "task"}
    return sorted(name for name in named if name not in app.tasks)


def _print(found: Found, steps: Sequence[Step], written: bool, zone: tzinfo, unknown: Sequence[str]) -> None:
    from celery_parrot.importers.transfer import Action

    click.echo(f"From {found.where}:")
    good = [step for step in steps if step.action in (Action.CREATE, Action.UPDATE)]
    rows = [
        (
            step.name, _done(step.action) if written else step.action.value, step.store,
            step.fields["schedule_type"], "paused" if step.item.paused else "",
            instant(step.next[0] if step.next else None, zone),
        )
        for step in good
    ]  # fmt: skip
    show(["name", "", "store", "type", "state", "next due"], rows, empty="Nothing to create.")
    for title, actions in (
        ("Here already", (Action.EXISTS,)),
        ("Over", (Action.OVER,)),
        ("Not imported", (Action.CANNOT, Action.FAILED)),
    ):
        some = [step for step in steps if step.action in actions]
        if some:
            click.echo(f"\n{title}:")
            for step in some:
                name = step.name if step.fields else step.item.source_name
                click.echo(f"  {name}: {step.reason}." + (f" {step.fix.rstrip('.')}." if step.fix else ""))
    _list("Notes", [f"{step.name}: {note}" for step in good for note in step.notes])
    faults = Counter(fault for step in good for fault in step.item.faults)
    _list(
        "Known faults of the source, by which its due times may differ", [f"{n} × {text}" for text, n in faults.items()]
    )
    _list("Tasks that this app does not know; a worker must have them", unknown)
    _list("Seen and not moved", found.aside)
    counts = Counter(step.action for step in steps)
    if counts:
        click.echo(
            "\n" + ", ".join(f"{counts[action]} {_word(action, written)}" for action in Action if counts[action]) + "."
        )
    if good and not written:
        click.echo("Nothing was written. Add --write to create them; stop the old scheduler first.")


def _list(title: str, lines: Sequence[str]) -> None:
    if lines:
        click.echo(f"\n{title}:")
        for line in lines:
            click.echo(f"  {line}")


def _done(action: str) -> str:
    return {"create": "created", "update": "updated"}.get(action, action)


def _word(action: str, written: bool) -> str:
    words = {"create": "to create", "update": "to update", "exists": "here already", "cannot": "not mapped"}
    return _done(action) if written and action in ("create", "update") else words.get(action, action)


def _as_json(source: str, found: Found, steps: Sequence[Step], written: bool) -> dict[str, object]:
    counts = Counter(_done(step.action) if written else step.action.value for step in steps)
    return {
        "source": source,
        "where": found.where,
        "written": written,
        "counts": dict(counts),
        "items": [_step_json(step, written) for step in steps],
        "faults": sorted({fault for step in steps for fault in step.item.faults}),
        "aside": found.aside,
    }


def _step_json(step: Step, written: bool) -> dict[str, object]:
    fields = {name: value for name, value in step.fields.items() if name not in ("name", "store", "enabled")}
    return {
        "source_name": step.item.source_name,
        "name": step.name,
        "action": _done(step.action) if written else step.action.value,
        "store": step.store,
        "paused": step.item.paused,
        "fields": fields,
        "next": step.next,
        "notes": step.notes,
        "faults": step.item.faults,
        "differs": step.differs,
        "reason": step.reason or None,
        "fix": step.fix or None,
    }
