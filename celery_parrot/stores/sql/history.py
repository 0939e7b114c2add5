"""The table of fires: what is written there, and reading it back."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, func, select, tuple_

from celery_parrot.database.bulk import Row, chunks, insert_absent
from celery_parrot.database.types import EARLIEST, utc_now
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.stores.sql.definitions import id_forms
from celery_parrot.stores.sql.engine import Database

IDENTITY: Final = ("schedule_id", "due_at", "nonce")
AUTOMATIC: Final = frozenset({Origin.SCHEDULE, Origin.CATCH_UP})

RECORD_COLUMNS: Final = (
    *IDENTITY,
    "fire_id",
    "status",
    "reason",
    "origin",
    "kind",
    "name",
    "attempt",
    "beat",
    "worker",
    "committed_at",
    "sent_at",
    "started_at",
    "finished_at",
    "output",
    "error",
    "late_result",
    "until",
    "count",
    "traceback",
    "delivery",
)
COMMIT_COLUMNS: Final = (
    *IDENTITY,
    "fire_id",
    "token",
    "status",
    "reason",
    "origin",
    "kind",
    "name",
    "beat",
    "committed_at",
    "finished_at",
    "until",
    "count",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Due times that are decided without firing. ``key``: the first of them; ``until``: the last."""

    key: FireKey
    until: datetime
    count: int
    status: Status
    reason: str
    name: str
    kind: str
    origin: Origin = Origin.SCHEDULE


