"""What waits to be told to somebody."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update

from celery_parrot.coordination.rules.claim import Queued
from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.unit import Unit, readable
from celery_parrot.database.bulk import chunks, insert_absent, update_each
from celery_parrot.protocols import Parcel


class Parcels:
    """A row stays when its parcel is sent, without it: its id is good once."""

    def __init__(self, unit: Unit) -> None:
        self._unit, self._table = unit, unit.tables.parcels
        self._new: dict[str, Queued] = {}
        self._changed: dict[str, Queued] = {}
        self._count: int | None = None

    def add(self, queued: Queued) -> None:
        if queued.parcel.id not in self._new:
            self._new[queued.parcel.id] = queued
            self._count = None if self._count is None else self._count + 1

    def keep(self, queued: Queued) -> None:
        self._changed[queued.parcel.id] = queued

    def queued(self, ids: Collection[str]) -> Mapping[str, Queued]:
        self.flush()
        c = self._table.c
        found: dict[str, Queued] = {}
        for some in chunks([self._key(id_) for id_ in ids]):
            statement = self._waiting().where(c.parcel_id.in_(some))
            found |= {one.parcel.id: one for one in self._ask(statement)}
        return found

    def page(self, after: Parcel | None, limit: int) -> Sequence[Queued]:
        self.flush()
        c = self._table.c
        statement = self._waiting().order_by(c.queued_at, c.name).limit(max(limit, 0))
        if after is not None:
            at, name = after.queued_at, _name(after)
            statement = statement.where(
                c.queued_at >= at, or_(c.queued_at > at, and_(c.queued_at == at, c.name > name))
            )
        return self._ask(statement)

    def count(self) -> int:
        if self._count is None:
            self.flush()
            statement = select(func.count()).select_from(self._table).where(*self._is_waiting())
            self._count = self._unit.connection.execute(statement).scalar_one()
        return self._count

    def sent(self, ids: Collection[str]) -> None:
        self.flush()
        self._count = None
        for some in chunks([self._key(id_) for id_ in ids]):
            statement = update(self._table).where(self._table.c.parcel_id.in_(some), *self._is_waiting())
            self._unit.connection.execute(statement.values(sent_at=self._unit.now, body=None))

    def forget_before(self, before: datetime) -> None:
        c = self._table.c
        self._unit.connection.execute(delete(self._table).where(c.space == self._unit.space, c.sent_at < before))

    def flush(self) -> None:
        """Write what is new and what changed."""
        columns = ("parcel_id", "space", "queued_at", "name", "owner", "taken_at", "body")
        insert_absent(self._unit.connection, self._table, columns, [self._row(one) for one in self._new.values()])
        rows = [self._row(one) for one in self._changed.values()]
        update_each(self._unit.connection, self._table, ("parcel_id",), ("owner", "taken_at"), rows)
        self._new.clear()
        self._changed.clear()

    # --- inside ---

    def _row(self, queued: Queued) -> dict[str, Any]:
        return {
            "parcel_id": self._key(queued.parcel.id),
            "space": self._unit.space,
            "queued_at": queued.parcel.queued_at,
            "name": _name(queued.parcel),
            "owner": queued.owner,
            "taken_at": queued.taken_at,
            "body": pack(queued.parcel),
        }

    def _is_waiting(self) -> tuple[Any, ...]:
        return self._table.c.space == self._unit.space, self._table.c.sent_at.is_(None)

    def _waiting(self) -> Any:
        c = self._table.c
        return select(c.owner, c.taken_at, c.body).where(*self._is_waiting())

    def _ask(self, statement: Any) -> list[Queued]:
        rows = self._unit.connection.execute(statement)
        return [Queued(unpack(Parcel, row.body), row.owner, row.taken_at) for row in rows]

    def _key(self, id_: str) -> str:
        return self._unit.parcel(id_)


def _name(parcel: Parcel) -> str:
    """What parcels of one moment are ordered by: the id, as far as it is told in a column."""
    return readable(parcel.id)[:128]
