"""``doctor``: what is wrong, or may become so."""

from __future__ import annotations

import click

from celery_parrot.cli.output import show_json, verb
from celery_parrot.errors import printable

_COLOURS = {"ok": "green", "warning": "yellow", "error": "red"}


@verb("doctor")
@click.pass_context
def doctor(ctx: click.Context, as_json: bool) -> None:
    """Look for what is wrong: settings, connections, clocks, keys, tables, kinds, tasks, overdue schedules.

    Exit code 1 if there is an error; warnings alone leave it 0. Workers are asked over the broker, for a second.
    """
    from celery_parrot.cli.diagnosis import diagnose, unusable
    from celery_parrot.cli.source import open_source
    from celery_parrot.errors import ConfigurationError

    found = []
    try:
        source = open_source(ctx)
    except ConfigurationError as error:
        found.append(unusable(error))
        if not as_json:
            _show(found[0].level, found[0].check, found[0].text)
    else:
        try:
            for finding in diagnose(source):
                found.append(finding)
                if not as_json:
                    _show(finding.level, finding.check, finding.text)
        finally:
            source.close()
    if as_json:
        show_json(found)
    ctx.exit(1 if any(finding.level == "error" for finding in found) else 0)


def _show(level: str, check: str, text: str) -> None:
    click.echo(f"{click.style(level.ljust(7), fg=_COLOURS[level])}  {check.ljust(9)}  {printable(text)}")
