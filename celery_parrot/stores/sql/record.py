"""What happened to fires, brought into their history rows and their schedules' run state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, or_, select, tuple_, update

from celery_parrot.database.bulk import chunks, insert_absent, update_each
from celery_parrot.database.types import utc_now
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.model.schedule import as_uuid
from celery_parrot.protocols.ledger import Carried
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.history import AUTOMATIC, IDENTITY, RECORD_COLUMNS
from celery_parrot.stores.sql.outcomes import Outcomes, merged_notes, newer, notes_of
from celery_parrot.stores.sql.owed import Owed
from celery_parrot.stores.sql.split import Splitter

_WRITTEN: Final = tuple(name for name in (*RECORD_COLUMNS, "serial") if name not in IDENTITY)
_RUN_STATE: Final = (
    "last_run",
    "run_count",
    "auto_count",
    "last_status",
    "last_error",
    "last_error_at",
    "last_result",
    "last_result_at",
    "consecutive_failures",
)


class Recorder:
    """Two beats that carry the same thing write it once: both lock the schedule's row first."""

    def __init__(self, database: Database, owed: Owed, timezone: str = "UTC", max_failures: int = 3) -> None:
        self._db = database
        self._outcomes = Outcomes(database, owed, max_failures)
        self._splitter = Splitter(database, timezone)

    def record(self, items: Sequence[Carried]) -> None:
        """See the protocol."""
        ours = [item for item in items if not self._db.postgresql or as_uuid(item.record.key.schedule_id) is not None]
        for some in chunks(sorted(ours, key=lambda item: item.serial), 200):
            self._db.write(lambda connection, some=some: self._record(connection, some))  # type: ignore[misc]

    def _record(self, connection: Connection, items: Sequence[Carried]) -> None:
        states = self._lock(connection, {item.record.key.schedule_id for item in items})
        self._splitter.split(connection, [one.record.key for one in items if _is_backfill(one.record)])
        rows = self._rows(connection, [item.record.key for item in items])
        known = {key.schedule_id for key in rows} | states.keys()
        new: dict[FireKey, dict[str, Any]] = {}
        changed: dict[FireKey, dict[str, Any]] = {}
        touched: set[str] = set()
        freed: set[str] = set()
        for item in items:
            key = item.record.key
            row = rows.get(key)
            if key.schedule_id not in known or not supersedes(item, row):
                continue
            state = states.get(key.schedule_id)
            if state is not None:
                self._outcomes.told(state, row, item.record)
            if state is not None and self._count(state, row, item):
                touched.add(key.schedule_id)
                if state.pop("freed", False):
                    freed.add(key.schedule_id)
            values = _values(item, row)
            target = new if row is None or key in new else changed
            target[key] = {**dict(zip(IDENTITY, (key.schedule_id, key.due_at, key.nonce), strict=True)), **values}
            rows[key] = {**(row or {}), **values}
        insert_absent(connection, self._db.fires, (*IDENTITY, *_WRITTEN), list(new.values()))
        update_each(connection, self._db.fires, IDENTITY, _WRITTEN, list(changed.values()))
        update_each(
            connection, self._db.schedules, ("schedule_id",), _RUN_STATE, [states[id_] for id_ in sorted(touched)]
        )
        self._outcomes.save(connection, states)
        self._plan_anew(connection, sorted(freed))

    def _lock(self, connection: Connection, schedule_ids: set[str]) -> dict[str, dict[str, Any]]:
        c = self._db.schedules.c
        query = (
            select(c.schedule_id, c.enabled, c.disabled_by, c.note, *[c[name] for name in _RUN_STATE])
            .where(c.schedule_id.in_(schedule_ids))
            .order_by(c.schedule_id)
            .with_for_update()
        )
        states = {row["schedule_id"]: dict(row) for row in connection.execute(query).mappings()}
        self._outcomes.remember(connection, states)
        return states

    def _rows(self, connection: Connection, keys: Sequence[FireKey]) -> dict[FireKey, Mapping[str, Any]]:
        fires = self._db.fires
        identity = tuple_(*[fires.c[name] for name in IDENTITY])
        query = (
            select(*[fires.c[name] for name in (*RECORD_COLUMNS, "serial")])
            .where(
                fires.c.schedule_id.in_({key.schedule_id for key in keys}),
                identity.in_([(key.schedule_id, key.due_at, key.nonce) for key in keys]),
            )
            .order_by(*[fires.c[name] for name in IDENTITY])
            .with_for_update()
        )
        found = connection.execute(query).mappings()
        return {FireKey(row["schedule_id"], row["due_at"], row["nonce"]): dict(row) for row in found}

    def _count(self, state: dict[str, Any], row: Mapping[str, Any] | None, item: Carried) -> bool:
        """Bring the run state up to this step of the fire; false if it says nothing new."""
        record = item.record
        before = dict(state)
        if record.sent_at is not None and (row is None or row["sent_at"] is None):
            state["run_count"] = (state["run_count"] or 0) + 1
            state["last_run"] = max(record.sent_at, state["last_run"] or record.sent_at)
        if ends(record, row):
            self._outcomes.ended(state, item)
            reserved = row is not None and row["committed_at"] is not None and record.origin in AUTOMATIC
            if reserved and record.sent_at is None and row is not None and row["sent_at"] is None:
                state["auto_count"] = max(state["auto_count"] - 1, 0)
                state["freed"] = True
        return state != before

    def _plan_anew(self, connection: Connection, schedule_ids: Sequence[str]) -> None:
        """A fire given back may be one more that ``max_fires`` allows: have ``next_run`` computed again."""
        schedules, changes = self._db.schedules, self._db.changes
        if not schedule_ids:
            return
        source = select(schedules.c.schedule_id, schedules.c.target_kind, utc_now()).where(
            schedules.c.schedule_id.in_(schedule_ids),
            schedules.c.next_run.is_(None),
            schedules.c.broken_reason.is_(None),
        )
        connection.execute(changes.insert().from_select(["schedule_id", "target_kind", "changed_at"], source))

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        """See the protocol."""
        c = self._db.schedules.c
        ids = sorted(id_ for id_ in schedule_ids if not self._db.postgresql or as_uuid(id_) is not None)
        for some in chunks(ids):
            statement = (
                update(self._db.schedules)
                .where(c.schedule_id.in_(some), or_(c.last_status.is_(None), c.last_status != "lock_unavailable"))
                .values(last_status="lock_unavailable")
            )
            self._db.write(lambda connection, statement=statement: connection.execute(statement))  # type: ignore[misc]


