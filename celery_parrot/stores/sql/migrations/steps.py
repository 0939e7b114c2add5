"""What the revisions share."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Inspector, inspect, text

from celery_parrot.database.types import MYSQL
from celery_parrot.stores.sql.triggers import create_triggers

TABLE_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in MYSQL
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


def schema() -> str | None:
    """Where the tables go: as told by our own runner, or by the option ``parrot_schema`` of a user's Alembic."""
    config = op.get_context().config
    if config is None:
        return None
    told: str | None = config.attributes.get("parrot_schema")
    return told or config.get_main_option("parrot_schema")


def inspector() -> Inspector:
    """A fresh look at the database."""
    return inspect(op.get_bind())


def has_table(name: str) -> bool:
    return inspector().has_table(name, schema=schema())


def install_triggers() -> None:
    """The triggers as this release has them. A revision that changes them calls this again."""
    bind = op.get_bind()
    create_triggers(bind.dialect.name, schema(), lambda sql: bind.execute(text(sql)))
