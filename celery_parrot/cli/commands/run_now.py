"""``run-now NAME``: have a schedule run once, now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.output import seconds, show_json, verb

if TYPE_CHECKING:
    from celery_parrot.client import Asked, Schedules
    from celery_parrot.model.fire import FireRecord

_LOOK: Final = 0.1


@verb("run-now")
@click.argument("name", shell_complete=schedule_names)
@click.option("--args", metavar="JSON", help="A list, in place of the schedule's.")
@click.option("--kwargs", metavar="JSON", help="An object, in place of the schedule's.")
@click.option("--key", metavar="TEXT", help="An idempotency key: asked again with it, it is the same fire.")
@click.option("--version", type=int, metavar="N", help="Refuse if it has another by now; show tells it.")
@click.option("--wait", is_flag=True, help="Wait for its outcome; the exit code is 0 if that is a success.")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Wait no longer than that.")
@click.pass_context
def run_now(
    ctx: click.Context,
    name: str,
    args: str | None,
    kwargs: str | None,
    key: str | None,
    version: int | None,
    wait: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Have the schedule NAME run once, now, whatever its due times.

    Paused, disabled and completed ones too. Refused while one that was asked for before is on its way.
    """
    from celery_parrot.cli.fields import given
    from celery_parrot.cli.source import opened
    from celery_parrot.client import fire_fields

    if timeout is not None and not wait:
        raise click.UsageError("--timeout goes with --wait.")
    fields = given({"args": args, "kwargs": kwargs})
    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        asked = client.run_now(name, args=fields.get("args"), kwargs=fields.get("kwargs"), key=key, version=version)
        if not as_json:
            before = " (asked for before)" if asked.again else ""
            click.echo(f"{asked.name}: fire {asked.fire_id} is on its way{before}.")
        record = _outcome(client, asked, timeout) if wait else None
    if as_json:
        show_json(asked if record is None else fire_fields(record))
    elif record is not None:
        click.echo(f"{asked.name}: {_words(record)}.")
    if record is not None and record.status != "success":
        ctx.exit(1)


def _outcome(client: Schedules, asked: Asked, timeout: float | None) -> FireRecord:
    """Its history entry once it has ended. Raises ClickException if that takes too long."""
    from celery_parrot.clock import SystemClock

    clock = SystemClock()
    until = None if timeout is None else clock.monotonic() + timeout
    pause, seen = _LOOK, "on its way"
    try:
        while True:
            record = _entry(client, asked)
            if record is not None and record.status.terminal:
                return record
            seen = seen if record is None else str(record.status)
            if until is not None and clock.monotonic() >= until:
                raise click.ClickException(f"After {timeout:g} s it is still {seen}; it goes on.")
            clock.sleep(pause)
            pause = min(pause * 1.5, 1.0)
    except KeyboardInterrupt:
        raise click.ClickException(f"No longer waited for; it is {seen} and goes on.") from None


def _entry(client: Schedules, asked: Asked) -> FireRecord | None:
    from datetime import timedelta

    records = client.fires(asked.schedule_id, limit=20, before=asked.due_at + timedelta(microseconds=1))
    return next((record for record in records if record.fire_id == asked.fire_id), None)


def _words(record: FireRecord) -> str:
    took = ""
    if record.started_at is not None and record.finished_at is not None:
        took = f" after {seconds((record.finished_at - record.started_at).total_seconds())}"
    text = record.error or record.output or record.reason
    return f"{record.status}{took}" + (f": {' '.join(text.split())}" if text else "")
