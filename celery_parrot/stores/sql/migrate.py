"""Applying the migrations, and looking whether they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, MetaData, inspect, text

from celery_parrot.database.types import MYSQL, POSTGRESQL
from celery_parrot.stores.sql.engine import make_engine
from celery_parrot.stores.sql.tables import tables
from celery_parrot.stores.sql.triggers import trigger_names

if TYPE_CHECKING:
    from alembic.config import Config

# Alembic is imported where it is used: every beat looks at the tables, none migrates them.

VERSION_TABLE = "service_scheduler_version"
"""Alembic's own table, apart from that of the user's migrations."""

_HERE = Path(__file__).parent / "migrations"


def version_location() -> str:
    """The folder of revisions, for ``version_locations`` of a user's own Alembic.

    They are a branch of their own, labelled ``parrot``. The schema is read from the option ``parrot_schema``.
    """
    return str(_HERE / "versions")


def upgrade(target: str | Engine, schema: str | None = None, revision: str = "head") -> None:
    """Bring the tables up to ``revision``, creating the schema if it is missing. Two at once wait for each other.

    :param target: a URL, or an engine; one of our own cuts long statements off, a URL does not.
    """
    from alembic import command

    if isinstance(target, Engine):
        _run(target, schema, lambda config: command.upgrade(config, revision))
        return
    engine = make_engine(target, bounded=False)
    try:
        upgrade(engine, schema, revision)
    finally:
        engine.dispose()


def current(engine: Engine, schema: str | None = None) -> str | None:
    """The revision that the database is at; None if there is none."""
    from alembic.runtime.migration import MigrationContext

    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "version_table_schema": schema}
        return MigrationContext.configure(connection, opts=options).get_current_revision()


def head() -> str:
    """The newest revision that this release brings."""
    from alembic.script import ScriptDirectory

    found = ScriptDirectory.from_config(_config(None)).get_current_head()
    assert found is not None
    return found


def check(engine: Engine, schema: str | None = None) -> list[str]:
    """What is missing for this release to run, one sentence each; empty if nothing is."""
    problems: list[str] = []
    inspector = inspect(engine)
    made = tables(MetaData(), schema)
    for table in (made.schedules, made.fires, made.changes, made.outcomes, made.owed):
        if not inspector.has_table(table.name, schema=schema):
            problems.append(f"there is no table {table.fullname}; run db upgrade")
            continue
        there = {column["name"] for column in inspector.get_columns(table.name, schema=schema)}
        lacking = [column.name for column in table.columns if column.name not in there]
        if lacking:
            problems.append(f"{table.fullname} lacks {', '.join(lacking)}; run db upgrade")
    if problems:
        return problems
    with engine.connect() as connection:
        lacking = sorted(trigger_names(engine.dialect.name) - installed_triggers(connection, schema))
    if lacking:
        problems.append(f"{made.schedules.fullname} lacks the triggers {', '.join(lacking)}: edits go unnoticed")
    return problems


def installed_triggers(connection: Connection, schema: str | None) -> set[str]:
    """The names of the triggers on the table of schedules."""
    dialect = connection.dialect.name
    if dialect == POSTGRESQL:
        query = (
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D' AND tgrelid = to_regclass(:t)"
        )
        made = tables(MetaData(), schema)
        name = connection.dialect.identifier_preparer.format_table(made.schedules)
        return set(connection.execute(text(query), {"t": name}).scalars())
    if dialect in MYSQL:
        query = (
            "SELECT trigger_name FROM information_schema.triggers WHERE event_object_table = 'service_scheduler' "
            "AND trigger_schema = coalesce(:s, database())"
        )
        return set(connection.execute(text(query), {"s": schema}).scalars())
    query = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'service_scheduler'"
    return set(connection.execute(text(query)).scalars())


def _run(engine: Engine, schema: str | None, act: Callable[[Config], Any]) -> None:
    with engine.connect() as connection:
        lock = "parrot.migrations"
        if connection.dialect.name in MYSQL:
            connection.execute(text("SELECT GET_LOCK(:lock, 60)"), {"lock": lock})
        config = _config(schema)
        config.attributes["connection"] = connection
        try:
            act(config)
        finally:
            if connection.dialect.name in MYSQL:
                connection.execute(text("SELECT RELEASE_LOCK(:lock)"), {"lock": lock})
                connection.commit()


def _config(schema: str | None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["parrot_schema"] = schema
    return config
