"""A database with the store's tables, clients of the store, and a plain SQL client beside them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, text

from celery_parrot.clock import SystemClock
from celery_parrot.stores.sql import SqlStore, make_engine, upgrade
from celery_parrot.testing.conformance.row_store import HISTORY_LIMIT, NAMESPACE
from tests.support.databases import own_mysql, own_postgresql

_CENTURY = 100 * 365 * 86_400.0

DIALECTS = ("postgresql", "mysql", "sqlite")

TABLES = [f"service_scheduler{tail}" for tail in ("", "_fire", "_change", "_outcome", "_owed")]


class SqlDatabase:
    """One empty database. Its clock cannot be moved: :meth:`advance` makes what is stored older instead."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine: Engine = make_engine(url)
        upgrade(url)
        self._stores: list[SqlStore] = []

    @property
    def dialect(self) -> str:
        return self.engine.dialect.name

    def store(self, **settings: Any) -> SqlStore:
        """A client with an engine and a cache of its own."""
        given = {"history_limit": HISTORY_LIMIT, "namespace": NAMESPACE, "clock": SystemClock(), **settings}
        self._stores.append(SqlStore(self.url, **given))
        return self._stores[-1]

    def sync(self, store: Any) -> None:
        """The marks are in the rows."""

    def now(self) -> datetime:
        return SqlStore(self.engine).now()

    def sql(self, statement: str, **values: Any) -> Sequence[Any]:
        """What a plain client would run, in a transaction of its own; the rows, if there are any."""
        with self.engine.begin() as connection:
            result = connection.execute(text(statement), values)
            return result.all() if result.returns_rows else []

    def shifted(self, column: str, seconds: float) -> str:
        """SQL for an instant column, some seconds earlier."""
        micros = round(seconds * 1_000_000)
        return {
            "postgresql": f"{column} - interval '{micros} microseconds'",
            "mysql": f"{column} - INTERVAL {micros} MICROSECOND",
            "sqlite": f"strftime('%Y-%m-%d %H\\:%M\\:', {column}, '{-seconds:.3f} seconds') || "
            f"substr(strftime('%f', {column}, '{-seconds:.3f} seconds'), 1, 6) || substr({column}, 24)",
        }[self.dialect]

    def advance(self, seconds: float) -> None:
        """Shift every stamp that decides anything."""
        # The id of an entry is made of its due time, which is about to be another.
        self.sql("UPDATE service_scheduler_fire SET fire_id = NULL WHERE finished_at IS NOT NULL")
        for table, columns in {
            "service_scheduler": ("created_at", "last_due", "next_run"),
            "service_scheduler_fire": ("due_at", "until"),
            "service_scheduler_change": ("changed_at", "old_created_at", "old_mark"),
        }.items():
            # By way of another century, lest a row steps on the key of its neighbour.
            for step in (seconds + _CENTURY, -_CENTURY) if table == "service_scheduler_fire" else (seconds,):
                sets = ", ".join(f"{column} = {self.shifted(column, step)}" for column in columns)
                self.sql(f"UPDATE {table} SET {sets}")

    def spoil(self, schedule_id: str) -> None:
        self._set_config(schedule_id, '{"seconds": "monkey"}')

    def mend(self, schedule_id: str) -> None:
        self._set_config(schedule_id, '{"seconds": 60}')

    def _set_config(self, schedule_id: str, config: str) -> None:
        cast = "CAST(:config AS JSONB)" if self.dialect == "postgresql" else ":config"
        self.sql(
            f"UPDATE service_scheduler SET schedule_config = {cast} WHERE schedule_id = :id",
            config=config,
            id=schedule_id,
        )

    def clear(self) -> None:
        """As new."""
        for store in self._stores:
            store.close()
        self._stores.clear()
        for table in TABLES:
            self.sql(f"DELETE FROM {table}")

    def close(self) -> None:
        for store in self._stores:
            store.close()
        self.engine.dispose()


@contextlib.contextmanager
def empty_url(dialect: str, folder: Path) -> Iterator[str]:
    """The URL of an empty database of this kind, dropped afterwards."""
    if dialect == "sqlite":
        yield f"sqlite:///{folder / 'store.sqlite3'}"
        return
    with own_postgresql() if dialect == "postgresql" else own_mysql() as url:
        yield url


class SharedDatabases:
    """One database of each kind for a whole module: migrating takes longer than most tests."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = contextlib.ExitStack()
        self._databases: dict[str, SqlDatabase] = {}

    def get(self, dialect: str) -> SqlDatabase:
        """That database, emptied."""
        if dialect not in self._databases:
            url = self._open.enter_context(empty_url(dialect, self._folder))
            database = self._databases[dialect] = SqlDatabase(url)
            self._open.callback(database.close)
        self._databases[dialect].clear()
        return self._databases[dialect]

    def close(self) -> None:
        self._open.close()
