"""States and history of schedules, and what their rows in a database do not know yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select, tuple_

from celery_parrot.coordination.rules.claim import ScheduleState
from celery_parrot.coordination.sql.codec import pack, unpack
from celery_parrot.coordination.sql.unit import Unit, readable
from celery_parrot.database.bulk import chunks, delete_in, select_in, upsert
from celery_parrot.model.fire import FireKey, FireRecord
from celery_parrot.protocols import Carried

_NO_LIMIT = 2**31 - 1


@dataclass(slots=True)
class _Schedule:
    """:ivar stored: the text in the table. ``entries``: at least so many history entries are there, or fewer."""

    state: ScheduleState | None = None
    stored: str | None = None
    entries: int = 0
    entries_stored: int = -1

    @property
    def held(self) -> str | None:
        return self.state.run.disabled_by if self.state is not None else None


class History:
    """What one operation has asked for, and what it wrote."""

    def __init__(self, unit: Unit) -> None:
        self._unit = unit
        self._tables = unit.tables
        self._schedules: dict[str, _Schedule] = {}
        self._held: dict[str, str | None] = {}
        self._entries: dict[FireKey, FireRecord | None] = {}
        self._written: dict[FireKey, None] = {}
        self._struck: set[FireKey] = set()
        self._fresh: set[FireKey] = set()  # written, and not in the table before
        self._keep: dict[str, int] = {}
        self._carry: dict[FireKey, Carried] = {}
        self._carried: dict[FireKey, int] = {}
        self.freed = False  # a schedule may fire that might not before, or the other way round

    # --- states ---

    def state(self, schedule_id: str) -> ScheduleState | None:
        return self._schedule(schedule_id).state

    def put_state(self, schedule_id: str, state: ScheduleState) -> None:
        self._schedule(schedule_id).state = state

    def _schedule(self, schedule_id: str) -> _Schedule:
        if schedule_id not in self._schedules:
            wanted = {schedule_id: None, **self._unit.hinted_schedules}
            ids = {self._unit.schedule(one): one for one in wanted if one not in self._schedules}
            self._schedules.update({one: _Schedule() for one in ids.values()})
            names = ["schedule", "entries", "body"]
            for row in select_in(self._unit.connection, self._tables.states, names, "schedule", list(ids)):
                found = self._schedules[ids[row.schedule]]
                found.entries = found.entries_stored = row.entries
                found.stored = row.body
                found.state = unpack(ScheduleState, row.body) if row.body is not None else None
                self._held[ids[row.schedule]] = found.held
        return self._schedules[schedule_id]

    # --- history ---

    def entry(self, key: FireKey) -> FireRecord | None:
        if key not in self._entries:
            wanted = [one for one in {key: None, **self._unit.hinted} if one not in self._entries]
            ids = {self._unit.fire_id(one): one for one in wanted}
            self._entries.update(dict.fromkeys(wanted))
            names = ["fire_id", "body"]
            for row in select_in(self._unit.connection, self._tables.entries, names, "fire_id", list(ids)):
                self._entries[ids[row.fire_id]] = unpack(FireRecord, row.body)
        return self._entries[key]

    def asked(self, schedule_id: str, nonce: str) -> FireKey | None:
        """The fire in the history that has this nonce."""
        self.flush()
        c = self._tables.entries.c
        statement = select(c.due_at).where(c.schedule == self._unit.schedule(schedule_id), c.nonce == nonce)
        due_at = self._unit.connection.execute(statement.limit(1)).scalar_one_or_none()
        return None if due_at is None else FireKey(schedule_id, due_at, nonce)

    def put_entry(self, record: FireRecord, keep: int) -> None:
        key = record.key
        if self.entry(key) is None and key not in self._struck:
            self._fresh.add(key)
        self._entries[key] = record
        self._written[key] = None
        self._struck.discard(key)
        self._keep[key.schedule_id] = keep

    def strike(self, key: FireKey) -> None:
        self._entries[key] = None
        self._written.pop(key, None)
        self._fresh.discard(key)
        self._struck.add(key)

    def read(self, schedule_id: str, since: datetime, before: datetime | None, limit: int) -> Sequence[FireRecord]:
        self.flush()
        c = self._tables.entries.c
        statement = select(c.body).where(c.schedule == self._unit.schedule(schedule_id), c.lasts_until >= since)
        if before is not None:
            statement = statement.where(c.due_at < before)
        statement = statement.order_by(c.due_at.desc(), c.nonce.desc()).limit(limit)
        return [unpack(FireRecord, row.body) for row in self._unit.connection.execute(statement)]

    def forget_before(self, before: datetime, limit: int) -> None:
        """Entries of due times that all lie before that, at most ``limit`` of them."""
        c = self._tables.entries.c
        old = select(c.fire_id).where(c.space == self._unit.space, c.lasts_until < before).limit(limit)
        found = self._unit.connection.execute(old).scalars().all()
        delete_in(self._unit.connection, self._tables.entries, c.fire_id, found)

    # --- what rows do not know yet ---

    def carry(self, item: Carried) -> None:
        self._carry[item.record.key] = item

    def carrying(self, key: FireKey) -> Carried | None:
        if key not in self._carry:
            self._flush_carries()
            c = self._tables.carries.c
            statement = select(c.body, c.serial, c.counted).where(c.fire_id == self._unit.fire_id(key))
            row = self._unit.connection.execute(statement).one_or_none()
            if row is None:
                return None
            return Carried(record=unpack(FireRecord, row.body), serial=row.serial, counted=row.counted)
        return self._carry[key]

    def carried(self, key: FireKey, serial: int) -> None:
        if key in self._carry:
            self._flush_carries()
        self._carried[key] = serial

    def uncarried(self, limit: int) -> Sequence[Carried]:
        self._flush_carries()
        c = self._tables.carries.c
        statement = select(c.body, c.serial, c.counted).where(c.space == self._unit.space).order_by(c.place)
        return [
            Carried(record=unpack(FireRecord, row.body), serial=row.serial, counted=row.counted)
            for row in self._unit.connection.execute(statement.limit(max(limit, 0)))
        ]

    def count_uncarried(self) -> int:
        self._flush_carries()
        c = self._tables.carries.c
        counted = select(func.count()).select_from(self._tables.carries).where(c.space == self._unit.space)
        return self._unit.connection.execute(counted).scalar_one()

    # --- writing ---

    def flush(self) -> None:
        connection, table = self._unit.connection, self._tables.entries
        delete_in(connection, table, table.c.fire_id, [self._unit.fire_id(key) for key in self._struck])
        rows = [self._entry_row(key) for key in self._written]
        if rows:
            upsert(connection, table, ["fire_id"], ["lasts_until", "status", "body"], rows)
        for key in self._fresh:
            self._schedule(key.schedule_id).entries += 1
        for schedule_id, keep in self._keep.items():
            self._prune(schedule_id, keep)
        self._struck.clear()
        self._written.clear()
        self._fresh.clear()
        self._keep.clear()
        self._flush_states()
        self._flush_carries()

    def _entry_row(self, key: FireKey) -> dict[str, Any]:
        record = self._entries[key]
        assert record is not None
        return {
            "fire_id": self._unit.fire_id(key),
            "schedule": self._unit.schedule(key.schedule_id),
            "space": self._unit.space,
            "due_at": key.due_at,
            "nonce": key.nonce,
            "lasts_until": record.until or key.due_at,
            "status": record.status.value,
            "body": pack(record),
        }

    def _prune(self, schedule_id: str, keep: int) -> None:
        """Back to the newest, a batch at a time so that most calls cost nothing."""
        found = self._schedule(schedule_id)
        if found.entries <= keep + max(keep // 10, 1):
            return
        c = self._tables.entries.c
        statement = select(c.fire_id).where(c.schedule == self._unit.schedule(schedule_id))
        statement = statement.order_by(c.due_at.desc(), c.nonce.desc()).offset(keep).limit(_NO_LIMIT)
        old = self._unit.connection.execute(statement).scalars().all()
        delete_in(self._unit.connection, self._tables.entries, c.fire_id, old)
        forgotten = set(old)
        for key in [key for key in self._entries if self._unit.fire_id(key) in forgotten]:
            self._entries[key] = None
        found.entries = keep

    def _flush_states(self) -> None:
        rows = []
        for schedule_id, found in self._schedules.items():
            body = pack(found.state) if found.state is not None else None
            if body == found.stored and found.entries in (found.entries_stored, 0):
                continue
            found.stored, found.entries_stored = body, found.entries
            self.freed |= self._held.get(schedule_id) != found.held
            self._held[schedule_id] = found.held
            rows.append(
                {
                    "schedule": self._unit.schedule(schedule_id),
                    "space": self._unit.space,
                    "schedule_id": readable(schedule_id),
                    "entries": found.entries,
                    "body": body,
                }
            )
        upsert(self._unit.connection, self._tables.states, ["schedule"], ["entries", "body"], rows)

    def _flush_carries(self) -> None:
        connection, table = self._unit.connection, self._tables.carries
        rows = []
        for key, item in self._carry.items():
            self._unit.places += 1
            rows.append(
                {
                    "fire_id": self._unit.fire_id(key),
                    "space": self._unit.space,
                    "place": self._unit.places,
                    "serial": item.serial,
                    "counted": item.counted,
                    "body": pack(item.record),
                }
            )
        upsert(connection, table, ["fire_id"], ["serial", "counted", "body"], rows)
        self._carry.clear()
        done = [(self._unit.fire_id(key), serial) for key, serial in self._carried.items()]
        for chunk in chunks(done):
            connection.execute(delete(table).where(tuple_(table.c.fire_id, table.c.serial).in_(chunk)))
        self._carried.clear()