def supersedes(item: Carried, row: Mapping[str, Any] | None) -> bool:
    """Whether an item is news for its row.

    Serials are the coordinator's; one that forgot counts from the beginning, so an outcome is news for a fire
    that has none whatever its serial, and nothing but a later attempt or a note is news for one that has.
    """
    if row is None:
        return True
    record, status = item.record, Status(row["status"])
    if record.attempt < row["attempt"]:
        return False
    if status.terminal and record.status is status and _told_more(record, row):
        return True
    if not status.terminal:
        return record.status.terminal or item.serial > row["serial"] or record.attempt > row["attempt"]
    if status is Status.UNKNOWN or row["committed_at"] is None:
        return record.status is not status or item.serial > row["serial"]
    if record.attempt > row["attempt"]:
        return True
    return record.status is status and record.late_result is not None and record.late_result != row["late_result"]


def _told_more(record: FireRecord, row: Mapping[str, Any]) -> bool:
    """Whether somebody was told of it, or could not be, since the row was written."""
    known = notes_of(row)
    return any(newer(note, known, about) for about, note in record.delivery.items())


def _is_backfill(record: FireRecord) -> bool:
    """Whether it may take the place of a due time that was not fired. A forced one stands beside it."""
    return record.origin is Origin.BACKFILL and not record.key.nonce


def ends(record: FireRecord, row: Mapping[str, Any] | None) -> bool:
    """Whether this step gives the fire an outcome that has not been counted."""
    if not record.status.terminal:
        return False
    if row is None or not Status(row["status"]).terminal or record.attempt > row["attempt"]:
        return True
    return record.status is not Status(row["status"])


def _values(item: Carried, row: Mapping[str, Any] | None) -> dict[str, Any]:
    """The row as the item tells it. Stamps that it does not tell stay."""
    record = item.record
    values = {name: getattr(record, name) for name in _WRITTEN if name not in ("serial", "status", "origin")}
    values.update(status=str(record.status), origin=str(record.origin), fire_id=record.fire_id or None)
    values["delivery"] = merged_notes(record, row)
    for name in ("committed_at", "sent_at", "started_at", "late_result"):
        if values[name] is None and row is not None:
            values[name] = row[name]
    values["serial"] = max(item.serial, row["serial"] if row is not None else 0)
    return values
