"""``list``: the schedules of every store, and how they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from celery_parrot.cli.output import distance, show, show_json, verb
from celery_parrot.errors import printable

if TYPE_CHECKING:
    from datetime import datetime

    from celery_parrot.client import ScheduleView

_STATES = ("active", "paused", "disabled", "completed", "broken")
HELD: Final = ("paused", "disabled")
"""States in which a due time is only one that would be."""


@verb("list")
@click.option("--kind", help="Only schedules of this kind.")
@click.option("--store", type=click.Choice(["code", "db", "redis"]), help="Only schedules of this store.")
@click.option("--state", type=click.Choice(_STATES), help="Only schedules in this state.")
@click.option("--search", metavar="TEXT", help="Only those with this in their name or target.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@click.option("--after", default="", metavar="NAME", help="Begin after this name.")
@click.pass_context
def list_(
    ctx: click.Context,
    kind: str | None,
    store: str | None,
    state: str | None,
    search: str | None,
    limit: int,
    after: str,
    as_json: bool,
) -> None:
    """Show schedules by name: when they run, how they are, what came of the last fire.

    "next due" is in brackets for one that is paused or disabled: then it would be due, and is skipped.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.client import schedule_fields
    from celery_parrot.clock import SystemClock

    with opened(ctx) as source:
        source.must_be_shared()
        client = source.schedules
        if store is not None and store not in client.stores:
            raise click.ClickException(f"There is no {store} store here: there is {', '.join(client.stores)}.")
        page = client.find(kind=kind, store=store, state=state, text=search, after=after, limit=limit)
        found = [(view, client.describe(view)) for view in page]
        zone = str(source.zone)
    if as_json:
        show_json([schedule_fields(view, description) for view, description in found])
        return
    now = SystemClock().now()
    columns = ["name", "store", "when", "kind", "state", "last due", "next due", "outcome"]
    rows: list[tuple[object, ...]] = [
        (
            view.name,
            view.store,
            brief(description, zone) if description else view.broken_reason,
            view.kind,
            view.state.value,
            distance(last_due(view), now),
            next_due(view, now),
            view.run_state.last_status,
        )
        for view, description in found
    ]
    if len({view.store for view, _ in found}) < 2:  # one store is the usual case, and then a column less to read
        columns, rows = [columns[0], *columns[2:]], [(row[0], *row[2:]) for row in rows]
    show(columns, rows, empty=_nothing(kind, store, state, search, after))
    if page.after:
        click.echo(f"There are more: --after {page.after!r}, or --limit.", err=True)


def _nothing(kind: str | None, store: str | None, state: str | None, search: str | None, after: str) -> str:
    """With what was asked for: there may be others."""
    asked = {"kind": kind, "store": store, "state": state, "search": search, "after": after}
    given = " ".join(f"--{option} {printable(value)}" for option, value in asked.items() if value)
    return f"No schedules with {given}." if given else "No schedules."


def last_due(view: ScheduleView) -> datetime | None:
    """None if it never was.

    The mark moves on without a due time when a schedule is made (then it never was), resumed or changed (then: when its
    last fire was sent).
    """
    mark, sent = view.run_state.last_due, view.run_state.last_run
    made = None if view.store == "code" else view.created_at  # of the code: when this process read it
    if mark is None or sent is None or (made is not None and mark <= made):
        return None
    return min(mark, sent)


def next_due(view: ScheduleView, now: datetime) -> str:
    """``in 3 min``; in brackets where that is when it would be due, were it not held."""
    text = distance(view.next_run, now)
    return f"({text})" if text and view.state.value in HELD else text


def brief(sentence: str, zone: str) -> str:
    """The sentence of a trigger without what clock changes do to it, and without the app's own zone: ``next`` tells."""
    what, _, rest = sentence.rstrip(".").partition(" (")
    of = rest.rstrip(")").partition(",")[0]
    what = what.partition(", counted from ")[0]
    return what if of in ("", zone) else f"{what} ({of})"
