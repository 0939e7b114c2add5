"""What the person at the terminal sees: a live table, or plain lines where there is no terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Protocol, Self

from celery_parrot.cli.demo.watch import Watch
from celery_parrot.model.fire import FireRecord

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

COLUMNS = ("due", "schedule", "status", "late", "beat", "worker")
_STYLES = {
    "success": "green",
    "error": "red",
    "running": "cyan",
    "sent": "cyan",
    "retrying": "yellow",
    "pending": "yellow",
    "missed": "bold red",
    "skipped": "yellow",
}


@dataclass(frozen=True, slots=True)
class Process:
    """One of the demo's processes, for the line of their states."""

    name: str
    state: str
    good: bool


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything there is to show at one moment."""

    heading: str
    processes: Sequence[Process]
    watch: Watch


class Screen(AbstractContextManager["Screen"], Protocol):
    """Shows what happens."""

    def note(self, text: str) -> None:
        """Something to know, in its own line, now."""
        ...

    def update(self, picture: Picture, changed: Sequence[FireRecord]) -> None:
        """The state of affairs, a few times a second."""
        ...


def make_screen(stream: IO[str]) -> Screen:
    """A live one if ``stream`` is a terminal and rich is installed."""
    if stream.isatty() and find_spec("rich") is not None:
        return LiveScreen(stream)
    return PlainScreen(stream)


class PlainScreen(Screen):
    """One line for each note and for each fire that ends."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout
        self._headed = False

    def __exit__(self, *exc: object) -> None:
        return None

    def note(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def update(self, picture: Picture, changed: Sequence[FireRecord]) -> None:
        for record in changed:
            if record.status.terminal:
                if not self._headed:
                    self._headed = True
                    self.note(_line(COLUMNS))
                self.note(_line(picture.watch.row(record)))


def _line(cells: Sequence[str]) -> str:
    due, name, status, late, beat, worker = cells
    return f"{due:<8}  {name:<15}  {status:<8}  {late:>7}  {beat:<6}  {worker}".rstrip()


class LiveScreen(Screen):
    """A table of the latest fires that is drawn anew in place, notes above it."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=stream, highlight=False)
        self._live = Live(console=self._console, auto_refresh=False, transient=False)
        self._started = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._started:
            self._live.stop()

    def note(self, text: str) -> None:
        from rich.text import Text

        self._console.print(Text(text))

    def update(self, picture: Picture, changed: Sequence[FireRecord]) -> None:
        if not self._started:
            self._live.start()
            self._started = True
        self._live.update(self._draw(picture), refresh=True)

    def _draw(self, picture: Picture) -> Group:
        from rich.console import Group
        from rich.text import Text

        # What is not the table: heading, processes, blank lines, the table's head and rule, notes above it.
        rows = max(3, min(20, self._console.height - 13))
        return Group(Text(""), Text(picture.heading, style="bold"), _states(picture), _table(picture.watch, rows))


def _states(picture: Picture) -> Text:
    from rich.text import Text

    line = Text()
    for process in picture.processes:
        last = process is picture.processes[-1] and process.state.startswith("http")
        line.append("\n" if last else "")  # an address in a line of its own: it is long, and must stay in one piece
        line.append(f"{'●' if process.good else '✖'} {process.name} ", style="green" if process.good else "bold red")
        line.append(f"{process.state}   ", style="" if process.good else "red")
    return line


def _table(watch: Watch, rows: int) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    options: dict[str, dict[str, Any]] = {"late": {"justify": "right"}, "schedule": {"min_width": 15}}
    for column in COLUMNS:
        table.add_column(column, no_wrap=True, **options.get(column, {}))
    for record in watch.recent(rows):
        cells = watch.row(record)
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "") if i == 2 else "") for i, cell in enumerate(cells)))
    return table
