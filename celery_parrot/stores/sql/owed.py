"""Parcels that decisions of these tables call for, until the coordinator has them in its queue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select

from celery_parrot.database.bulk import chunks, insert_absent
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.protocols import About, Parcel
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.history import Range, range_id


class Owed:
    """Written in the transaction of what calls for them; see :class:`~celery_parrot.protocols.Owing`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add(self, connection: Connection, parcels: Iterable[Parcel]) -> None:
        """Owe these, each once."""
        rows = [{"parcel_id": one.id, "body": json.dumps(one.to_json())} for one in parcels]
        insert_absent(connection, self._db.owed, ("parcel_id", "body"), rows)

    def read(self, limit: int) -> list[Parcel]:
        """See the protocol. What cannot be read is nobody's to send, and goes."""
        owed = self._db.owed
        query = select(owed.c.parcel_id, owed.c.body).order_by(owed.c.id).limit(max(limit, 0))
        rows = self._db.read(lambda connection: list(connection.execute(query)))
        found: list[Parcel] = []
        unreadable: list[str] = []
        for row in rows:
            try:
                found.append(Parcel.from_json(json.loads(row.body)))
            except (ValueError, KeyError, TypeError):
                unreadable.append(row.parcel_id)
        if unreadable:
            self.settle(unreadable)
        return found

    def settle(self, ids: Sequence[str]) -> None:
        """See the protocol."""
        owed = self._db.owed
        for some in chunks(sorted(ids)):
            statement = delete(owed).where(owed.c.parcel_id.in_(some))
            self._db.write(lambda connection, statement=statement: connection.execute(statement))  # type: ignore[misc]


def alert_of(record: FireRecord, failures: int, since: datetime | None) -> Parcel:
    """The alert of the failure that disabled its schedule."""
    finished = record.finished_at or record.committed_at or record.key.due_at
    return Parcel(
        id=f"{record.fire_id}:{About.ALERT}",
        fire_id=record.fire_id,
        key=record.key,
        name=record.name,
        about=About.ALERT,
        queued_at=finished,
        kind=record.kind,
        origin=record.origin,
        status=record.status,
        reason=record.reason,
        attempt=record.attempt,
        error=record.error,
        sent_at=record.sent_at,
        started_at=record.started_at,
        finished_at=record.finished_at,
        failures=failures,
        failing_since=since,
    )


def missed_of(gone: Range, now: datetime) -> Parcel | None:
    """What there is to tell of a range; None of one that was skipped."""
    if gone.status is not Status.MISSED:
        return None
    fire_id = range_id(gone.key)
    return Parcel(
        id=f"{fire_id}:{About.MISSED}",
        fire_id=fire_id,
        key=gone.key,
        name=gone.name,
        about=About.MISSED,
        queued_at=now,
        kind=gone.kind,
        origin=gone.origin,
        status=gone.status,
        reason=gone.reason,
        finished_at=now,
        until=gone.until if gone.count > 1 else None,
        count=gone.count,
    )
