"""Many rows in few round trips."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    Executable,
    Select,
    Table,
    any_,
    bindparam,
    cast,
    delete,
    func,
    literal,
    select,
    type_coerce,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite

from celery_parrot.database.types import MYSQL, POSTGRESQL, text_type

T = TypeVar("T")

Row = Mapping[str, Any]


def chunks(items: Sequence[T], size: int = 500) -> Iterator[Sequence[T]]:
    """``items`` in runs of at most ``size``."""
    for first in range(0, len(items), size):
        yield items[first : first + size]


def json_text(connection: Connection, column: ColumnElement[Any]) -> ColumnElement[str]:
    """A JSON column as its text. We parse it ourselves, row by row: one bad value must not spoil the others."""
    if connection.dialect.name == POSTGRESQL:
        return cast(column, text_type())
    return type_coerce(column, text_type())


def json_value(connection: Connection, text: str) -> ColumnElement[Any]:
    """Text as the value of a JSON column."""
    bound = literal(text, text_type())
    return cast(bound, postgresql.JSONB) if connection.dialect.name == POSTGRESQL else bound


def update_each(
    connection: Connection, table: Table, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Set ``columns`` of the row whose ``keys`` are each row's, for all rows. They have been locked before."""
    if not rows:
        return
    if connection.dialect.name != POSTGRESQL:
        values = {name: bindparam(f"new_{name}", type_=table.c[name].type) for name in columns}
        where = [table.c[name] == bindparam(f"key_{name}", type_=table.c[name].type) for name in keys]
        parameters = [
            {**{f"key_{name}": row[name] for name in keys}, **{f"new_{name}": row[name] for name in columns}}
            for row in rows
        ]
        connection.execute(update(table).where(*where).values(values), parameters)
        return
    given = _arrays(table, [*keys, *columns])
    connection.execute(
        update(table)
        .where(*[table.c[name] == given.c[name] for name in keys])
        .values({name: given.c[name] for name in columns}),
        {f"all_{name}": [row[name] for row in rows] for name in (*keys, *columns)},
    )


def _arrays(table: Table, names: Sequence[str]) -> Any:
    """The rows of a statement as one array a column: its text stays the same however many there are."""
    arrays = [bindparam(f"all_{name}", type_=ARRAY(table.c[name].type)) for name in names]
    typed = [Column(name, table.c[name].type) for name in names]
    return func.unnest(*arrays).table_valued(*typed, name="given").render_derived()


def _documents(table: Table, names: Sequence[str]) -> Any:
    """The rows of a statement as one JSON text, which is written ten times faster than arrays are."""
    typed = [Column(name, table.c[name].type) for name in names]
    made = func.json_to_recordset(cast(bindparam("rows", type_=text_type()), postgresql.JSON))
    return made.table_valued(*typed, name="given").render_derived(with_types=True)


def _json(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a column holds no {type(value).__name__}")


def insert_absent(connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[Row]) -> None:
    """Insert the rows whose key is not there yet."""
    if not rows:
        return
    dialect = connection.dialect.name
    if dialect == POSTGRESQL:
        given = _arrays(table, columns)
        source = select(*[given.c[name] for name in columns])
        statement = postgresql.insert(table).from_select(list(columns), source).on_conflict_do_nothing()
        connection.execute(statement, {f"all_{name}": [row[name] for row in rows] for name in columns})
        return
    parameters = [{name: row[name] for name in columns} for row in rows]
    if dialect in MYSQL:
        # Not IGNORE, which would also swallow what does not fit.
        first = columns[0]
        connection.execute(mysql.insert(table).on_duplicate_key_update({first: table.c[first]}), parameters)
        return
    connection.execute(sqlite.insert(table).on_conflict_do_nothing(), parameters)


def upsert(
    connection: Connection, table: Table, keys: Sequence[str], columns: Sequence[str], rows: Sequence[Row]
) -> None:
    """Insert the rows; of one whose ``keys`` are there already, set ``columns``. No two rows have equal keys."""
    if not rows:
        return
    dialect = connection.dialect.name
    statement = _upsert(dialect, table, tuple(keys), tuple(columns), tuple(rows[0]))
    connection.execute(statement, {"rows": json.dumps(rows, default=_json)} if dialect == POSTGRESQL else rows)


@lru_cache(maxsize=256)
def _upsert(
    dialect: str, table: Table, keys: tuple[str, ...], columns: tuple[str, ...], names: tuple[str, ...]
) -> Executable:
    """Made once: that takes longer than to execute it."""
    if dialect == POSTGRESQL:
        given = _documents(table, names)
        insert = postgresql.insert(table).from_select(list(names), select(*[given.c[name] for name in names]))
        return insert.on_conflict_do_update(index_elements=keys, set_={name: insert.excluded[name] for name in columns})
    if dialect in MYSQL:
        into = mysql.insert(table)
        return into.on_duplicate_key_update({name: into.inserted[name] for name in columns})
    found = sqlite.insert(table)
    return found.on_conflict_do_update(index_elements=keys, set_={name: found.excluded[name] for name in columns})


def select_in(
    connection: Connection, table: Table, names: Sequence[str], column: str, values: Sequence[Any]
) -> Iterator[Any]:
    """The columns ``names`` of the rows whose ``column`` is one of ``values``."""
    statement = _select_in(connection.dialect.name, table, tuple(names), column)
    for chunk in chunks(values):
        yield from connection.execute(statement, {"values": list(chunk)})


@lru_cache(maxsize=256)
def _select_in(dialect: str, table: Table, names: tuple[str, ...], column: str) -> Select[Any]:
    """Made once, as :func:`_upsert`."""
    found = table.c[column]
    if dialect == POSTGRESQL:
        wanted = found == any_(bindparam("values", type_=ARRAY(found.type)))
    else:
        wanted = found.in_(bindparam("values", type_=found.type, expanding=True))
    return select(*[table.c[name] for name in names]).where(wanted)


def delete_in(connection: Connection, table: Table, column: ColumnElement[Any], values: Sequence[Any]) -> None:
    """Delete the rows whose ``column`` is one of ``values``."""
    for chunk in chunks(values):
        connection.execute(delete(table).where(_one_of(connection, column, chunk)))


def _one_of(connection: Connection, column: ColumnElement[Any], values: Sequence[Any]) -> ColumnElement[bool]:
    if connection.dialect.name != POSTGRESQL:
        return column.in_(values)
    return column == any_(literal(list(values), ARRAY(column.type)))
