"""A real database as a backend of the conformance suites."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Engine

from celery_parrot.coordination.sql import SqlCoordinator
from celery_parrot.database.engine import make_engine
from celery_parrot.model.fire import Namespace
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import TIMING
from tests.integration.stores_sql.database import SqlDatabase

TABLES = [
    f"service_scheduler_{name}"
    for name in ("space", "claim", "turn", "hold", "state", "entry", "carry", "parcel", "beat")
]


class _Moved(SqlCoordinator):
    """The database's clock stands still, so that a busy machine ages nobody."""

    stands_at: FakeClock

    def server_now(self, row: Any) -> datetime:
        super().server_now(row)
        return self.stands_at.now()


class SqlBackend:
    """A database with a clock that can be moved."""

    def __init__(self, database: SqlDatabase, engine: Engine) -> None:
        self._db, self._engine = database, engine
        self._clock = FakeClock()
        self.advance = self._clock.advance
        self.flush()

    def client(self, name: str = "conformance") -> SqlCoordinator:
        made = _Moved(self._engine, Namespace(name), TIMING)
        made.stands_at = self._clock
        return made

    def flush(self) -> None:
        with self._db.engine.begin() as connection:
            for table in TABLES:
                connection.exec_driver_sql(f"DELETE FROM {table}")

    def change_server(self) -> None:
        self._db.sql("UPDATE service_scheduler_space SET made_on = 'another'")


class Engines:
    """One engine a database for a whole module: to connect takes longer than most tests."""

    def __init__(self) -> None:
        self._made: dict[str, Engine] = {}

    def backend(self, database: SqlDatabase) -> SqlBackend:
        """A backend on that database, empty."""
        if database.url not in self._made:
            self._made[database.url] = make_engine(database.url, {"pool_size": 25})
        return SqlBackend(database, self._made[database.url])

    def close(self) -> None:
        for engine in self._made.values():
            engine.dispose()
