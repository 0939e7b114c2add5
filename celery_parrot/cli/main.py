"""The console script ``celery-parrot``."""

from __future__ import annotations

import click

from celery_parrot.__about__ import __version__
from celery_parrot.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={"demo": "celery_parrot.cli.demo.command:demo"},
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The verbs for your own schedules are in Celery's command: celery -A YOUR_APP parrot --help",
)
@click.version_option(__version__, prog_name="celery-parrot")
def main() -> None:
    """A Celery beat scheduler in which every beat is active."""
