"""The tables of coordination in a database. The migrations ``parrot_0003`` and ``parrot_0004`` make the same."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, String, Table, Text, false, text

from celery_parrot.coordination.rules.claim import Moment
from celery_parrot.database.types import MYSQL, POSTGRESQL, Id, Instant, name_type, serial_type, text_type

PREFIX: Final = "service_scheduler_"

_MYSQL: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in MYSQL
    for name, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


@dataclass(frozen=True, slots=True)
class Tables:
    """:ivar spaces: one row a registered name: epoch, silence, counters. Locked by every call of that name.
    :ivar claims: fires with what the coordinator knows of them; ``body`` decides, the columns are what is asked for.
    :ivar turns: how many wait, by what they asked for. ``holds``: who holds which limit.
    :ivar states: run state and mark of a schedule. ``entries``: its history.
    :ivar carries: what rows of schedules do not know yet. ``beats``: who beats.
    :ivar parcels: what waits to be told to somebody, and the ids of what was sent not long ago.
    """

    spaces: Table
    claims: Table
    turns: Table
    holds: Table
    states: Table
    entries: Table
    carries: Table
    beats: Table
    parcels: Table

    def all(self) -> list[Table]:
        return [getattr(self, field.name) for field in fields(self)]


def tables(metadata: MetaData, schema: str | None = None) -> Tables:
    """Add the tables to ``metadata``.

    :param schema: where they live; None: wherever the connection looks first.
    """

    def table(name: str, columns: list[Column[Any]]) -> Table:
        return Table(PREFIX + name, metadata, *columns, schema=schema, **_MYSQL)

    found = Tables(
        spaces=table("space", _space()),
        claims=table("claim", _claim()),
        turns=table("turn", _turn()),
        holds=table("hold", _hold()),
        states=table("state", _state()),
        entries=table("entry", _entry()),
        carries=table("carry", _carry()),
        beats=table("beat", _beat()),
        parcels=table("parcel", _parcel()),
    )
    _indexes(found)
    return found


def moment_column(moment: Moment) -> str:
    return f"{moment.value}_at"


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
        Column("capacities", text_type()),
    ]


def _claim() -> list[Column[Any]]:
    return [
        Column("fire_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("fire_key", _exact_text(), nullable=False),
        Column("due_at", Instant(), nullable=False),
        Column("status", name_type(32), nullable=False),
        Column("owner", name_type(), nullable=False),
        Column("committed_at", Instant(), nullable=False),
        Column("limited", Boolean(), nullable=False),
        Column("wants", Id()),
        Column("arrival", BigInteger(), nullable=False, server_default=text("0")),
        *(Column(moment_column(moment), Instant()) for moment in Moment),
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
        Column("nonce", _exact(64), nullable=False, server_default=text("''")),
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


def _parcel() -> list[Column[Any]]:
    return [
        Column("parcel_id", Id(), primary_key=True),
        Column("space", BigInteger(), nullable=False),
        Column("queued_at", Instant(), nullable=False),
        Column("name", _exact(128), nullable=False),
        Column("owner", name_type(), nullable=False),
        Column("taken_at", Instant()),
        Column("sent_at", Instant()),
        Column("body", text_type()),
    ]


def _beat() -> list[Column[Any]]:
    return [
        Column("space", BigInteger(), primary_key=True, autoincrement=False),
        Column("owner", name_type(), primary_key=True),
        Column("seen", Instant(), nullable=False),
        Column("body", text_type()),
    ]


def _indexes(made: Tables) -> None:
    """One for each question; those of claims hold only what may be the answer, where the database can leave rows
    out."""
    c = made.claims.c
    Index(
        "idx_service_scheduler_claim_outbox",
        c.space,
        c.status,
        c.committed_at,
        postgresql_where=c.status == "pending",
        sqlite_where=c.status == "pending",
    )
    Index(
        "idx_service_scheduler_claim_line",
        c.space,
        c.arrival,
        postgresql_where=c.arrival > 0,
        sqlite_where=c.arrival > 0,
    )
    wanted = c.wants.is_not(None)
    Index(
        "idx_service_scheduler_claim_turn",
        c.wants,
        c.due_at,
        c.arrival,
        postgresql_where=wanted,
        sqlite_where=wanted,
    )
    for moment in Moment:
        column = c[moment_column(moment)]
        Index(
            f"idx_service_scheduler_claim_{moment.value}",
            c.space,
            column,
            postgresql_where=column.is_not(None),
            sqlite_where=column.is_not(None),
        )
    Index("idx_service_scheduler_turn_space", made.turns.c.space)
    Index("idx_service_scheduler_hold_space", made.holds.c.space)
    Index("idx_service_scheduler_entry_due", made.entries.c.schedule, made.entries.c.due_at)
    Index("idx_service_scheduler_entry_age", made.entries.c.space, made.entries.c.lasts_until)
    Index("idx_service_scheduler_carry_place", made.carries.c.space, made.carries.c.place)
    p = made.parcels.c
    Index("idx_service_scheduler_parcel_queue", p.space, p.sent_at, p.queued_at, p.name)


def _exact(length: int) -> Any:
    """Text that sorts as Python's does."""
    return String(length).with_variant(String(length, collation="C"), POSTGRESQL)


def _exact_text() -> Any:
    return text_type().with_variant(Text(collation="C"), POSTGRESQL)
