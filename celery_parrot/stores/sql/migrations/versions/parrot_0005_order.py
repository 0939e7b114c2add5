"""The order by name in which people see schedules. Elsewhere the index of unique names is that order already."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

from celery_parrot.database.types import POSTGRESQL
from celery_parrot.stores.sql.migrations.steps import inspector, schema

revision = "parrot_0005"
down_revision = "parrot_0004"
branch_labels = None
depends_on = None

_INDEX = "idx_service_scheduler_shown"
_SHOWN = """(coalesce(name, CAST(schedule_id AS VARCHAR(36))) COLLATE "C")"""


def upgrade() -> None:
    if op.get_bind().dialect.name != POSTGRESQL:
        return
    there = {found["name"] for found in inspector().get_indexes("service_scheduler", schema=schema())}
    if _INDEX not in there:
        op.create_index(_INDEX, "service_scheduler", [text(_SHOWN)], schema=schema())
