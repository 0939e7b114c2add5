"""Run by Alembic: applies the revisions on the connection that :mod:`celery_parrot.stores.sql.migrate` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, text
from sqlalchemy.schema import CreateSchema

from celery_parrot.database.types import POSTGRESQL
from celery_parrot.stores.sql.migrate import VERSION_TABLE

_LOCK = 7_163_226_402
"""PostgreSQL's advisory lock: two upgrades at once wait for each other."""


def _migrate(connection: Connection, schema: str | None) -> None:
    context.configure(
        connection=connection,
        version_table=VERSION_TABLE,
        version_table_schema=schema,
        include_schemas=schema is not None,
    )
    with context.begin_transaction():
        if connection.dialect.name == POSTGRESQL:
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            if schema is not None:
                connection.execute(CreateSchema(schema, if_not_exists=True))
        context.run_migrations()


_migrate(context.config.attributes["connection"], context.config.attributes.get("parrot_schema"))
