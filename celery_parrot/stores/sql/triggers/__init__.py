"""Triggers: whoever edits a row, beats learn of it, and the version grows.

What they do, the same on every database:

* INSERT: note the row in ``service_scheduler_change``.
* UPDATE of a definition column: ``version`` grows, ``updated_at`` is now, ``broken_reason`` goes.
* UPDATE of *when* (type, config, zone, bounds, treatment of clock changes) or of ``enabled``, or a resume: ``last_due``
  becomes now, ``next_run`` empty, and the row is noted with how it was, if something may have been undecided then.
* UPDATE that makes ``next_run`` to be computed anew (jitter, ``max_fires``, cleared by hand): noted.
* DELETE: its notes go.

On PostgreSQL a change is also announced on the channel ``parrot_{schema}``.
"""

from __future__ import annotations

from collections.abc import Callable

from celery_parrot.database.types import MYSQL, POSTGRESQL
from celery_parrot.stores.sql.triggers import mysql, postgresql, sqlite

Execute = Callable[[str], object]


def trigger_names(dialect: str) -> frozenset[str]:
    """The triggers that a complete installation has."""
    return frozenset(_module(dialect).NAMES)


def create_triggers(dialect: str, schema: str | None, execute: Execute) -> None:
    """Install them, in place of any earlier version. The tables exist. Colons are escaped, as ``text()`` wants."""
    for statement in _module(dialect).create(schema):
        execute(statement.replace(":", "\\:"))


def _module(dialect: str):  # type: ignore[no-untyped-def]
    if dialect == POSTGRESQL:
        return postgresql
    return mysql if dialect in MYSQL else sqlite
