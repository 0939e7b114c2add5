"""Tables of other schedulers, read and never written; and what such a scheduler knew of a schedule's past."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, exc, inspect, make_url, update

from celery_parrot.clock import Clock
from celery_parrot.database.types import POSTGRESQL, SQLITE
from celery_parrot.errors import ConfigurationError, ParrotError
from celery_parrot.stores.sql.engine import Database, make_engine, masked

Row = dict[str, Any]


class ForeignTables:
    """Somebody else's database.

    :param url: as for ``parrot_database_url``. A SQLite file is opened read-only, and not made if it is not there.
    :param schema: where its tables are; None: the connection's default.
    :raises ConfigurationError: for a URL that cannot be used. :raises ParrotError: if there is no such file.
    """

    def __init__(self, url: str, schema: str | None = None) -> None:
        self.where, self._schema = f"the database at {masked(url)}", schema
        self._engine = _reader(url)

    def close(self) -> None:
        """Let go of the connections."""
        self._engine.dispose()

    def names(self) -> set[str]:
        """The tables of the schema. Raises ParrotError if the database cannot be asked."""
        try:
            return set(inspect(self._engine).get_table_names(schema=self._schema))
        except exc.SQLAlchemyError as error:
            raise self._failed(error) from None

    def rows(self, table: str) -> list[Row]:
        """Every row, with the values as the driver gives them. Raises ParrotError if the table cannot be read."""
        quoted = self._engine.dialect.identifier_preparer.quote
        name = quoted(table) if self._schema is None else f"{quoted(self._schema)}.{quoted(table)}"
        try:
            with self._engine.connect() as connection:
                if connection.dialect.name == POSTGRESQL:
                    connection = connection.execution_options(postgresql_readonly=True)
                found = connection.exec_driver_sql(f"SELECT * FROM {name}")  # nosec B608 # quoted above
                return [dict(row) for row in found.mappings()]
        except exc.SQLAlchemyError as error:
            raise self._failed(error) from None

    def _failed(self, error: exc.SQLAlchemyError) -> ParrotError:
        original = getattr(error, "orig", None) or error
        lines = str(original).strip().splitlines() or [type(original).__name__]
        return ParrotError(f"{self.where} cannot be read: {lines[0].rstrip('.')}")


def _reader(url: str) -> Engine:
    try:
        parsed = make_url(url)
    except (exc.ArgumentError, ValueError):
        raise ConfigurationError(
            "URL", masked(url), "cannot be read", "Write it as driver://user:password@host:port/database."
        ) from None
    if parsed.get_backend_name() != SQLITE:
        return make_engine(url)
    if not parsed.database or not Path(parsed.database).is_file():
        raise ParrotError(f"there is no SQLite file {parsed.database or '(in memory)'}")
    # Not make_engine: it switches to write-ahead logging, which stays in the file.
    path = quote(str(Path(parsed.database).resolve()))
    return create_engine(f"sqlite:///file:{path}?mode=ro&uri=true", hide_parameters=True)


def carry(engine: Engine, schema: str | None, clock: Clock, past: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Write what another scheduler knew of schedules that have just been created: their run state, who made them.

    No column of a definition, so no due time moves. What has run here already keeps its own.

    :param past: schedule id and columns of each. :raises Unreachable:
    """
    database = Database(engine, clock, schema=schema)
    schedules = database.schedules
    allowed = {column.name for column in schedules.columns} & _PAST

    def work(connection: Any) -> None:
        for schedule_id, columns in past:
            values = {name: value for name, value in columns.items() if name in allowed and value is not None}
            if values:
                mine = (schedules.c.schedule_id == schedule_id) & schedules.c.last_run.is_(None)
                connection.execute(update(schedules).where(mine).values(values))

    database.write(work)


_PAST = frozenset(
    {"last_run", "run_count", "last_status", "last_error", "last_error_at", "created_by", "created_email"}
)