def range_id(key: FireKey) -> str:
    """An id for an entry that never had a claim: the same whoever writes it."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"parrot:range:{key.text}"))


def range_row(gone: Range, *, beat: str, token: str | None, now: datetime) -> Row:
    """The row of a range."""
    return {
        "schedule_id": gone.key.schedule_id,
        "due_at": gone.key.due_at,
        "nonce": gone.key.nonce,
        "fire_id": range_id(gone.key),
        "token": token,
        "status": str(gone.status),
        "reason": gone.reason,
        "origin": str(gone.origin),
        "kind": gone.kind,
        "name": gone.name,
        "beat": beat,
        "committed_at": None,
        "finished_at": now,
        "until": gone.until if gone.count > 1 else None,
        "count": gone.count,
    }


def insert_ranges(connection: Connection, fires: Table, ranges: Sequence[Range]) -> None:
    """Add entries unless they are there already."""
    if not ranges:
        return
    now = connection.execute(select(utc_now())).scalar_one()
    rows = [range_row(gone, beat="", token=None, now=now) for gone in ranges]
    insert_absent(connection, fires, COMMIT_COLUMNS, rows)


def known(connection: Connection, fires: Table, schedule_id: str) -> bool:
    """Whether anything was ever decided about this schedule."""
    query = select(fires.c.schedule_id).where(fires.c.schedule_id == schedule_id).limit(1)
    return connection.execute(query).first() is not None


def parsed_notes(text: str | None) -> dict[str, Any]:
    """The column ``delivery``: what was told of a fire, by what it was about."""
    try:
        found = json.loads(text) if text else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def to_record(row: Mapping[str, Any]) -> FireRecord:
    """A row as what a person reads."""
    return FireRecord(
        fire_id=row["fire_id"] or "",
        key=FireKey(row["schedule_id"], row["due_at"], row["nonce"]),
        name=row["name"],
        kind=row["kind"],
        origin=Origin(row["origin"]),
        status=Status(row["status"]),
        reason=row["reason"] or "",
        beat=row["beat"] or "",
        worker=row["worker"] or "",
        **{
            name: row[name]
            for name in (
                "attempt",
                "committed_at",
                "sent_at",
                "started_at",
                "finished_at",
                "output",
                "error",
                "late_result",
                "until",
                "count",
                "traceback",
            )
        },
        delivery=parsed_notes(row["delivery"]),
    )


class History:
    """Reading and pruning.

    :param days: age at which entries go; ``limit``: how many a schedule keeps.
    """

    FULL_LOOK_EVERY: Final = 60
    """Every so many prunings all schedules are looked at for too many entries; else only those that moved since."""

    _REMEMBERED: Final = 20_000

    def __init__(self, database: Database, days: float, limit: int) -> None:
        self._db, self._days, self._limit = database, days, limit
        self._moved: dict[str, None] = {}
        self._prunings = 0

    def fires(self, schedule_id: str, limit: int, before: datetime | None) -> Sequence[FireRecord]:
        """See the protocol."""
        fires = self._db.fires
        ids = id_forms([schedule_id], strict=self._db.postgresql)
        if not ids or limit <= 0:
            return []
        query = (
            select(*[fires.c[name] for name in RECORD_COLUMNS])
            .where(fires.c.schedule_id.in_(ids))
            .order_by(fires.c.due_at.desc(), fires.c.nonce.desc())
            .limit(limit)
        )
        if before is not None:
            query = query.where(fires.c.due_at < before)
        rows = self._db.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
        return [to_record(row) for row in rows]

    def moved(self, schedule_ids: Sequence[str]) -> None:
        """These got new entries."""
        for id_ in schedule_ids:
            if len(self._moved) < self._REMEMBERED:
                self._moved[id_] = None

    def prune(self, limit: int) -> int:
        """See the protocol."""
        full = self._prunings % self.FULL_LOOK_EVERY == 0
        self._prunings += 1
        moved, self._moved = self._moved, {}
        gone = self._prune_old(limit)
        full_schedules = self._crowded(None if full else list(moved))
        for schedule_id in full_schedules:
            if gone >= limit:
                self._moved[schedule_id] = None
                continue
            cut = self._prune_crowded(schedule_id, limit - gone)
            gone += cut
            if gone >= limit:
                self._moved[schedule_id] = None
        return gone

    def _prune_old(self, limit: int) -> int:
        now = self._db.now()
        age = timedelta(days=self._days)
        oldest = now - age if now - EARLIEST > age else EARLIEST
        fires = self._db.fires
        query = (
            select(*[fires.c[name] for name in IDENTITY])
            .where(fires.c.due_at < oldest, func.coalesce(fires.c.until, fires.c.due_at) < oldest)
            .order_by(fires.c.due_at)
            .limit(limit)
        )
        return self._delete(query)

    def _crowded(self, schedule_ids: Sequence[str] | None) -> list[str]:
        fires = self._db.fires
        query = select(fires.c.schedule_id).group_by(fires.c.schedule_id).having(func.count() > self._limit)
        if schedule_ids is None:
            return self._db.read(lambda connection: list(connection.execute(query.limit(1000)).scalars()))
        found: list[str] = []
        for some in chunks(schedule_ids):
            part = query.where(fires.c.schedule_id.in_(some))
            found += self._db.read(lambda connection, part=part: list(connection.execute(part).scalars()))  # type: ignore[misc]
        return found

    def _prune_crowded(self, schedule_id: str, limit: int) -> int:
        fires = self._db.fires
        mine = fires.c.schedule_id == schedule_id
        count = self._db.read(lambda connection: connection.execute(select(func.count()).where(mine)).scalar_one())
        query = (
            select(*[fires.c[name] for name in IDENTITY])
            .where(mine)
            .order_by(fires.c.due_at, fires.c.nonce)
            .limit(min(limit, max(count - self._limit, 0)))
        )
        return self._delete(query)

    def _delete(self, query: Any) -> int:
        """In one short transaction. Two beats that prune at once wait for no row of each other's."""
        fires = self._db.fires
        if not self._db.sqlite:
            query = query.with_for_update(skip_locked=True)

        def work(connection: Connection) -> int:
            keys = [tuple(row) for row in connection.execute(query)]
            if keys:
                identity = tuple_(*[fires.c[name] for name in IDENTITY])
                connection.execute(delete(fires).where(identity.in_(keys)))
            return len(keys)

        return self._db.write(work)
