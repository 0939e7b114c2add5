"""Our columns, the history, and the triggers by which edits are noticed."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import Boolean, Column, Integer, column, false, null, table, text, true, update

from celery_parrot.database.types import (
    MYSQL,
    DefaultJson,
    Id,
    Instant,
    json_type,
    name_type,
    serial_type,
    text_type,
    utc_now,
)
from celery_parrot.stores.sql.migrations.steps import TABLE_OPTIONS, has_table, inspector, install_triggers, schema

revision = "parrot_0002"
down_revision = "parrot_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _add_columns()
    _add_indexes()
    _create_fires()
    _create_changes()
    _start_now()
    install_triggers()


def _add_columns() -> None:
    there = {found["name"] for found in inspector().get_columns("service_scheduler", schema=schema())}
    for one in _columns():
        if one.name not in there:
            op.add_column("service_scheduler", one, schema=schema())


def _add_indexes() -> None:
    there = {found["name"] for found in inspector().get_indexes("service_scheduler", schema=schema())}
    live = text("enabled = true AND disabled_by IS NULL")
    live_sqlite = text("enabled = 1 AND disabled_by IS NULL")
    broken = text("broken_reason IS NOT NULL")
    partial = op.get_bind().dialect.name not in MYSQL
    due = ["target_kind", "next_run"] if partial else ["target_kind", "enabled", "disabled_by", "next_run"]
    if "uq_service_scheduler_name" not in there:
        op.create_index("uq_service_scheduler_name", "service_scheduler", ["name"], unique=True, schema=schema())
    if "idx_service_scheduler_due" not in there:
        op.create_index(
            "idx_service_scheduler_due",
            "service_scheduler",
            due,
            schema=schema(),
            postgresql_where=live,
            sqlite_where=live_sqlite,
        )
    if partial and "idx_service_scheduler_broken" not in there:
        op.create_index(
            "idx_service_scheduler_broken",
            "service_scheduler",
            ["schedule_id"],
            schema=schema(),
            postgresql_where=broken,
            sqlite_where=broken,
        )


def _create_fires() -> None:
    if has_table("service_scheduler_fire"):
        return
    op.create_table(
        "service_scheduler_fire",
        Column("schedule_id", Id(), primary_key=True),
        Column("due_at", Instant(), primary_key=True),
        Column("nonce", name_type(64), primary_key=True, server_default=text("''")),
        Column("fire_id", name_type(64)),
        Column("token", name_type(64)),
        Column("serial", serial_type(), nullable=False, server_default=text("0")),
        Column("status", name_type(32), nullable=False),
        Column("reason", text_type()),
        Column("origin", name_type(32), nullable=False),
        Column("kind", name_type(), nullable=False),
        Column("name", name_type(), nullable=False),
        Column("attempt", Integer(), nullable=False, server_default=text("1")),
        Column("beat", name_type()),
        Column("worker", name_type()),
        Column("committed_at", Instant()),
        Column("sent_at", Instant()),
        Column("started_at", Instant()),
        Column("finished_at", Instant()),
        Column("output", text_type()),
        Column("error", text_type()),
        Column("late_result", text_type()),
        Column("until", Instant()),
        Column("count", Integer(), nullable=False, server_default=text("1")),
        schema=schema(),
        **TABLE_OPTIONS,
    )
    op.create_index("uq_service_scheduler_fire_id", "service_scheduler_fire", ["fire_id"], unique=True, schema=schema())
    op.create_index("idx_service_scheduler_fire_due", "service_scheduler_fire", ["due_at"], schema=schema())


def _create_changes() -> None:
    if has_table("service_scheduler_change"):
        return
    op.create_table(
        "service_scheduler_change",
        Column("id", serial_type(), primary_key=True, autoincrement=True),
        Column("schedule_id", Id(), nullable=False),
        Column("target_kind", name_type(), nullable=False),
        Column("changed_at", Instant(), nullable=False),
        Column("enabling", Boolean(), nullable=False, server_default=false()),
        Column("old_name", name_type()),
        Column("old_type", name_type()),
        Column("old_config", text_type()),
        Column("old_policy", text_type()),
        Column("old_created_at", Instant()),
        Column("old_mark", Instant()),
        Column("old_held", name_type(32)),
        schema=schema(),
        **TABLE_OPTIONS,
    )
    op.create_index(
        "idx_service_scheduler_change_schedule", "service_scheduler_change", ["schedule_id"], schema=schema()
    )


def _start_now() -> None:
    """Rows that were there before us: what was due while we were not there is nobody's miss."""
    rows = table(
        "service_scheduler",
        column("schedule_id", Id()),
        column("target_kind", name_type()),
        column("last_due", Instant()),
        column("next_run", Instant()),
        schema=schema(),
    )
    notes = table(
        "service_scheduler_change",
        column("schedule_id", Id()),
        column("target_kind", name_type()),
        column("changed_at", Instant()),
        column("enabling", Boolean()),
        schema=schema(),
    )
    bind = op.get_bind()
    new = rows.c.last_due == null()
    bind.execute(update(rows).where(new, rows.c.next_run == null()).values(last_due=utc_now()))
    source = rows.select().with_only_columns(rows.c.schedule_id, rows.c.target_kind, utc_now(), ~true())
    bind.execute(notes.insert().from_select(["schedule_id", "target_kind", "changed_at", "enabling"], source))


def _columns() -> list[Column[Any]]:
    return [
        Column("name", name_type()),
        Column("args", json_type(), server_default=DefaultJson("[]")),
        Column("options", json_type(), server_default=DefaultJson("{}")),
        Column("policy", json_type(), server_default=DefaultJson("{}")),
        Column("version", Integer(), nullable=False, server_default=text("1")),
        Column("last_due", Instant()),
        Column("auto_count", Integer(), nullable=False, server_default=text("0")),
        Column("disabled_by", name_type(32)),
        Column("note", text_type()),
        Column("broken_reason", text_type()),
    ]
