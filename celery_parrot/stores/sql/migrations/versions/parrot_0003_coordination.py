"""Tables for coordination in the database. They stay empty where that is elsewhere."""

from __future__ import annotations

from typing import Any

from alembic import op
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Text, false, text

from celery_parrot.database.types import POSTGRESQL, Id, Instant, name_type, serial_type, text_type
from celery_parrot.stores.sql.migrations.steps import TABLE_OPTIONS, has_table, schema

revision = "parrot_0003"
down_revision = "parrot_0002"
branch_labels = None
depends_on = None

_MOMENTS = ("lease", "silent", "deadline", "unknown", "wait", "reserved", "expires")


def upgrade() -> None:
    for name, columns in {
        "space": _space(),
        "claim": _claim(),
        "turn": _turn(),
        "hold": _hold(),
        "state": _state(),
        "entry": _entry(),
        "carry": _carry(),
        "beat": _beat(),
    }.items():
        if not has_table(f"service_scheduler_{name}"):
            op.create_table(f"service_scheduler_{name}", *columns, schema=schema(), **TABLE_OPTIONS)
            _indexes(name)


def _indexes(name: str) -> None:
    match name:
        case "claim":
            _index(name, "outbox", ["space", "status", "committed_at"], "status = 'pending'")
            _index(name, "line", ["space", "arrival"], "arrival > 0")
            _index(name, "turn", ["wants", "due_at", "arrival"], "wants IS NOT NULL")
            for moment in _MOMENTS:
                _index(name, moment, ["space", f"{moment}_at"], f"{moment}_at IS NOT NULL")
        case "turn" | "hold":
            _index(name, "space", ["space"])
        case "entry":
            _index(name, "due", ["schedule", "due_at"])
            _index(name, "age", ["space", "lasts_until"])
        case "carry":
            _index(name, "place", ["space", "place"])


def _index(table: str, name: str, columns: list[str], where: str = "") -> None:
    partial: dict[str, Any] = {"postgresql_where": text(where), "sqlite_where": text(where)} if where else {}
    full = f"idx_service_scheduler_{table}_{name}"
    op.create_index(full, f"service_scheduler_{table}", columns, schema=schema(), **partial)


def _space() -> list[Column[Any]]:
    return [
        Column("id", serial_type(), primary_key=True, autoincrement=True),
        Column("name", name_type(), nullable=False, unique=True),
        Column("epoch", name_type(64), nullable=False, server_default=text("''")),
        Column("made_on", name_type(), nullable=False, server_default=text("''")),
        Column("calls", BigInteger(), nullable=False, server_default=text("0")),
        Column("touched", Instant()),
        Column("judge_from", Instant()),
        Column("beats_from", Instant()),
        Column("quiet_until", Instant()),
        Column("remembered", Boolean(), nullable=False, server_default=false()),
        Column("mirror_of", Instant()),
        Column("arrivals", BigInteger(), nullable=False, server_default=text("0")),
        Column("places", BigInteger(), nullable=False, server_default=text("0")),
        Column("purged", Instant()),
    ]


def _claim() -> list[Column[Any]]:
    return [
        Column("fire_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("fire_key", text_type().with_variant(Text(collation="C"), POSTGRESQL), nullable=False),
        Column("due_at", Instant(), nullable=False),
        Column("status", name_type(32), nullable=False),
        Column("owner", name_type(), nullable=False),
        Column("committed_at", Instant(), nullable=False),
        Column("limited", Boolean(), nullable=False),
        Column("wants", Id()),
        Column("arrival", BigInteger(), nullable=False, server_default=text("0")),
        *(Column(f"{moment}_at", Instant()) for moment in _MOMENTS),
        Column("body", text_type(), nullable=False),
    ]


def _turn() -> list[Column[Any]]:
    return [
        Column("wants", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("limits", text_type(), nullable=False),
        Column("waiting", Integer(), nullable=False),
    ]


def _hold() -> list[Column[Any]]:
    return [
        Column("limit_id", Id(), primary_key=True),
        Column("fire_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("name", text_type(), nullable=False),
        Column("place", BigInteger(), nullable=False),
        Column("since", Instant(), nullable=False),
        Column("fire_key", text_type(), nullable=False),
    ]


def _state() -> list[Column[Any]]:
    return [
        Column("schedule", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("schedule_id", text_type(), nullable=False),
        Column("entries", Integer(), nullable=False, server_default=text("0")),
        Column("body", text_type()),
    ]


def _entry() -> list[Column[Any]]:
    return [
        Column("fire_id", Id(), primary_key=True),
        Column("schedule", Id(), nullable=False),
        Column("space", BigInteger(), nullable=False),
        Column("due_at", Instant(), nullable=False),
        Column(
            "nonce",
            String(64).with_variant(String(64, collation="C"), POSTGRESQL),
            nullable=False,
            server_default=text("''"),
        ),
        Column("lasts_until", Instant(), nullable=False),
        Column("status", name_type(32), nullable=False),
        Column("body", text_type(), nullable=False),
    ]


def _carry() -> list[Column[Any]]:
    return [
        Column("fire_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("place", BigInteger(), nullable=False),
        Column("serial", BigInteger(), nullable=False),
        Column("counted", Boolean(), nullable=False),
        Column("body", text_type(), nullable=False),
    ]


def _beat() -> list[Column[Any]]:
    return [
        Column("space", BigInteger(), primary_key=True, autoincrement=False),
        Column("owner", name_type(), primary_key=True),
        Column("seen", Instant(), nullable=False),
        Column("body", text_type()),
    ]
