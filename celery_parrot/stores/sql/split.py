"""Rows of several due times that were not fired, around one that is fired after all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, update

from celery_parrot.database.bulk import insert_absent
from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.model.plan import NotFired
from celery_parrot.planning import around
from celery_parrot.stores.sql.definitions import definition_columns, read
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.history import COMMIT_COLUMNS, Range, range_row
from celery_parrot.triggers import Trigger

_NEEDED = ("due_at", "until", "count", "status", "reason", "name", "kind", "origin", "beat", "token", "finished_at")


class Splitter:
    """Leaves of each row what lies before and after, so that the history has every due time once.

    Its schedule is locked by the caller.

    :param timezone: the zone of schedules that name none.
    """

    def __init__(self, database: Database, timezone: str) -> None:
        self._db, self._timezone = database, timezone

    def split(self, connection: Connection, keys: Sequence[FireKey]) -> None:
        """Around each of these due times, where a row of several covers it."""
        triggers: dict[str, Trigger | None] = {}
        for key in sorted(keys):
            row = self._covering(connection, key)
            if row is None:
                continue
            if key.schedule_id not in triggers:
                triggers[key.schedule_id] = self._trigger(connection, key.schedule_id)
            run = NotFired(Status(row["status"]), row["reason"] or "", row["due_at"], row["until"], row["count"])
            self._write(connection, key, row, *around(triggers[key.schedule_id], run, key.due_at))

    def _covering(self, connection: Connection, key: FireKey) -> Mapping[str, Any] | None:
        c = self._db.fires.c
        query = (
            select(*[c[name] for name in _NEEDED])
            .where(c.schedule_id == key.schedule_id, c.due_at <= key.due_at, c.until >= key.due_at)
            .where(c.committed_at.is_(None))
            .order_by(c.due_at.desc())
            .limit(1)
            .with_for_update()
        )
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else dict(row)

    def _trigger(self, connection: Connection, schedule_id: str) -> Trigger | None:
        schedules = self._db.schedules
        query = select(*definition_columns(connection, schedules)).where(schedules.c.schedule_id == schedule_id)
        row = connection.execute(query).mappings().one_or_none()
        return None if row is None else read(dict(row), self._timezone).trigger

    def _write(
        self,
        connection: Connection,
        key: FireKey,
        row: Mapping[str, Any],
        before: NotFired | None,
        after: NotFired | None,
    ) -> None:
        """The row at the due time itself, if that is where it begins, becomes the fire's."""
        fires = self._db.fires
        if before is not None:
            where = (fires.c.schedule_id == key.schedule_id) & (fires.c.due_at == row["due_at"]) & (fires.c.nonce == "")
            until = before.last if before.count > 1 else None
            connection.execute(update(fires).where(where).values(until=until, count=before.count))
        if after is not None:
            gone = Range(
                key=FireKey(key.schedule_id, after.first),
                until=after.last,
                count=after.count,
                status=after.status,
                reason=after.reason,
                name=row["name"],
                kind=row["kind"],
                origin=Origin(row["origin"]),
            )
            made = range_row(gone, beat=row["beat"] or "", token=row["token"], now=row["finished_at"])
            insert_absent(connection, fires, COMMIT_COLUMNS, [made])
