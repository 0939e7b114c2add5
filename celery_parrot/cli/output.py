"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, tzinfo
from importlib.util import find_spec

import click

from celery_parrot.cli.lazy import Verb
from celery_parrot.errors import printable
from celery_parrot.model.plain import plain

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")

_MAY_FOLD = {"name": 12, "when": 14, "what": 14, "clock change": 14}
"""Columns whose text may be folded to fit the terminal, and how narrow they may become."""

_COLOURS = {
    "success": "green",
    "alive": "green",
    "ok": "green",
    "active": "green",
    "running": "cyan",
    "sent": "cyan",
    "pending": "yellow",
    "waiting": "yellow",
    "paused": "yellow",
    "skipped": "yellow",
    "missed": "red",
    "error": "red",
    "target_missing": "red",
    "abandoned": "red",
    "expired": "red",
    "disabled": "red",
    "broken": "red",
    "silent": "red",
}


def verb(name: str, help: str | None = None) -> Callable[[Callable[..., None]], click.Command]:
    """Make a function a command named ``name``, with ``--json`` and failures in one sentence."""

    def wrap(function: Callable[..., None]) -> click.Command:
        return click.command(name, cls=Verb, help=help)(json_option(function))

    return wrap


def show(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str) -> None:
    """Print a table; ``empty`` is what to say when it has no rows.

    On a terminal with rich that is a ruled, coloured table which fits the width. Anywhere else the columns are just
    aligned, one line a row and nothing cut, so that ``grep`` and ``cut`` work on it.
    """
    if not rows:
        click.echo(empty)
        return
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    if sys.stdout.isatty() and find_spec("rich") is not None:
        _show_rich(columns, cells)
    else:
        for line in aligned(columns, cells):
            click.echo(line)


def aligned(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Header and rows with two spaces between columns."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()

    return [line(row) for row in [columns, *rows]]


def _show_rich(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in columns:
        # Words may fold where a sentence stands; a time, a status or a name in pieces cannot be read.
        table.add_column(column, overflow="fold", no_wrap=column not in _MAY_FOLD, min_width=_MAY_FOLD.get(column))
    for row in rows:
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    Console().print(table)


def show_json(value: object) -> None:
    """Print ``value`` as JSON, indented; field names as in Python, instants in ISO 8601."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def instant(at: datetime | None, zone: tzinfo) -> str:
    """``2026-03-29 01:30:00 +01:00`` in ``zone``; milliseconds only where there are some; empty for None."""
    if at is None:
        return ""
    local = at.astimezone(zone)
    fraction = f".{local.microsecond // 1000:03d}" if local.microsecond else ""
    offset = local.strftime("%z")
    return f"{local:%Y-%m-%d %H:%M:%S}{fraction} {offset[:3]}:{offset[3:5]}"


def clock_time(at: datetime, zone: tzinfo) -> str:
    """As :func:`instant`, without the offset: for a column whose head names the zone."""
    return instant(at, zone)[:-7]


def distance(at: datetime | None, now: datetime) -> str:
    """``in 3 min`` or ``12 s ago``; empty for None."""
    if at is None:
        return ""
    ahead = (at - now).total_seconds()
    return f"in {seconds(ahead)}" if ahead >= 0 else f"{seconds(-ahead)} ago"


def seconds(value: float | None) -> str:
    """A duration as people read it: ``12 ms``, ``1.4 s``, ``3 min``."""
    if value is None:
        return ""
    size = abs(value)
    if size < 1:
        return f"{value * 1000:.0f} ms"
    if size < 120:
        return f"{value:.1f} s"
    if size < 7200:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if size < 172800 else f"{value / 86400:.0f} d"
