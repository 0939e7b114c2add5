"""Changing definitions. What an edit means for due times is the triggers' to note, whoever makes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, exc, insert, select, update

from celery_parrot.clock import new_id
from celery_parrot.database.bulk import json_value
from celery_parrot.database.types import utc_now
from celery_parrot.errors import Unreachable
from celery_parrot.model.codec import to_fields
from celery_parrot.model.schedule import Schedule, as_uuid
from celery_parrot.planning import just_before, one_shot, trigger_of
from celery_parrot.protocols.editing import Change, Written
from celery_parrot.stores.sql.definitions import (
    IN_POLICY,
    definition_columns,
    id_forms,
    read,
    to_row,
)
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.outcomes import forgive

_JSON = ("schedule_config", "args", "metadata", "options", "policy", "callbacks", "send_result")


@dataclass(frozen=True, slots=True)
class _Held:
    """A locked row, as far as every edit needs it."""

    schedule_id: str
    version: int
    enabled: bool
    disabled_by: str | None


class Editor:
    """:param settle: works out edits of these ids at once, so that who edits can read what came of it."""

    def __init__(self, database: Database, settle: Callable[[Sequence[str]], None], timezone: str) -> None:
        self._db, self._settle_now, self._timezone = database, settle, timezone

    # --- definitions ---

    def insert(self, schedules: Sequence[Schedule]) -> list[Written]:
        """See the protocol. A ``schedule_id`` that is no UUID is replaced by a new one."""
        ids = [as_uuid(schedule.schedule_id) or as_uuid(new_id()) or "" for schedule in schedules]

        def work(connection: Connection) -> list[Written]:
            now = connection.execute(select(utc_now())).scalar_one()
            assert now is not None
            return [self._insert(connection, one, id_, now) for one, id_ in zip(schedules, ids, strict=True)]

        written = self._db.write(work)
        self._settle(ids)
        return written

    def _insert(self, connection: Connection, schedule: Schedule, schedule_id: str, now: datetime) -> Written:
        values: dict[str, Any] = {
            **self._values(connection, to_row(schedule, {})),
            "schedule_id": schedule_id,
            "last_due": _first_mark(schedule, now),
        }
        if schedule.created_at is not None:
            values["created_at"] = schedule.created_at
        try:
            with connection.begin_nested():
                connection.execute(insert(self._db.schedules).values(values))
        except exc.IntegrityError:
            return Written.EXISTS
        return Written.DONE

    def replace(self, changes: Sequence[Change]) -> list[tuple[Written, int]]:
        """See the protocol. Columns that no field of a schedule stands for stay as they are."""

        def work(connection: Connection) -> list[tuple[Written, int]]:
            rows = self._lock_definitions(connection, [change.schedule.schedule_id for change in changes])
            return [self._replace(connection, change, rows) for change in changes]

        written = self._db.write(work)
        self._settle([change.schedule.schedule_id for change in changes])
        return written

    def _replace(
        self, connection: Connection, change: Change, rows: Mapping[str, Mapping[str, Any]]
    ) -> tuple[Written, int]:
        row = _of(change.schedule.schedule_id, rows)
        if row is None:
            return Written.GONE, 0
        version = int(row["version"])
        if change.version is not None and change.version != version:
            return Written.CONFLICT, version
        new = self._changed(row, change.schedule)
        schedules = self._db.schedules
        mine = schedules.c.schedule_id == row["schedule_id"]
        if not new:
            return Written.DONE, version
        try:
            with connection.begin_nested():
                values = {**self._values(connection, new), "version": version + 1}
                connection.execute(update(schedules).where(mine).values(values))
        except exc.IntegrityError:
            return Written.EXISTS, version
        return Written.DONE, connection.execute(select(schedules.c.version).where(mine)).scalar_one()

    def _changed(self, row: Mapping[str, Any], schedule: Schedule) -> dict[str, Any]:
        """The columns that have to be written. What only is spelled differently, or by a default, is no change: it
        must not look like an edit of *when*."""
        before_ = read(row, self._timezone).schedule
        old_policy = _parsed(row["policy"])
        policy = dict(old_policy) if isinstance(old_policy, Mapping) else {}
        fields = to_fields(schedule)
        old_fields = to_fields(before_) if before_ is not None else {}
        for name in (*IN_POLICY, "timezone"):
            if before_ is None or fields[name] != old_fields[name]:
                policy[name] = fields[name]
        new = to_row(schedule, policy)
        new["policy"] = json.dumps(policy, ensure_ascii=False, separators=(",", ":"))
        if not row["name"] and schedule.name == row["schedule_id"]:
            new["name"] = row["name"]
        return {name: value for name, value in new.items() if not _same(name, row[name], value)}

    def delete(self, schedule_ids: Sequence[str], version: int | None) -> list[Written]:
        """See the protocol."""

        def gone(connection: Connection, rows: Sequence[_Held]) -> None:
            schedules = self._db.schedules
            ids = [row.schedule_id for row in rows]
            connection.execute(delete(schedules).where(schedules.c.schedule_id.in_(ids)))
            connection.execute(delete(self._db.outcomes).where(self._db.outcomes.c.schedule_id.in_(ids)))

        return self._each(schedule_ids, version, gone)

    # --- pause and resume ---

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None) -> list[Written]:
        """See the protocol. What a person paused is not taken over by failures."""

        def held(connection: Connection, rows: Sequence[_Held]) -> None:
            schedules = self._db.schedules
            ids = [row.schedule_id for row in rows if row.disabled_by is None or by == "person"]
            connection.execute(
                update(schedules).where(schedules.c.schedule_id.in_(ids)).values(disabled_by=by, note=note)
            )

        return self._each(schedule_ids, version, held)

    def release(self, schedule_ids: Sequence[str], version: int | None) -> list[Written]:
        """See the protocol. Also enables a row that somebody disabled by ``enabled`` alone."""

        def released(connection: Connection, rows: Sequence[_Held]) -> None:
            schedules = self._db.schedules
            ids = [row.schedule_id for row in rows]
            connection.execute(
                update(schedules)
                .where(schedules.c.schedule_id.in_(ids))
                .values(disabled_by=None, note=None, consecutive_failures=0, enabled=True)
            )
            forgive(connection, self._db, ids)

        written = self._each(schedule_ids, version, released)
        self._settle(schedule_ids)
        return written

    def _each(
        self, schedule_ids: Sequence[str], version: int | None, act: Callable[[Connection, Sequence[_Held]], None]
    ) -> list[Written]:
        """Lock the rows, sort out those that are gone or of another version, and act on the others."""
        c = self._db.schedules.c
        ids = id_forms(schedule_ids, strict=self._db.postgresql)

        def work(connection: Connection) -> list[Written]:
            query = (
                select(c.schedule_id, c.version, c.enabled, c.disabled_by)
                .where(c.schedule_id.in_(ids))
                .order_by(c.schedule_id)
                .with_for_update()
            )
            rows = {
                row.schedule_id: _Held(row.schedule_id, row.version, bool(row.enabled), row.disabled_by)
                for row in connection.execute(query)
            }
            written: list[Written] = []
            good: list[_Held] = []
            for id_ in schedule_ids:
                row = _of(id_, rows)
                if row is None:
                    written.append(Written.GONE)
                elif version is not None and row.version != version:
                    written.append(Written.CONFLICT)
                else:
                    written.append(Written.DONE)
                    good.append(row)
            if good:
                act(connection, good)
            return written

        return self._db.write(work)

    def _lock_definitions(self, connection: Connection, ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
        schedules = self._db.schedules
        query = (
            select(*definition_columns(connection, schedules))
            .where(schedules.c.schedule_id.in_(id_forms(ids, strict=self._db.postgresql)))
            .order_by(schedules.c.schedule_id)
            .with_for_update()
        )
        return {row["schedule_id"]: dict(row) for row in connection.execute(query).mappings()}

    @staticmethod
    def _values(connection: Connection, row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: json_value(connection, value) if name in _JSON else value for name, value in row.items()}

    def _settle(self, schedule_ids: Sequence[str]) -> None:
        """At best effort: the edit is made, and any beat will do this at its next tick."""
        try:
            self._settle_now(id_forms(schedule_ids, strict=self._db.postgresql))
        except Unreachable:
            return


def _first_mark(schedule: Schedule, now: datetime) -> datetime | None:
    """The mark of a new schedule; None where it cannot be told yet and its creation has to do."""
    if schedule.created_at is None:
        return None
    try:
        instant = one_shot(trigger_of(schedule))
    except Exception:  # stored all the same, and shown as broken
        return None
    return min(now, just_before(instant)) if instant is not None else now


def _of(schedule_id: str, rows: Mapping[str, Any]) -> Any:
    return next((rows[form] for form in (schedule_id, *id_forms([schedule_id], strict=False)) if form in rows), None)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return text


def _same(name: str, old: Any, new: Any) -> bool:
    if name in _JSON:
        return old is not None and _parsed(old) == _parsed(new)
    if name == "enabled":
        return old is not None and bool(old) == new
    return bool(old == new)
