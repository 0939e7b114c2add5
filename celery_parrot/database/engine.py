"""Connections: how they are made, what bounds them, and where a driver's errors become ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, make_url, select

from celery_parrot.clock import Clock
from celery_parrot.database.types import EARLIEST, LATEST, MYSQL, POSTGRESQL, SQLITE, utc_now
from celery_parrot.errors import ConfigurationError, Unreachable

T = TypeVar("T")

CONNECT_TIMEOUT: Final = 3
"""Seconds to reach the server."""
STATEMENT_TIMEOUT: Final = 10
"""Seconds that one statement may take, and that a silent server is waited for."""
LOCK_TIMEOUT: Final = 5
"""Seconds to wait for a row that somebody else has locked."""

_HOW = "Write it as driver://user:password@host:port/database."
_TRIES = 6
_FIRST_PAUSE = 0.01
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
_SECRETS = ("password", "passwd", "sslpassword", "ssl_key")
UNREACHABLE: Final = (
    exc.OperationalError,
    exc.InterfaceError,
    exc.InternalError,
    exc.ProgrammingError,  # the tables are not there (yet)
    exc.NotSupportedError,
    exc.TimeoutError,  # no connection of the pool became free
)
_RETRY_STATES = ("40001", "40P01", "55P03")
_RETRY_CODES = (1213, 1205, 1020)


def masked(url: str | URL) -> str:
    """The URL without its secrets, for people to read."""
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        return "(not a database URL)"
    hidden = {key: "***" for key in parsed.query if key.lower() in _SECRETS}
    return parsed.update_query_dict(hidden).render_as_string(hide_password=True)


def make_engine(url: str, options: Mapping[str, Any] | None = None, *, bounded: bool = True) -> Engine:
    """An engine for ``url`` with pre-ping and bounded timeouts; ``options`` go to SQLAlchemy and win.

    :param bounded: whether statements are cut off; false for migrations, which may have to build an index.
    :raises ConfigurationError: for a URL that cannot be read, or whose driver is not installed.
    """
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):  # whose text, in some releases, is the URL with all that is in it
        raise ConfigurationError("parrot_database_url", masked(url), "cannot be read", _HOW) from None
    try:
        if parsed.drivername in _DRIVERS:
            parsed = parsed.set(drivername=_DRIVERS[parsed.drivername])
        given = dict(options or {})
        arguments = {**_connect_args(parsed, bounded), **given.pop("connect_args", {})}
        settings: dict[str, Any] = {"pool_pre_ping": True, "hide_parameters": True}
        if parsed.get_backend_name() != SQLITE:
            settings.update(isolation_level="READ COMMITTED", pool_timeout=STATEMENT_TIMEOUT, pool_recycle=1800)
        engine = create_engine(parsed, connect_args=arguments, **{**settings, **given})
    except exc.ArgumentError as error:
        raise ConfigurationError("parrot_database_url", masked(url), str(error), _HOW) from None
    except TypeError as error:
        raise ConfigurationError(
            "parrot_database_options",
            sorted(options or {}),
            str(error).partition(".  ")[0],
            "Use arguments of SQLAlchemy's create_engine.",
        ) from None
    except ImportError as error:
        extra = "mysql" if "mysql" in url.partition(":")[0] or url.startswith("mariadb") else "postgresql"
        raise ConfigurationError(
            "parrot_database_url",
            masked(url),
            f"its driver is not installed ({error})",
            f"Install celery-parrot[{extra}].",
        ) from None
    refuse_autocommit(engine)
    if parsed.drivername in ("mysql+pymysql", "mariadb+pymysql"):
        event.listen(engine, "do_connect", _greeted_soon)
    event.listen(engine, "connect", _first_statements(engine.dialect.name, bounded))
    return engine


def isolation_of(engine: Engine) -> str:
    """The isolation level that an engine was made with, in capitals; empty where it was given none."""
    given = engine.get_execution_options().get("isolation_level")
    if given is None:  # SQLAlchemy shows no other way to what an engine was made with
        given = getattr(engine.dialect, "_on_connect_isolation_level", None)
    return str(given or "").upper().replace("_", " ")


def refuse_autocommit(engine: Engine) -> None:
    """Where each statement stands alone nothing is decided once, whoever asks at the same time.

    :raises ConfigurationError: for an engine whose connections begin no transaction.
    """
    given = isolation_of(engine)
    if given == "AUTOCOMMIT":
        raise ConfigurationError(
            "parrot_database_options",
            {"isolation_level": given},
            "leaves each statement without a transaction, so that fires could be sent twice",
            "Leave it out, or use READ COMMITTED.",
        )


def _connect_args(url: URL, bounded: bool) -> dict[str, Any]:
    if url.drivername == "postgresql+psycopg":
        return {
            "connect_timeout": CONNECT_TIMEOUT,
            "keepalives_idle": 10,
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "tcp_user_timeout": STATEMENT_TIMEOUT * 1000,
        }
    if url.get_backend_name() in MYSQL:
        return {
            "connect_timeout": CONNECT_TIMEOUT,
            "read_timeout": STATEMENT_TIMEOUT if bounded else None,
            "write_timeout": STATEMENT_TIMEOUT if bounded else None,
            "charset": "utf8mb4",
        }
    return {"timeout": LOCK_TIMEOUT} if url.get_backend_name() == SQLITE else {}


def _greeted_soon(dialect: Any, record: Any, args: Any, arguments: dict[str, Any]) -> Any:
    """A connection whose server said its first words within the time to connect. PyMySQL waits for them as long as for
    the answer to a statement, which is too long for somebody who only asks whether the server is there."""
    wanted = arguments.get("read_timeout")
    bound = min(wanted or CONNECT_TIMEOUT, arguments.get("connect_timeout") or CONNECT_TIMEOUT)
    connection = dialect.connect(*args, **{**arguments, "read_timeout": bound})
    connection._read_timeout = wanted  # it knows no other way to change it
    return connection


def _first_statements(dialect: str, bounded: bool) -> Callable[[Any, Any], None]:
    """What each new connection is told."""
    statements = {
        POSTGRESQL: [
            "SET TIME ZONE 'UTC'",
            f"SET statement_timeout = {STATEMENT_TIMEOUT * 1000 if bounded else 0}",
            f"SET lock_timeout = {LOCK_TIMEOUT * 1000}",
        ],
        SQLITE: ["PRAGMA journal_mode = WAL"],
    }.get(dialect, ["SET time_zone = '+00:00'", f"SET innodb_lock_wait_timeout = {LOCK_TIMEOUT}"])

    def tell(connection: Any, record: Any) -> None:
        cursor = connection.cursor()
        for statement in statements:
            cursor.execute(statement)
        cursor.close()
        connection.commit()

    return tell


def read_far_instants(engine: Engine) -> None:
    """Have psycopg clamp instants that Python's calendar has no place for; it would refuse the whole result."""
    if engine.dialect.name != POSTGRESQL or engine.dialect.driver != "psycopg":
        return
    from psycopg import DataError
    from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

    class Text(TimestamptzLoader):
        def load(self, data: Any) -> datetime:
            try:
                return super().load(data)
            except (DataError, OverflowError, ValueError):
                text = bytes(data)
                return EARLIEST if text.startswith((b"-", b"0001")) or b"BC" in text else LATEST

    class Binary(TimestamptzBinaryLoader):
        def load(self, data: Any) -> datetime:
            try:
                return super().load(data)
            except (DataError, OverflowError, ValueError):
                return EARLIEST if bytes(data)[0] & 0x80 else LATEST

    @event.listens_for(engine, "connect")
    def register(connection: Any, record: Any) -> None:
        connection.adapters.register_loader("timestamptz", Text)
        connection.adapters.register_loader("timestamptz", Binary)


