"""The tables, for our own queries and for a user's own MetaData."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    cast,
    collate,
    event,
    false,
    func,
    null,
    text,
    true,
)

from celery_parrot.database.types import (
    MYSQL,
    POSTGRESQL,
    DefaultId,
    DefaultJson,
    DefaultNow,
    Id,
    Instant,
    json_type,
    name_type,
    serial_type,
    text_type,
)
from celery_parrot.stores.sql.triggers import create_triggers

SCHEDULES = "service_scheduler"
FIRES = "service_scheduler_fire"
CHANGES = "service_scheduler_change"
OUTCOMES = "service_scheduler_outcome"
OWED = "service_scheduler_owed"

_MYSQL: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in MYSQL
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


@dataclass(frozen=True, slots=True)
class Tables:
    """:ivar schedules: definitions with their run state. ``fires``: history.

    :ivar changes: what the triggers noted for the next beat to settle; empty but for moments.
    :ivar outcomes: what is remembered of a schedule's outcomes beside its run state. ``owed``: parcels that the
        coordinator is to be given; empty but for moments.
    """

    schedules: Table
    fires: Table
    changes: Table
    outcomes: Table
    owed: Table


def tables(metadata: MetaData, schema: str | None = None) -> Tables:
    """Add the tables to ``metadata``, with their triggers: ``metadata.create_all`` makes what the migrations make.

    :param schema: where they live; None: wherever the connection looks first.
    """
    made = Tables(
        _schedules(metadata, schema),
        _fires(metadata, schema),
        _changes(metadata, schema),
        Table(OUTCOMES, metadata, *outcome_columns(), schema=schema, **_MYSQL),
        Table(OWED, metadata, *owed_columns(), schema=schema, **_MYSQL),
    )

    # Whichever of the three is created last installs the triggers, which refer to all of them.
    @event.listens_for(metadata, "after_create")
    def install(target: MetaData, connection: Connection, **kw: Any) -> None:
        created = kw.get("tables") or ()
        if made.schedules in created:
            create_triggers(connection.dialect.name, schema, lambda sql: connection.execute(text(sql)))

    return made


def _schedules(metadata: MetaData, schema: str | None) -> Table:
    table = Table(
        SCHEDULES,
        metadata,
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
        *own_columns(),
        schema=schema,
        **_MYSQL,
    )
    Index("idx_service_scheduler_enabled", table.c.enabled)
    Index("idx_service_scheduler_target", table.c.target_kind, table.c.target_name)
    for index in own_indexes(table):
        assert index.table is table
    return table


def own_columns() -> list[Column[Any]]:
    """What we add to the columns that the table had before us; all nullable or with a default."""
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


def own_indexes(table: Table) -> list[Index]:
    """The due scan's index holds only what may be due, where the database can leave rows out."""
    c = table.c
    live = (c.enabled == true()) & (c.disabled_by == null())
    return [
        Index("uq_service_scheduler_name", c.name, unique=True),
        Index(
            "idx_service_scheduler_due",
            c.target_kind,
            c.next_run,
            postgresql_where=live,
            sqlite_where=live,
        ).ddl_if(callable_=_partial),
        Index("idx_service_scheduler_due", c.target_kind, c.enabled, c.disabled_by, c.next_run).ddl_if(
            callable_=_not_partial
        ),
        Index(
            "idx_service_scheduler_broken",
            c.schedule_id,
            postgresql_where=c.broken_reason != null(),
            sqlite_where=c.broken_reason != null(),
        ).ddl_if(callable_=_partial),
        Index("idx_service_scheduler_shown", collate(shown_name(table), "C")).ddl_if(dialect=POSTGRESQL),
    ]


def shown_name(table: Table) -> ColumnElement[str]:
    """What people call a row: its name, or its id where it has none."""
    return func.coalesce(table.c.name, cast(table.c.schedule_id, String(36)))


def _partial(ddl: Any, target: Any, bind: Any, tables: Any = None, state: Any = None, **kw: Any) -> bool:
    return _dialect(bind, kw) not in MYSQL


def _not_partial(ddl: Any, target: Any, bind: Any, tables: Any = None, state: Any = None, **kw: Any) -> bool:
    return _dialect(bind, kw) in MYSQL


def _dialect(bind: Any, kw: dict[str, Any]) -> str:
    name: str = (kw.get("dialect") or bind.dialect).name
    return name


def _fires(metadata: MetaData, schema: str | None) -> Table:
    table = Table(FIRES, metadata, *fire_columns(), schema=schema, **_MYSQL)
    Index("uq_service_scheduler_fire_id", table.c.fire_id, unique=True)
    Index("idx_service_scheduler_fire_due", table.c.due_at)
    return table


def fire_columns() -> list[Column[Any]]:
    """One row a fire, or a range of due times that were not fired. The identity of a fire is the key."""
    return [
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
        Column("traceback", text_type()),
        Column("delivery", text_type()),
    ]


def _changes(metadata: MetaData, schema: str | None) -> Table:
    table = Table(CHANGES, metadata, *change_columns(), schema=schema, **_MYSQL)
    Index("idx_service_scheduler_change_schedule", table.c.schedule_id)
    return table


def change_columns() -> list[Column[Any]]:
    """One row an INSERT or an edit whose consequences for due times are still to be worked out.

    ``enabling``: the row was not enabled before. ``old_type`` and the rest: how it was, where due times may have been
    undecided then.
    """
    return [
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
    ]


def outcome_columns() -> list[Column[Any]]:
    """One row a schedule that fails, or whose outcomes somebody was told of.

    ``failing_since``: when the first failure of the present row ended. ``delivery_due``: due time of the fire whose
    delivery the run state tells of.
    """
    return [
        Column("schedule_id", Id(), primary_key=True),
        Column("failing_since", Instant()),
        Column("delivery_due", Instant()),
    ]


def owed_columns() -> list[Column[Any]]:
    """One row a parcel that a decision of these tables calls for, until it is in the coordinator's queue."""
    return [
        Column("id", serial_type(), primary_key=True, autoincrement=True),
        Column("parcel_id", name_type(128), nullable=False, unique=True),
        Column("body", text_type(), nullable=False),
    ]
