"""Telling of outcomes: parcels, what became of them, tracebacks, since when a schedule fails. Capacities of limits."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Column, String

from celery_parrot.database.types import POSTGRESQL, Id, Instant, name_type, serial_type, text_type
from celery_parrot.stores.sql.migrations.steps import TABLE_OPTIONS, has_table, inspector, schema

revision = "parrot_0004"
down_revision = "parrot_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _add("service_scheduler_fire", [Column("traceback", text_type()), Column("delivery", text_type())])
    _add("service_scheduler_space", [Column("capacities", text_type())])
    _create("outcome", _outcome())
    _create("owed", _owed())
    _create("parcel", _parcel())


def _add(table: str, columns: list[Column[Any]]) -> None:
    there = {found["name"] for found in inspector().get_columns(table, schema=schema())}
    for one in columns:
        if one.name not in there:
            op.add_column(table, one, schema=schema())


def _create(name: str, columns: list[Column[Any]]) -> None:
    if has_table(f"service_scheduler_{name}"):
        return
    op.create_table(f"service_scheduler_{name}", *columns, schema=schema(), **TABLE_OPTIONS)
    if name == "parcel":
        order = ["space", "sent_at", "queued_at", "name"]
        op.create_index("idx_service_scheduler_parcel_queue", "service_scheduler_parcel", order, schema=schema())


def _outcome() -> list[Column[Any]]:
    return [
        Column("schedule_id", Id(), primary_key=True),
        Column("failing_since", Instant()),
        Column("delivery_due", Instant()),
    ]


def _owed() -> list[Column[Any]]:
    return [
        Column("id", serial_type(), primary_key=True, autoincrement=True),
        Column("parcel_id", name_type(128), nullable=False, unique=True),
        Column("body", text_type(), nullable=False),
    ]


def _parcel() -> list[Column[Any]]:
    return [
        Column("parcel_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("queued_at", Instant(), nullable=False),
        Column("name", String(128).with_variant(String(128, collation="C"), POSTGRESQL), nullable=False),
        Column("owner", name_type(), nullable=False),
        Column("taken_at", Instant()),
        Column("sent_at", Instant()),
        Column("body", text_type()),
    ]
