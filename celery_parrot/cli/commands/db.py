"""``db``: the tables of the db store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from celery_parrot.cli.lazy import LazyGroup
from celery_parrot.cli.output import show_json, verb

if TYPE_CHECKING:
    from celery_parrot.cli.source import Database

db = LazyGroup(
    "db",
    lazy={
        "upgrade": "celery_parrot.cli.commands.db:upgrade",
        "current": "celery_parrot.cli.commands.db:current",
        "check": "celery_parrot.cli.commands.db:check",
    },
    help="Make the tables of the database, or look whether they are there.",
)


@verb("upgrade")
@click.option("--revision", default="head", show_default=True, help="How far.")
@click.pass_context
def upgrade(ctx: click.Context, revision: str, as_json: bool) -> None:
    """Create the tables, or bring them up to this release.

    May be repeated, and may run in several places at once. Rows are kept.
    """
    database = _open(ctx)
    with database.told():
        before = database.current()
        database.upgrade(revision)
        after = database.current()
    if as_json:
        show_json({"before": before, "after": after, "head": database.head})
    elif before == after:
        click.echo(f"{database.where} is at {after} already.")
    else:
        click.echo(f"{database.where}: {before or 'no tables'} -> {after}")


@verb("current")
@click.pass_context
def current(ctx: click.Context, as_json: bool) -> None:
    """Show at which revision the tables are."""
    database = _open(ctx)
    with database.told():
        found = database.current()
    if as_json:
        show_json({"current": found, "head": database.head, "up_to_date": found == database.head})
    elif found is None:
        click.echo(f"{database.where} has no tables of celery-parrot. Make them: celery -A YOUR_APP parrot db upgrade")
    else:
        click.echo(found if found == database.head else f"{found} (this release brings {database.head})")


@verb("check")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Say whether this release can run on the tables as they are. Exit code 0 if so, else 1."""
    database = _open(ctx)
    with database.told():
        found, problems = database.current(), database.problems()
    if as_json:
        show_json({"ok": not problems, "problems": problems, "current": found, "head": database.head})
    elif problems:
        for problem in problems:
            click.echo(problem)
        click.echo("Mend it: celery -A YOUR_APP parrot db upgrade")
    else:
        click.echo(f"ok: {database.where} is at {found}")
    ctx.exit(1 if problems else 0)


def _open(ctx: click.Context) -> Database:
    from celery_parrot.cli.source import open_source

    return open_source(ctx).database
