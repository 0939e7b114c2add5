"""Column types that mean the same on every database, and the few expressions that are spelled differently on each."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, Integer, String, Text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import functions
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

POSTGRESQL = "postgresql"
MYSQL = ("mysql", "mariadb")
SQLITE = "sqlite"

EARLIEST = datetime.min.replace(tzinfo=UTC)
LATEST = datetime.max.replace(tzinfo=UTC)


class Instant(TypeDecorator[datetime]):
    """An aware datetime with microseconds, UTC in and out.

    ``TIMESTAMPTZ`` on PostgreSQL, ``DATETIME(6)`` holding UTC on MySQL, text ``YYYY-MM-DD HH:MM:SS.ffffff`` on SQLite
    (what its own date functions print, so that plain comparisons sort by time). What cannot be read as an instant
    reads as None.
    """

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == POSTGRESQL:
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        if dialect.name in MYSQL:
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(Text())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"an instant must say its time zone, got {value!r}")
        utc = value.astimezone(UTC)
        if dialect.name == POSTGRESQL:
            return utc
        naive = utc.replace(tzinfo=None)
        return naive if dialect.name in MYSQL else naive.isoformat(sep=" ", timespec="microseconds")

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return as_instant(value)


def as_instant(value: Any) -> datetime | None:
    """A column's value as UTC; a naive one is UTC already. None for what is no instant (MySQL's zero date, prose)."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    if value.tzinfo is None:
        return value.replace(tzinfo=UTC)
    try:
        return value.astimezone(UTC)
    except OverflowError:  # year 1 or 9999 in a zone that leads out of the calendar
        return EARLIEST if value.year == 1 else LATEST


class Id(TypeDecorator[str]):
    """A schedule id: ``UUID`` on PostgreSQL, 36 characters elsewhere. Text on the Python side."""

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == POSTGRESQL:
            return dialect.type_descriptor(postgresql.UUID(as_uuid=False))
        if dialect.name in MYSQL:
            return dialect.type_descriptor(mysql.CHAR(36))
        return dialect.type_descriptor(String(36))

    def process_result_value(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else str(value)


def name_type(length: int = 255) -> TypeEngine[str]:
    """``VARCHAR``; bounded where the database insists on a length."""
    return String().with_variant(mysql.VARCHAR(length), *MYSQL)


def text_type() -> TypeEngine[str]:
    """``TEXT`` without a practical bound."""
    return Text().with_variant(mysql.LONGTEXT(), *MYSQL)


def json_type() -> TypeEngine[Any]:
    """``JSONB`` on PostgreSQL, ``JSON`` elsewhere."""
    return JSON().with_variant(postgresql.JSONB(), POSTGRESQL)


def serial_type() -> TypeEngine[int]:
    """A 64-bit number that counts by itself."""
    return BigInteger().with_variant(Integer(), SQLITE)


class utc_now(functions.GenericFunction[datetime]):
    """The database's clock at this statement, UTC, microseconds (SQLite: milliseconds)."""

    type = Instant()
    inherit_cache = True
    name = "parrot_utc_now"


NOW_SQL = {
    POSTGRESQL: "clock_timestamp()",
    "mysql": "UTC_TIMESTAMP(6)",
    "mariadb": "UTC_TIMESTAMP(6)",
    SQLITE: "(strftime('%Y-%m-%d %H:%M:%f', 'now') || '000')",
}
_NEW_ID_SQL = {
    POSTGRESQL: "gen_random_uuid()",
    "mysql": "(uuid())",
    "mariadb": "(uuid())",
    SQLITE: "(lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-' || "
    "substr('89ab', 1 + (abs(random()) % 4), 1) || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))))",
}


@compiles(utc_now)
def _compile_now(element: utc_now, compiler: Any, **kw: Any) -> str:
    return NOW_SQL[compiler.dialect.name]


class DefaultNow(ColumnElement[datetime]):
    """``DEFAULT`` of a column: when the row was made, UTC."""

    inherit_cache = True


class DefaultId(ColumnElement[str]):
    """``DEFAULT`` of a column: a random UUID."""

    inherit_cache = True


class DefaultJson(ColumnElement[str]):
    """``DEFAULT`` of a JSON column: an empty list or object."""

    inherit_cache = False

    def __init__(self, text: str) -> None:
        self.text = text


@compiles(DefaultNow)
def _compile_default_now(element: DefaultNow, compiler: Any, **kw: Any) -> str:
    if compiler.dialect.name == POSTGRESQL:
        return "now()"
    text = NOW_SQL[compiler.dialect.name]
    return text if text.startswith("(") else f"({text})"


@compiles(DefaultId)
def _compile_default_id(element: DefaultId, compiler: Any, **kw: Any) -> str:
    return _NEW_ID_SQL[compiler.dialect.name]


@compiles(DefaultJson)
def _compile_default_json(element: DefaultJson, compiler: Any, **kw: Any) -> str:
    # MySQL takes an expression only, SQLite adds no column with one.
    return f"('{element.text}')" if compiler.dialect.name in MYSQL else f"'{element.text}'"
