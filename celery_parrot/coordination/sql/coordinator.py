"""The coordinator in a database: the rules, in one transaction a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, MetaData, Row, text

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.coordination.rules.face import RulesCoordinator
from celery_parrot.coordination.rules.space import Space
from celery_parrot.coordination.sql.link import Link
from celery_parrot.coordination.sql.space import SqlSpace
from celery_parrot.coordination.sql.tables import tables
from celery_parrot.database.bulk import insert_absent
from celery_parrot.database.types import POSTGRESQL, SQLITE, as_instant
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Timing

T = TypeVar("T")

_NOWHERE: Final = "database"
"""The identity of a server that tells none."""


class SqlCoordinator(RulesCoordinator):
    """A :class:`~celery_parrot.protocols.Coordinator` in PostgreSQL, MySQL, MariaDB or SQLite, with all of its
    capabilities: limits, preparing for rows that decide, holding schedules of code.

    Thread-safe, and usable on both sides of a fork. Each call is one transaction that locks the row of the registered
    name first, so calls of one name happen one after the other; those of two names never wait for each other. The
    clock is the database's; SQLite has none but the machine's.

    Memory is lost where the row of the name is gone, has another epoch, counts fewer calls than this process has
    seen there (a restored copy, a failover that lost the last writes), or was made on another PostgreSQL cluster or
    timeline.

    :param target: a database URL, or an engine of the user's own.
    :param namespace: the registered name.
    :param timing: the durations; the same for every coordinator of a name.
    :param schema: where the tables live; None: wherever the connection looks first.
    :param options: for SQLAlchemy's ``create_engine``.
    :param clock_offset: seconds added to the database's clock, for tests.
    :raises ConfigurationError: for a URL that cannot be read, or whose driver is not installed.
    """

    def __init__(
        self,
        target: str | Engine,
        namespace: Namespace,
        timing: Timing | None = None,
        *,
        schema: str | None = None,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        clock_offset: float = 0.0,
    ) -> None:
        super().__init__(namespace, timing)
        self.clock_offset = clock_offset
        self._clock = clock or SystemClock()
        self._link = Link(target, self._clock, options=options)
        self._tables = tables(MetaData(), schema)
        self._last = ("", 0)  # the epoch and the number of the newest call that this process saw committed

    def __repr__(self) -> str:
        return f"SqlCoordinator({self._link.name!r}, {self.namespace.name!r})"

    @property
    def where(self) -> str:
        """The database, without credentials."""
        return self._link.name

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._link.close()

    def _transact(self, work: Callable[[Space], T]) -> T:
        def step(connection: Connection, identity: str) -> tuple[T, tuple[str, int]]:
            space = self._locked(connection, identity)
            answer = work(space)
            space.save()
            return answer, (space.epoch, space.calls + 1)

        answer, last = self._link.transaction(step)
        self._last = max(self._last, last) if self._last[0] == last[0] else last
        return answer

    def _locked(self, connection: Connection, identity: str) -> SqlSpace:
        row = self._lock(connection)
        if row is None:
            insert_absent(connection, self._tables.spaces, ["name"], [{"name": self.namespace.prefix}])
            row = self._lock(connection)
            assert row is not None
        space = SqlSpace(connection, self._tables, self.namespace, self.timing, row, self.server_now(row))
        space.run_id = identity or self._anywhere(space)
        epoch, calls = self._last
        if space.epoch == epoch and space.calls < calls:
            space.made_on = ""  # it has gone back in time
        return space

    def server_now(self, row: Row[Any]) -> datetime:
        """The database's clock, read after the row was locked; where it has none, this machine's."""
        now = self._clock.now() if row.server_now is None else as_instant(row.server_now)
        assert now is not None
        return now + timedelta(seconds=self.clock_offset)

    def _anywhere(self, space: Space) -> str:
        """The identity of a server that tells none: on PostgreSQL, it may tell others."""
        told = space.made_on if self._link.dialect == POSTGRESQL else ""
        return told or _NOWHERE

    def _lock(self, connection: Connection) -> Row[Any] | None:
        """The row of the name, ours until the transaction ends, and the time after that was so."""
        dialect = connection.dialect
        table = dialect.identifier_preparer.format_table(self._tables.spaces)
        if dialect.name == POSTGRESQL:
            query = (
                f"WITH locked AS MATERIALIZED (SELECT * FROM {table} WHERE name = :name FOR UPDATE) "  # nosec # quoted above
                "SELECT locked.*, clock_timestamp() AS server_now FROM locked"
            )
        elif dialect.name == SQLITE:  # where the transaction has locked the file
            query = f"SELECT *, NULL AS server_now FROM {table} WHERE name = :name"  # nosec # quoted above
        else:
            query = f"SELECT *, SYSDATE(6) AS server_now FROM {table} WHERE name = :name FOR UPDATE"  # nosec # quoted above
        return connection.execute(text(query), {"name": self.namespace.prefix}).one_or_none()
