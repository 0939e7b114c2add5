"""``backfill NAME``: fire the due times that did not fire."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from celery_parrot.cli.completion import schedule_names
from celery_parrot.cli.output import instant, show_json, verb

if TYPE_CHECKING:
    from datetime import tzinfo

    from celery_parrot.client import Backfill

_INTERRUPTED = 130
_OPTIONS = {"start": "--from", "end": "--to"}


@verb("backfill")
@click.argument("name", shell_complete=schedule_names)
@click.option("--from", "start", required=True, metavar="INSTANT", help="The first due time, e.g. 2026-03-01T06:00.")
@click.option(
    "--to", "end", metavar="INSTANT", help="The last; a day alone is all of it.  [default: the latest decided]"
)
@click.option("--dry-run", is_flag=True, help="Only show which would fire.")
@click.option("--max-active", type=click.IntRange(min=1), default=1, show_default=True, help="So many at once at most.")
@click.option("--reverse", is_flag=True, help="The latest first.")
@click.option("--force", is_flag=True, help="Also what is older than the history, of which nobody knows.")
@click.pass_context
def backfill(
    ctx: click.Context,
    name: str,
    start: str,
    end: str | None,
    dry_run: bool,
    max_active: int,
    reverse: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Fire each due time of the schedule NAME that was missed or skipped, or that nobody decided.

    Both ends are included. Ctrl-C stops asking for more; what was asked for goes on, and the same command goes on where
    it stopped. The exit code is 0 if all succeeded.
    """
    from celery_parrot.cli.source import opened
    from celery_parrot.errors import InvalidSchedule

    latest: list[Backfill] = []
    with opened(ctx) as source, _shown(quiet=as_json or dry_run) as show:

        def progress(state: Backfill) -> None:
            latest[:] = [state]
            show(state)

        source.must_be_shared()
        stopped = False
        try:
            state = source.schedules.backfill(
                name, start, end, dry_run=dry_run, max_active=max_active, reverse=reverse, force=force,
                progress=progress,
            )  # fmt: skip
        except KeyboardInterrupt:
            if not latest:
                raise
            state, stopped = latest[0], True
        except InvalidSchedule as error:
            raise InvalidSchedule(_OPTIONS.get(error.field, error.field), error.value, error.reason) from None
        zone = source.zone
    if as_json:
        show_json(state)
    else:
        _summary(state, zone, stopped)
    if stopped:
        ctx.exit(_INTERRUPTED)
    if set(state.outcomes) - {"success"}:
        ctx.exit(1)


def _summary(state: Backfill, zone: tzinfo, stopped: bool) -> None:
    if state.dry_run:
        for at in state.due_times:
            click.echo(instant(at, zone))
        click.echo(_plan(state))
        return
    if not state.due_times:
        click.echo(_plan(state))
        return
    left = [f"{state.left_out} fired meanwhile"] if state.left_out else []
    ended = [f"{count} {status}" for status, count in sorted(state.outcomes.items())]
    click.echo(f"{state.name}: {', '.join([*ended, *left]) or 'nothing has ended'}.")
    if stopped:
        rest = len(state.due_times) - state.asked
        click.echo(
            f"Stopped: {len(state.active)} on their way go on, {rest} were not asked for. The same command continues."
        )


def _plan(state: Backfill) -> str:
    if state.end is None:
        return f"{state.name}: nothing of that is decided yet; it is the schedule's own."
    total = len(state.due_times) + state.fired
    return f"{state.name}: {len(state.due_times)} of {total} due times to fire, {state.fired} have fired."


# --- how far it has come ---


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Callable[[Backfill], None]]:
    """A bar on a terminal with rich; else a line whenever one has ended."""
    if quiet:
        yield lambda _: None
    elif sys.stdout.isatty() and find_spec("rich") is not None:
        with _bar() as show:
            yield show
    else:
        yield _Lines()


class _Lines:
    def __init__(self) -> None:
        self._ended = -1

    def __call__(self, state: Backfill) -> None:
        if self._ended < 0 and state.due_times:  # else that is all there is to say in the end
            click.echo(_plan(state))
        self._ended = max(self._ended, 0)
        if state.ended != self._ended:
            self._ended = state.ended
            click.echo(f"{state.ended} of {len(state.due_times)} ended, {len(state.active)} on their way")


@contextmanager
def _bar() -> Iterator[Callable[[Backfill], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as bar:
        task = bar.add_task("", total=None)

        def show(state: Backfill) -> None:
            text = f"{state.name}: {len(state.active)} on their way"
            bar.update(task, description=text, total=len(state.due_times), completed=state.ended)

        yield show
