"""``health``: one answer for a probe, in under a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from celery_parrot.cli.output import show_json, verb

if TYPE_CHECKING:
    from celery_parrot.cli.source import Source
    from celery_parrot.client import Health

_PATIENCE = 0.4
"""Seconds until a coordinator that does not answer counts as out of reach: with the time that Python and Celery take to
start, the whole stays under a second."""


@verb("health")
@click.option(
    "--timeout",
    default=_PATIENCE,
    show_default=True,
    type=click.FloatRange(min=0.05),
    help="Seconds to wait for the coordinator.",
)
@click.pass_context
def health(ctx: click.Context, timeout: float, as_json: bool) -> None:
    """Say whether this scheduler is beating. Exit code 0 if so, else 1.

    Needs no worker. Not healthy: no beat is alive, the coordinator cannot be reached, or a store has been out of reach
    of a living beat for 30 s.
    """
    from celery_parrot.cli.source import open_source

    source = open_source(ctx)
    found = ask(source, timeout)
    if as_json:
        show_json(found)
    elif found.healthy:
        number = "1 beat is" if found.beats_alive == 1 else f"{found.beats_alive} beats are"
        click.echo(f"ok: {number} alive, {found.coordinator} answers{_noted(found.failing)}")
    else:
        click.echo(f"not healthy: {found.reason}")
    ctx.exit(0 if found.healthy else 1)


def ask(source: Source, patience: float = _PATIENCE) -> Health:
    """Ask the coordinator for its beats, and wait for at most ``patience`` seconds.

    In a thread, because a server that accepts connections and says nothing would hold us for as long as its client's
    own time limits; the thread is a daemon and dies with the command.
    """
    from threading import Thread

    from celery_parrot.cli.lazy import in_a_sentence
    from celery_parrot.client import Health
    from celery_parrot.errors import Unreachable
    from celery_parrot.runtime.reach import out_of_reach

    answers: list[Health] = []

    def look() -> None:
        try:
            answers.append(source.coordination.health())
        except Exception as error:
            reason = out_of_reach(source.settings, error) if isinstance(error, Unreachable) else in_a_sentence(error)
            answers.append(Health(healthy=False, coordinator=source.where, reason=reason.rstrip(".")))

    thread = Thread(target=look, daemon=True)
    thread.start()
    thread.join(patience)
    if answers:
        return answers[0]
    reason = f"{source.where} did not answer within {patience:g} s"
    return Health(healthy=False, coordinator=source.where, reason=reason)


def _noted(failing: Mapping[str, float]) -> str:
    return "".join(f"; store {store} out of reach for {seconds:.0f} s" for store, seconds in sorted(failing.items()))
