"""Names of schedules for the completion of a shell."""

from __future__ import annotations

from typing import Any

import click

_MOST = 50


def schedule_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names that begin with what was typed. None at all rather than an error: a shell shows whatever comes."""
    try:
        return _names(ctx, incomplete)
    except Exception:  # no app, no server, bad settings: there is nobody to tell
        return []


def _names(ctx: click.Context, incomplete: str) -> list[str]:
    import logging

    from celery.app.utils import find_app

    from celery_parrot.cli.source import Source
    from celery_parrot.client.closest import before

    logging.getLogger("celery_parrot").addHandler(logging.NullHandler())
    wanted: Any = ctx.find_root().params.get("app")
    source = Source(find_app(wanted) if isinstance(wanted, str) else wanted)
    try:
        page = source.schedules.find(after=before(incomplete), limit=_MOST)
    finally:
        source.close()
    return [view.name for view in page if view.name.startswith(incomplete)]
