"""Signs of life of beats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import delete, select

from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.unit import Unit
from celery_parrot.database.bulk import upsert
from celery_parrot.model.state import Beat


class Beats:
    """All beats of a name are read at once, when one is first asked for: they are few."""

    def __init__(self, unit: Unit) -> None:
        self._unit, self._table = unit, unit.tables.beats
        self._all: dict[str, tuple[datetime, Beat | None]] | None = None
        self._seen: dict[str, Beat | None] = {}

    def _known(self) -> dict[str, tuple[datetime, Beat | None]]:
        if self._all is None:
            c = self._table.c
            rows = self._unit.connection.execute(select(c.owner, c.seen, c.body).where(c.space == self._unit.space))
            self._all = {r.owner: (r.seen, unpack(Beat, r.body) if r.body is not None else None) for r in rows}
            for owner, beat in self._seen.items():
                self._all[owner] = (self._unit.now, beat or self._all.get(owner, (None, None))[1])
        return self._all

    def seen(self, owner: str) -> datetime | None:
        if owner in self._seen:
            return self._unit.now
        found = self._known().get(owner)
        return found[0] if found is not None else None

    def see(self, owner: str, beat: Beat | None) -> None:
        self._seen[owner] = beat or self._seen.get(owner)
        if self._all is not None:
            self._all[owner] = (self._unit.now, beat or self._all.get(owner, (None, None))[1])

    def forget(self, owner: str) -> None:
        self._seen.pop(owner, None)
        if self._all is not None:
            self._all.pop(owner, None)
        c = self._table.c
        self._unit.connection.execute(delete(self._table).where(c.space == self._unit.space, c.owner == owner))

    def forget_before(self, before: datetime) -> None:
        self.flush()
        self._all = None
        c = self._table.c
        self._unit.connection.execute(delete(self._table).where(c.space == self._unit.space, c.seen < before))

    def beats(self) -> Sequence[Beat]:
        known = sorted(self._known().items())
        return [replace(beat, seen=seen) for _, (seen, beat) in known if beat is not None]

    def flush(self) -> None:
        """Write what was seen."""
        for told in (True, False):
            rows = [
                {
                    "space": self._unit.space,
                    "owner": owner,
                    "seen": self._unit.now,
                    "body": pack(beat) if beat is not None else None,
                }
                for owner, beat in self._seen.items()
                if (beat is not None) is told
            ]
            columns = ["seen", "body"] if told else ["seen"]
            upsert(self._unit.connection, self._table, ["space", "owner"], columns, rows)
        self._seen.clear()
