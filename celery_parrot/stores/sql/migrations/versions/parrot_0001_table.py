"""The table as it was before us. One that is there already is taken over as it is."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Boolean, Column, Integer, text, true

from celery_parrot.database.types import (
    DefaultId,
    DefaultJson,
    DefaultNow,
    Id,
    Instant,
    json_type,
    name_type,
    text_type,
)
from celery_parrot.stores.sql.migrations.steps import TABLE_OPTIONS, has_table, schema

revision = "parrot_0001"
down_revision = None
branch_labels = ("parrot",)
depends_on = None


def upgrade() -> None:
    if has_table("service_scheduler"):
        return
    op.create_table(
        "service_scheduler",
        Column("schedule_id", Id(), primary_key=True, server_default=DefaultId()),
        Column("target_kind", name_type(), nullable=False),
        Column("target_name", name_type(), nullable=False),
        Column("target_id", name_type()),
        Column("tenant", name_type()),
        Column("prompt", text_type()),
        Column("method_name", name_type()),
        Column("schedule_type", name_type(), nullable=False),
        Column("schedule_config", json_type(), nullable=False),
        Column("enabled", Boolean(), server_default=true()),
        Column("created_by", Integer()),
        Column("created_email", name_type()),
        Column("created_at", Instant(), server_default=DefaultNow()),
        Column("updated_at", Instant(), server_default=DefaultNow()),
        Column("last_run", Instant()),
        Column("next_run", Instant()),
        Column("run_count", Integer(), server_default=text("0")),
        Column("last_status", name_type()),
        Column("last_error", text_type()),
        Column("last_error_at", Instant()),
        Column("last_result", text_type()),
        Column("last_result_at", Instant()),
        Column("consecutive_failures", Integer(), server_default=text("0")),
        Column("last_delivery_status", name_type()),
        Column("last_delivery_at", Instant()),
        Column("last_callbacks", json_type(), server_default=DefaultJson("[]")),
        Column("metadata", json_type(), server_default=DefaultJson("{}")),
        Column("send_result", json_type(), server_default=DefaultJson("{}")),
        Column("callbacks", json_type(), server_default=DefaultJson("[]")),
        schema=schema(),
        **TABLE_OPTIONS,
    )
    op.create_index("idx_service_scheduler_enabled", "service_scheduler", ["enabled"], schema=schema())
    op.create_index(
        "idx_service_scheduler_target", "service_scheduler", ["target_kind", "target_name"], schema=schema()
    )
