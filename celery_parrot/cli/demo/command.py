"""The command ``celery-parrot demo``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from celery_parrot.cli.lazy import Verb

if TYPE_CHECKING:
    from celery_parrot.cli.demo.count import Count


@click.command("demo", cls=Verb)
@click.option("--for", "seconds", type=click.FloatRange(min=1), metavar="SECONDS", help="End by itself after so long.")
@click.option("--redis-url", metavar="URL", help="Use this server instead of starting one.")
@click.option("--no-flower", is_flag=True, help="Do without Flower.")
@click.option("--port", type=click.IntRange(1, 65535), help="The port of Flower.  [default: a free one]")
@click.option("--json", "as_json", is_flag=True, help="Print the count as JSON; all else goes to stderr.")
def demo(seconds: float | None, redis_url: str | None, no_flower: bool, port: int | None, as_json: bool) -> None:
    """Two beats, a worker and Flower on this machine, and one beat killed half-way.

    Starts its own Valkey server, runs a dozen schedules of different types and shows every fire, until Ctrl-C or for
    SECONDS. Then it counts, from the schedules themselves, from the history and from what the tasks say, and ends with
    exit code 0 only if the three agree. No process and no file is left.
    """
    # Imported here: `celery-parrot --help` needs none of it.
    from celery_parrot.cli.demo.errors import DemoError
    from celery_parrot.cli.demo.interrupts import Interrupted, InterruptibleClock
    from celery_parrot.cli.demo.run import run
    from celery_parrot.cli.demo.screen import make_screen
    from celery_parrot.cli.demo.stage import Options

    stream = sys.stderr if as_json else sys.stdout
    options = Options(seconds=seconds, redis_url=redis_url, flower=not no_flower, port=port)
    try:
        with InterruptibleClock() as clock, make_screen(stream) as screen:
            result, late = run(options, clock, screen)
    except Interrupted:
        click.echo("Stopped. Nothing is left behind.", err=True)
        raise SystemExit(130) from None
    except DemoError as error:  # laid out for a terminal: a log's end, or what to type
        raise click.ClickException(str(error)) from None
    _report(result, late, as_json)
    raise SystemExit(0 if result.agrees else 1)


def _report(result: Count, late: tuple[float, float] | None, as_json: bool) -> None:
    """What came out; the line that counts comes last."""
    if as_json:
        from celery_parrot.cli.output import show_json

        lateness = {"p50": late[0], "p99": late[1]} if late else None
        show_json({**result.as_json(), "lateness_seconds": lateness})
        return
    if late:
        click.echo(f"Sent after the due time: half within {late[0] * 1000:.0f} ms, 99% within {late[1] * 1000:.0f} ms.")
    if result.failing_due:
        counts = f"{result.failing_due} due, {result.failing_failed} failed"
        click.echo(f"fails-at-times, which fails on purpose, is counted apart ({counts}).")
    for problem in result.problems[:20]:
        click.echo(f"Does not agree: {problem}.")
    if len(result.problems) > 20:
        click.echo(f"... and {len(result.problems) - 20} more.")
    click.echo(result.line())
