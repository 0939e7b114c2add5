"""``beats``: who is beating."""

from __future__ import annotations

from datetime import datetime

import click

from celery_parrot.cli.output import plain, seconds, show, show_json, verb
from celery_parrot.model.state import Beat


@verb("beats")
@click.pass_context
def beats(ctx: click.Context, as_json: bool) -> None:
    """Show the beats of this scheduler, and whether they are alive.

    A beat that has been silent for an hour is forgotten.
    """
    from celery_parrot.cli.source import opened

    with opened(ctx) as source:
        found, now = source.beats()
        limit = source.heartbeat
    states = ["alive" if is_alive(beat, now, limit) else "silent" for beat in found]
    if as_json:
        show_json([{**plain(beat), "state": state} for beat, state in zip(found, states, strict=True)])
        return
    show(
        ["state", "host", "pid", "version", "up for", "last seen", "clock off", "tzdata", "owner"],
        [
            (
                state,
                beat.host,
                beat.pid,
                beat.version,
                seconds((now - beat.started).total_seconds()),
                f"{seconds((now - beat.seen).total_seconds())} ago",
                seconds(beat.skew),
                beat.tzdata,
                beat.owner[:8],
            )
            for beat, state in zip(found, states, strict=True)
        ],
        empty=f"No beat of {source.name} is known. Start one: celery -A YOUR_APP beat -S parrot",
    )


def is_alive(beat: Beat, now: datetime, heartbeat: float) -> bool:
    """Whether its last sign of life is young enough, by the coordinator's clock."""
    return (now - beat.seen).total_seconds() <= heartbeat
