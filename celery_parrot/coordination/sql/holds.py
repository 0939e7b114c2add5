"""Who holds which limit."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import delete, select, tuple_

from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.unit import Unit
from celery_parrot.database.bulk import chunks, select_in, upsert
from celery_parrot.model.fire import FireKey


class Holds:
    """The limits that one operation has asked for, and what it changed of them."""

    def __init__(self, unit: Unit) -> None:
        self._unit, self._table = unit, unit.tables.holds
        self._holders: dict[str, dict[FireKey, datetime]] = {}
        self._got: dict[tuple[str, FireKey], datetime] = {}
        self._let_go: set[tuple[str, FireKey]] = set()
        self._expected: set[str] = set()

    def expect(self, names: Iterable[str]) -> None:
        """Who holds these is about to be asked for."""
        self._expected.update(names)

    def holders(self, name: str) -> Mapping[FireKey, datetime]:
        return self._of(name)

    def _of(self, name: str) -> dict[FireKey, datetime]:
        if name not in self._holders:
            self._load({name, *self._expected}.difference(self._holders))
        return self._holders[name]

    def _load(self, names: Collection[str]) -> None:
        wanted = {self._unit.limit(name): name for name in names}
        columns = ["limit_id", "place", "fire_key", "since"]
        found = select_in(self._unit.connection, self._table, columns, "limit_id", list(wanted))
        self._holders.update((name, {}) for name in names)
        for row in sorted(found, key=lambda row: row.place):
            self._holders[wanted[row.limit_id]][unpack(FireKey, row.fire_key)] = row.since
        self._expected.clear()

    def hold(self, name: str, key: FireKey) -> None:
        holders = self._of(name)
        if key in holders:
            return
        holders[key] = self._got[name, key] = self._unit.now
        self._let_go.discard((name, key))

    def let_go(self, name: str, key: FireKey) -> None:
        holders = self._of(name)
        if key not in holders:
            return
        del holders[key]
        self._let_go.add((name, key))
        self._got.pop((name, key), None)

    def names(self) -> Sequence[str]:
        self.flush()
        c = self._table.c
        rows = self._unit.connection.execute(select(c.name).where(c.space == self._unit.space).distinct())
        return sorted(json.loads(row[0]) for row in rows)

    def flush(self) -> None:
        """Write what changed."""
        connection, table = self._unit.connection, self._table
        gone = [(self._unit.limit(name), self._unit.fire_id(key)) for name, key in self._let_go]
        for chunk in chunks(gone):
            connection.execute(delete(table).where(tuple_(table.c.limit_id, table.c.fire_id).in_(chunk)))
        rows = []
        for (name, key), since in self._got.items():
            self._unit.places += 1
            rows.append(
                {
                    "limit_id": self._unit.limit(name),
                    "fire_id": self._unit.fire_id(key),
                    "space": self._unit.space,
                    "name": json.dumps(name),
                    "place": self._unit.places,
                    "since": since,
                    "fire_key": pack(key),
                }
            )
        upsert(connection, table, ["limit_id", "fire_id"], ["place", "since"], rows)
        self._let_go.clear()
        self._got.clear()