class Database:
    """Runs work on connections that are given back at once, and tells what failed in our own terms.

    :param target: a URL, or an engine of the user's own, which keeps its own settings.
    :raises ConfigurationError: see :func:`make_engine`.
    """

    def __init__(
        self, target: str | Engine, clock: Clock, *, schema: str | None = None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._own = isinstance(target, str)
        if isinstance(target, Engine):
            refuse_autocommit(target)
        self.engine = make_engine(target, options) if isinstance(target, str) else target
        self.schema, self.clock = schema, clock
        self.dialect = self.engine.dialect.name
        self.postgresql, self.sqlite = self.dialect == POSTGRESQL, self.dialect == SQLITE
        self.mysql = self.dialect in MYSQL
        read_far_instants(self.engine)

    def __repr__(self) -> str:
        return masked(self.engine.url)

    def read(self, work: Callable[[Connection], T]) -> T:
        """Run ``work``, which writes nothing; once more if its connection was lost.

        :raises Unreachable: if the database cannot be asked.
        """
        try:
            try:
                return self._read(work)
            except exc.DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._read(work)
        except UNREACHABLE as error:
            raise unreachable(error) from error

    def _read(self, work: Callable[[Connection], T]) -> T:
        with self.engine.connect() as connection:
            return work(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` as one transaction, again if the database says that it was in another's way.

        ``work`` may run several times. SQLite takes its write lock first.

        :raises Unreachable: if the database cannot be asked; the work may then have been committed or not.
        """
        for tried in range(1, _TRIES + 1):
            try:
                with self.engine.connect() as connection, connection.begin():
                    if self.sqlite:
                        connection.exec_driver_sql("BEGIN IMMEDIATE")
                    return work(connection)
            except UNREACHABLE as error:
                if tried == _TRIES or not in_the_way(error):
                    raise unreachable(error) from error
                # Outside the block above: no connection is held meanwhile.
            self.clock.sleep(_FIRST_PAUSE * 2**tried)
        raise AssertionError("unreachable")  # pragma: no cover

    def now(self) -> datetime:
        """The database's clock, UTC."""
        found = self.read(lambda connection: connection.execute(select(utc_now())).scalar_one())
        assert found is not None
        return found

    def close(self) -> None:
        """Close the pool, unless it is the user's."""
        if self._own:
            self.engine.dispose()


def in_the_way(error: exc.SQLAlchemyError) -> bool:
    """Deadlock, serialization failure, lock timeout, busy: trying again may help."""
    original = getattr(error, "orig", None)
    if original is None or getattr(error, "connection_invalidated", False):
        return False
    if getattr(original, "sqlstate", None) in _RETRY_STATES:
        return True
    arguments: tuple[object, ...] = getattr(original, "args", ())
    first = arguments[0] if arguments else None
    return first in _RETRY_CODES or "database is locked" in str(first)


def unreachable(error: exc.SQLAlchemyError) -> Unreachable:
    """Without the statement and its values: they are nobody's business in a log."""
    original = getattr(error, "orig", None) or error
    lines = str(original).strip().splitlines()
    hint = ""
    if isinstance(error, exc.ProgrammingError) or "no such table" in str(original):
        hint = " (are the migrations applied? celery -A YOUR_APP parrot db upgrade)"
    return Unreachable(f"database: {type(original).__name__}: {lines[0] if lines else ''}{hint}")
