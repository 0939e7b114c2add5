"""``beats``: who is beating."""

from __future__ import annotations

import click

from celery_parrot.cli.output import seconds, show, show_json, verb


@verb("beats")
@click.pass_context
def beats(ctx: click.Context, as_json: bool) -> None:
    """Show the beats of this scheduler, and whether they are alive.

    A beat that has been silent for an hour is forgotten.
    """
    from celery_parrot.cli.source import opened

    with opened(ctx) as source:
        found, now = source.coordination.beats()
    if as_json:
        show_json(found)
        return
    show(
        ["state", "host", "pid", "version", "up for", "last seen", "claims/s", "clock off", "tzdata", "owner"],
        [
            (
                beat.state,
                beat.host,
                beat.pid,
                beat.version,
                seconds((now - beat.started).total_seconds()),
                f"{seconds((now - beat.seen).total_seconds())} ago",
                f"{beat.claims:g}",
                seconds(beat.skew),
                beat.tzdata,
                beat.owner[:8],
            )
            for beat in found
        ],
        empty=f"No beat of {source.name} is known. Start one: celery -A YOUR_APP beat -S parrot",
    )
