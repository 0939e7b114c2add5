"""``fires NAME``: what became of the latest due times of a schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from celery_parrot.cli.output import clock_time, seconds, show, show_json, verb

if TYPE_CHECKING:
    from datetime import tzinfo

    from celery_parrot.model.fire import FireRecord

_T = TypeVar("_T")


@verb("fires")
@click.argument("name")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 1000), help="How many.")
@click.pass_context
def fires(ctx: click.Context, name: str, limit: int, as_json: bool) -> None:
    """Show the latest fires of the schedule NAME, newest first."""
    from celery_parrot.cli.source import opened
    from celery_parrot.client import fire_fields

    with opened(ctx) as source:
        source.must_be_shared()
        found = source.schedules.fires(name, limit=limit)
    if as_json:
        show_json([fire_fields(record) for record in found])
        return
    columns = [f"due ({source.zone})", "status", "late", "took", "try", "beat", "worker", "what"]
    rows: list[Sequence[object]] = [_row(record, source.zone) for record in found]
    if all(record.attempt == 1 for record in found):  # the usual case, and then a column less to read
        columns, rows = _without(columns, 4), [_without(row, 4) for row in rows]
    show(columns, rows, empty=f"{name} has no fires yet.")


def _without(row: Sequence[_T], index: int) -> list[_T]:
    return [*row[:index], *row[index + 1 :]]


def _row(record: FireRecord, zone: tzinfo) -> tuple[object, ...]:
    late = (record.sent_at - record.due_at).total_seconds() if record.sent_at else None
    took = None
    if record.started_at and record.finished_at:
        took = (record.finished_at - record.started_at).total_seconds()
    return (
        clock_time(record.due_at, zone),
        str(record.status),
        seconds(late),
        seconds(took),
        record.attempt if record.sent_at else "",
        record.beat[:8],
        record.worker,
        _what(record),
    )


def _what(record: FireRecord) -> str:
    """The one thing that is worth a column: the range, why not, the error, or the result."""
    text = record.error or record.output or ""
    if record.reason and record.reason not in text:
        text = f"{record.reason}: {text}" if text else record.reason
    if record.until is not None:
        text = f"{record.count} due times until {record.until:%H:%M:%S} UTC ({text})"
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"
