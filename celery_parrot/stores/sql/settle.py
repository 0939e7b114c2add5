"""Working out what an INSERT or an edit means for due times: the notes that the triggers left.

Any beat may do it, and two may at once: what they write follows from the note and the row, by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select, update

from celery_parrot.database.bulk import update_each
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.planning import PAUSED, SUPERSEDED, following, just_before, one_shot
from celery_parrot.protocols import About, Parcel
from celery_parrot.stores.sql import history
from celery_parrot.stores.sql.definitions import (
    COLUMNS,
    Definition,
    DefinitionCache,
    definition_columns,
    fault_of,
    read,
)
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.marks import ANCIENT, initial_mark, undecided
from celery_parrot.stores.sql.owed import Owed, missed_of
from celery_parrot.triggers import Trigger

COUNTED_AT_ONCE = 10_000
"""Due times that one note accounts for in one go; a longer stretch takes several ticks, each leaving one entry."""

_STATE = ("last_due", "next_run", "auto_count", "broken_reason")
_OLD = ("old_name", "old_type", "old_config", "old_policy", "old_created_at", "old_mark", "old_held")


@dataclass(slots=True)
class _Settled:
    """What is to be written for one row."""

    schedule_id: str
    row: Mapping[str, Any]
    done: list[int] = field(default_factory=list)  # notes
    shortened: list[tuple[int, datetime]] = field(default_factory=list)  # notes with the mark they now start from
    ranges: list[history.Range] = field(default_factory=list)
    definition: Definition | None = None  # None: the row is gone
    mark: datetime | None = None
    next_run: datetime | None = None
    fault: str = ""


class Settler:
    """:param timezone: the zone of rows that name none. :param allowed: what they may call."""

    def __init__(
        self, database: Database, cache: DefinitionCache, timezone: str, allowed: AllowedTasks = EVERY_TASK
    ) -> None:
        self._db, self._cache, self._timezone, self._allowed = database, cache, timezone, allowed
        self._owed = Owed(database)

    def run(self, where: Any, limit: int) -> int:
        """Settle the notes that match ``where``, oldest first, at most ``limit``; how many there were."""
        notes = self._db.read(lambda connection: self._notes(connection, where, limit))
        if not notes:
            return 0
        by_schedule: dict[str, list[Mapping[str, Any]]] = {}
        for note in notes:
            by_schedule.setdefault(note["note_schedule_id"], []).append(note)
        settled = [self._work_out(id_, some) for id_, some in by_schedule.items()]
        self._db.write(lambda connection: self._save(connection, settled))
        return len(notes)

    def _notes(self, connection: Connection, where: Any, limit: int) -> Sequence[Mapping[str, Any]]:
        changes, schedules = self._db.changes, self._db.schedules
        query = (
            select(
                changes.c.id,
                changes.c.schedule_id.label("note_schedule_id"),
                changes.c.target_kind.label("note_kind"),
                changes.c.changed_at,
                changes.c.enabling,
                *[changes.c[name] for name in _OLD],
                *definition_columns(connection, schedules),
                *[schedules.c[name] for name in _STATE],
            )
            .select_from(changes.outerjoin(schedules, schedules.c.schedule_id == changes.c.schedule_id))
            .where(where)
            .order_by(changes.c.id)
            .limit(limit)
        )
        return [dict(row) for row in connection.execute(query).mappings()]

    # --- working it out ---

    def _work_out(self, schedule_id: str, notes: Sequence[Mapping[str, Any]]) -> _Settled:
        row = notes[-1]
        settled = _Settled(schedule_id, row)
        for note in notes:
            if note["old_type"] is None or not self._supersede(settled, note):
                settled.done.append(note["id"])
        if row["schedule_id"] is None:  # deleted meanwhile
            return settled
        definition = settled.definition = read(row, self._timezone, self._allowed)
        settled.fault = definition.fault
        if definition.schedule is None or definition.trigger is None:
            return settled
        try:
            mark = self._mark(definition, row, notes)
            settled.mark = mark
            settled.next_run = following(definition.schedule, definition.trigger, mark, row["auto_count"])
        except Exception as exc:  # what a trigger may raise: the others run
            settled.fault = fault_of(exc)
        return settled

    def _mark(self, definition: Definition, row: Mapping[str, Any], notes: Sequence[Mapping[str, Any]]) -> datetime:
        schedule, trigger = definition.schedule, definition.trigger
        assert schedule is not None
        assert trigger is not None
        mark: datetime | None = row["last_due"]
        if mark is None:
            return initial_mark(schedule, trigger, inserted_at=notes[0]["changed_at"], next_run=row["next_run"])
        arrived: datetime = notes[0]["changed_at"]
        if arrived - mark > ANCIENT:
            return arrived
        instant = one_shot(trigger)
        edited = any(note["old_type"] is not None for note in notes) and not any(note["enabling"] for note in notes)
        if (
            instant is not None
            and instant <= mark
            and edited
            and not self._db.read(lambda connection: history.known(connection, self._db.fires, row["schedule_id"]))
        ):
            return just_before(instant)  # nothing was decided yet: as if it had been created with this instant
        return mark

    def _supersede(self, settled: _Settled, note: Mapping[str, Any]) -> bool:
        """Add the entry for what was undecided under the old definition; true if that is all of it."""
        old = self._old(note)
        if old is None:
            return False
        trigger, mark = old
        try:
            ends, count, more = undecided(trigger, mark, note["changed_at"], COUNTED_AT_ONCE)
        except Exception:  # it never could be computed, so nothing of it was ever due
            return False
        if ends:
            held = note["old_held"] is not None
            settled.ranges.append(
                history.Range(
                    key=FireKey(settled.schedule_id, ends[0]),
                    until=ends[1],
                    count=count,
                    status=Status.SKIPPED if held else Status.MISSED,
                    reason=PAUSED if held else SUPERSEDED,
                    name=note["old_name"] or settled.schedule_id,
                    kind=note["note_kind"],
                    origin=Origin.SCHEDULE,
                )
            )
        if more:
            settled.shortened.append((note["id"], ends[1]))
        return more

    def _old(self, note: Mapping[str, Any]) -> tuple[Trigger, datetime] | None:
        row = {
            **dict.fromkeys(COLUMNS),
            "schedule_id": note["note_schedule_id"],
            "name": note["old_name"],
            "target_kind": note["note_kind"],
            "target_name": "-",
            "schedule_type": note["old_type"],
            "schedule_config": note["old_config"],
            "policy": note["old_policy"],
            "created_at": note["old_created_at"],
            "enabled": True,
            "version": 1,
        }
        definition = read(row, self._timezone)
        if definition.schedule is None or definition.trigger is None:
            return None
        mark = note["old_mark"]
        if mark is None:
            created = note["old_created_at"] or note["changed_at"]
            mark = initial_mark(definition.schedule, definition.trigger, inserted_at=max(created, note["changed_at"]))
        return definition.trigger, mark

    # --- writing it down ---

    def _save(self, connection: Connection, settled: Sequence[_Settled]) -> None:
        schedules, changes = self._db.schedules, self._db.changes
        ordered = sorted(settled, key=lambda one: one.schedule_id)
        locked = connection.execute(
            select(schedules.c.schedule_id, schedules.c.version, *[schedules.c[name] for name in _STATE])
            .where(schedules.c.schedule_id.in_([one.schedule_id for one in ordered]))
            .order_by(schedules.c.schedule_id)
            .with_for_update()
        ).mappings()
        now = {row["schedule_id"]: row for row in locked}
        unchanged = ("version", "last_due", "next_run")
        rows = [
            {
                "schedule_id": one.schedule_id,
                "last_due": one.row["last_due"] if one.mark is None else one.mark,
                "next_run": one.next_run,
                "broken_reason": one.fault or None,
            }
            for one in ordered
            if one.definition is not None
            and (row := now.get(one.schedule_id)) is not None
            and all(row[name] == one.row[name] for name in unchanged)
        ]
        update_each(connection, schedules, ("schedule_id",), ("last_due", "next_run", "broken_reason"), rows)
        history.insert_ranges(connection, self._db.fires, [gone for one in ordered for gone in one.ranges])
        self._owed.add(connection, [parcel for one in ordered for parcel in _to_tell(one)])
        for one in ordered:
            for note, mark in one.shortened:
                connection.execute(update(changes).where(changes.c.id == note).values(old_mark=mark))
        done = [note for one in ordered for note in one.done]
        if done:
            connection.execute(delete(changes).where(changes.c.id.in_(done)))


def _to_tell(settled: _Settled) -> list[Parcel]:
    """Of due times that an edit made void, as the definition wants it that replaced theirs."""
    schedule = settled.definition.schedule if settled.definition is not None else None
    if schedule is None or About.MISSED not in schedule.tells:
        return []
    now = settled.row["changed_at"]
    return [parcel for gone in settled.ranges if (parcel := missed_of(gone, now)) is not None]
