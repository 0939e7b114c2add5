"""The connection: made late, made anew after a fork, and bounded, so that whoever freezes holds nobody up for long."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, event, exc

from celery_parrot.clock import Clock
from celery_parrot.database.engine import (
    UNREACHABLE,
    in_the_way,
    isolation_of,
    make_engine,
    masked,
    refuse_autocommit,
    unreachable,
)
from celery_parrot.database.types import MYSQL, POSTGRESQL, SQLITE
from celery_parrot.errors import Unreachable

T = TypeVar("T")

FROZEN_AFTER: Final = 2
"""Seconds for which a transaction may stand still; then the server ends it, and with it the locks of a process that
was stopped or cut off in the middle. Less than the time after which a beat that waits is taken for dead."""

LOCK_TIMEOUT: Final = 5
"""Seconds to wait for the row of a registered name: longer than one that froze can hold it."""

STATEMENT_TIMEOUT: Final = 8
"""Seconds that one statement may take."""

_MYSQL_IDLE: Final = 10
"""Where only whole connections can be ended for standing still, after so many seconds."""

#: Longest pause between two tries to reach a server that is away, in seconds; the first is a twentieth of it.
_LONGEST_PAUSE: Final = 1.0
_FIRST_PAUSE: Final = 0.05

_TRIES: Final = 5

_ISOLATION: Final = "READ COMMITTED"


class Link:
    """One database as one process sees it. Thread-safe, and usable on both sides of a fork.

    While the database is away, calls fail at once for up to a second between two tries.

    :param target: a URL, or an engine of the user's own, which keeps its settings but for the bounds named above and
        the isolation level, and is used by the process that made it only.
    :param options: for SQLAlchemy's ``create_engine``.
    :raises ConfigurationError: for a URL that cannot be read, or whose driver is not installed.
    """

    def __init__(self, target: str | Engine, clock: Clock, *, options: Mapping[str, Any] | None = None) -> None:
        self._target, self._clock, self._options = target, clock, dict(options or {})
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._inherited: list[Engine] = []
        self._engine = self._make()
        self._pause = self._away_until = 0.0
        self._last_error = ""

    def __repr__(self) -> str:
        return f"Link({self.name!r})"

    @property
    def name(self) -> str:
        """What it talks to, without credentials."""
        return masked(self._target if isinstance(self._target, str) else self._target.url)

    @property
    def dialect(self) -> str:
        return self._engine.dialect.name

    def transaction(self, work: Callable[[Connection, str], T]) -> T:
        """Run ``work`` as one transaction, given the identity of the server where it tells one, else an empty text.

        It is run again where the database says that it was in another's way, or that the connection was gone: it must
        mind being carried out twice.

        :raises Unreachable: if the database cannot be asked; the work may then have been committed or not."""
        engine = self._current()
        away = self._away_until - self._clock.monotonic()
        if away > 0:
            raise Unreachable(f"{self._last_error}; next try in {away:.1f} s")
        tried = 0
        while True:
            tried += 1
            try:
                answer = self._once(engine, work)
            except UNREACHABLE as error:
                if tried < _TRIES and in_the_way(error) and not _waited_long(error):
                    self._clock.sleep(0.005 * 2**tried)
                    continue
                if tried == 1 and getattr(error, "connection_invalidated", False):
                    continue  # it was cut while it lay in the pool: at once, on a new one
                raise self._failed(error) from error
            self._pause = 0.0
            return answer

    @staticmethod
    def _once(engine: Engine, work: Callable[[Connection, str], T]) -> T:
        with engine.connect() as connection, connection.begin():
            if engine.dialect.name == SQLITE:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            return work(connection, connection.info.get("parrot_server", ""))

    def _failed(self, error: exc.SQLAlchemyError) -> Unreachable:
        found = unreachable(error)
        if not isinstance(error, exc.ProgrammingError) and not _waited_long(error):
            self._last_error = str(found)
            self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
            self._away_until = self._clock.monotonic() + self._pause
        return found

    def close(self) -> None:
        """Close the connections, unless the engine is the user's. A later call opens new ones."""
        if isinstance(self._target, str):
            self._current().dispose()

    # --- inside ---

    def _make(self) -> Engine:
        if not isinstance(self._target, str):
            refuse_autocommit(self._target)
            engine = self._target
        else:
            # No ping before each call: one that meets a dead connection is made again on a new one.
            engine = make_engine(self._target, {"pool_pre_ping": False, **self._options})
        if not event.contains(engine, "connect", _tell):
            event.listen(engine, "connect", _tell)
        if engine.dialect.name == SQLITE or isolation_of(engine) == _ISOLATION:
            return engine
        # A snapshot from before the row of the name was locked shows nothing of what others have decided meanwhile.
        return engine.execution_options(isolation_level=_ISOLATION)

    def _current(self) -> Engine:
        """A connection made before a fork is the parent's: never use it, nor close it."""
        if self._pid != os.getpid():
            self._lock = threading.Lock()  # the parent's may have been held
            self._pid = os.getpid()
            self._engine.dispose(close=False)
            self._pause = self._away_until = 0.0
        return self._engine


def _tell(connection: Any, record: Any) -> None:
    """What each new connection is told, and asked."""
    module = type(connection).__module__
    if module.startswith("sqlite3"):
        return
    cursor = connection.cursor()
    if module.startswith("psycopg"):
        for name, seconds in {
            "idle_in_transaction_session_timeout": FROZEN_AFTER,
            "lock_timeout": LOCK_TIMEOUT,
            "statement_timeout": STATEMENT_TIMEOUT,
        }.items():
            cursor.execute(f"SET {name} = {seconds * 1000}")
        connection.commit()
        record.info["parrot_server"] = _identity(connection, cursor)
    else:
        cursor.execute(f"SET innodb_lock_wait_timeout = {LOCK_TIMEOUT}")
        cursor.execute("SHOW VARIABLES LIKE 'idle_write_transaction_timeout'")
        if cursor.fetchall():  # MariaDB
            cursor.execute(f"SET idle_write_transaction_timeout = {FROZEN_AFTER}")
        else:
            cursor.execute(f"SET wait_timeout = {_MYSQL_IDLE}")
    cursor.close()
    connection.commit()


def _identity(connection: Any, cursor: Any) -> str:
    """Of PostgreSQL: the cluster, and the timeline, which is another one after each promotion and each recovery to a
    point in time. Empty where it may not be asked."""
    try:
        cursor.execute(
            "SELECT (SELECT system_identifier FROM pg_control_system())::text || ':' || "
            "left(pg_walfile_name(pg_current_wal_lsn()), 8)"
        )
        return str(cursor.fetchone()[0])
    except Exception:  # the driver's own; whatever it is, there is no identity to be had here
        with suppress(Exception):
            connection.rollback()
        return ""


def _waited_long(error: exc.SQLAlchemyError) -> bool:
    """For a lock that somebody holds: asking again would make it longer still."""
    original = getattr(error, "orig", None)
    first = (getattr(original, "args", ()) or (None,))[0]
    return getattr(original, "sqlstate", None) == "55P03" or first == 1205 or "database is locked" in str(first)


__all__ = ["FROZEN_AFTER", "LOCK_TIMEOUT", "MYSQL", "POSTGRESQL", "STATEMENT_TIMEOUT", "Link"]
