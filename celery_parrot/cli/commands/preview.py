"""``preview``: when a schedule that nobody has saved yet would be due."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from celery_parrot.cli.output import instant, seconds, show, show_json, verb

if TYPE_CHECKING:
    from celery_parrot.triggers import Occurrence

_HELP = """Show when a schedule would be due. Saves nothing.

TYPE is a schedule type; SPEC its expression, or its config as JSON. Due times that a clock change moves, repeats or
drops are marked.

\b
Examples:
  preview cron "30 2 * * mon-fri" --tz Europe/Madrid
  preview cron "*/10 * * * * *"           six fields: the first is seconds
  preview interval 90s                    also 15m, 1h30m, 2 days
  preview daily 9:30                      also 9:30:15
  preview weekly "mon,thu 9:30"
  preview monthly "1,-1 9:30"             -1: the last day
  preview once 2030-01-01T09:00
  preview rrule "FREQ=WEEKLY;BYDAY=MO,WE"
  preview random_within_window '{"start_hour": 9, "end_hour": 17, "fires_per_day": 4}'
"""


@verb("preview", help=_HELP)
@click.argument("schedule_type", metavar="TYPE")
@click.argument("spec", metavar="SPEC")
@click.option("--tz", "timezone", help="Time zone, such as Europe/Madrid.  [default: the app's]")
@click.option("--count", default=5, show_default=True, type=click.IntRange(1, 1000), help="How many due times.")
@click.option("--from", "start", type=click.DateTime(), help="Show those after this local time.  [default: now]")
@click.pass_context
def preview(
    ctx: click.Context,
    schedule_type: str,
    spec: str,
    timezone: str | None,
    count: int,
    start: object,
    as_json: bool,
) -> None:
    """Print the next due times of ``schedule_type`` and ``spec``."""
    from datetime import datetime

    from celery_parrot.cli.spec import read_spec
    from celery_parrot.client import occurrence_fields
    from celery_parrot.clock import SystemClock
    from celery_parrot.triggers import SCHEDULE_TYPES, build
    from celery_parrot.triggers import preview as occurrences
    from celery_parrot.triggers.zones import zone as zone_named

    if schedule_type not in SCHEDULE_TYPES:
        from celery_parrot.cli.lazy import closest

        raise click.UsageError(f"There is no schedule type {schedule_type!r}. {closest(schedule_type, SCHEDULE_TYPES)}")
    zone_name = timezone or app_zone(ctx)
    now = SystemClock().now()
    trigger = build(
        schedule_type, read_spec(schedule_type, spec), schedule_id="preview", created_at=now, timezone=zone_name
    )
    zone = zone_named(zone_name).info  # an IANA name or a fixed offset, as in a definition
    after = start.replace(tzinfo=zone) if isinstance(start, datetime) else now
    found = occurrences(trigger, after, count)
    if as_json:
        show_json([occurrence_fields(occurrence) for occurrence in found])
        return
    click.echo(trigger.describe())
    rows = [
        (instant(each.due_at, zone), seconds((each.due_at - after).total_seconds()), remark(each)) for each in found
    ]
    columns = 3 if any(row[2] for row in rows) else 2
    show(
        ["due", "in", "clock change"][:columns],
        [row[:columns] for row in rows],
        empty=f"Nothing is due after {instant(after, zone)}.",
    )


def app_zone(ctx: click.Context) -> str:
    """The app's time zone, UTC where there is no app."""
    from celery_parrot.runtime.celery_schedules import zone_name

    app = getattr(ctx.obj, "app", None)
    return "UTC" if app is None else zone_name(app.timezone)


def remark(occurrence: Occurrence) -> str:
    """What a clock change does to it, in words; empty mostly."""
    reading = f"{occurrence.reading:%H:%M:%S}".removesuffix(":00")
    match occurrence.mark:
        case "moved":
            return f"moved: {reading} does not exist that day"
        case "repeated":
            return f"{reading} is shown twice that day"
        case "dropped":
            return f"not due: {occurrence.count} from {reading} on" if occurrence.count > 1 else f"not due: {reading}"
    return ""
