"""The store's database: its connections and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Engine, MetaData

from celery_parrot.clock import Clock
from celery_parrot.database.engine import Database as AnyDatabase
from celery_parrot.database.engine import make_engine, masked
from celery_parrot.stores.sql.tables import tables

__all__ = ["Database", "make_engine", "masked"]


class Database(AnyDatabase):
    """A :class:`~celery_parrot.database.engine.Database` with the tables of the store."""

    def __init__(
        self, target: str | Engine, clock: Clock, *, schema: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(target, clock, schema=schema, options=options)
        made = tables(MetaData(), schema)
        self.schedules, self.fires, self.changes = made.schedules, made.fires, made.changes
        self.outcomes, self.owed = made.outcomes, made.owed
