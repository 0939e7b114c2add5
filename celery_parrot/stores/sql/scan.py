"""The read side: what is due, of which kinds, by the index; definitions by id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, func, literal, null, select, true, union_all, update

from celery_parrot.database.bulk import chunks
from celery_parrot.database.types import EARLIEST, LATEST
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.planning import following
from celery_parrot.protocols.stores import Due
from celery_parrot.stores.sql.definitions import (
    Definition,
    DefinitionCache,
    definition_columns,
    fault_of,
    id_forms,
    read,
)
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.marks import initial_mark
from celery_parrot.stores.sql.settle import Settler

BROKEN_TRIED_AGAIN: Final = timedelta(seconds=60)
"""How often rows that could not be read are tried again without an edit: a newer release may know better."""

_BROKEN_AT_ONCE = 100
_SETTLED_AT_ONCE = 500
# One batch a scan: on a busy machine it takes a good part of a second, and a tick must not be taken for a dead beat.
_SETTLED_PER_SCAN = 500
_ROUNDS = 4
_LIGHT = ("schedule_id", "target_kind", "version", "created_at", "last_due", "next_run", "auto_count", "disabled_by")


class Scanner:
    """:param timezone: the zone of rows that name none. :param allowed: what they may call."""

    def __init__(self, database: Database, timezone: str, allowed: AllowedTasks = EVERY_TASK) -> None:
        self._db, self._timezone, self._allowed = database, timezone, allowed
        self.cache = DefinitionCache()
        self._settler = Settler(database, self.cache, timezone, allowed)
        self._broken_next: datetime | None = None
        self._broken_after = ""

    # --- what is due ---

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """See the protocol."""
        wanted = sorted(set(kinds))
        if not wanted or limit <= 0:
            return []
        self._settle(self._of_kinds(self._db.changes, wanted))
        self._try_broken(before, wanted)
        return self._due(before, wanted, limit)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """See the protocol."""
        known = set(kinds)
        others = [kind for kind in self._all_kinds() if kind not in known]
        if not others or limit <= 0:
            return []
        self._settle(self._of_kinds(self._db.changes, others))
        return self._due(before, others, limit)

    def settle(self, schedule_ids: Sequence[str]) -> None:
        """Work out edits of these at once."""
        for some in chunks(schedule_ids):
            self._settler.run(self._db.changes.c.schedule_id.in_(some), _SETTLED_AT_ONCE)

    def _settle(self, where: Any) -> None:
        for _ in range(_SETTLED_PER_SCAN // _SETTLED_AT_ONCE):
            if self._settler.run(where, _SETTLED_AT_ONCE) < _SETTLED_AT_ONCE:
                return

    def _all_kinds(self) -> list[str]:
        """Each kind there is, by one look into the index a kind."""
        kind = self._db.schedules.c.target_kind
        found: list[str] = []

        def work(connection: Connection) -> list[str]:
            query = select(func.min(kind))
            while (next_one := connection.execute(query).scalar()) is not None:
                found.append(next_one)
                query = select(func.min(kind)).where(kind > next_one)
            return found

        return self._db.read(work)

    def _of_kinds(self, table: Any, kinds: Sequence[str]) -> ColumnElement[bool]:
        """Exactly these kinds: MySQL takes ``'task '`` for ``'task'`` unless told how they end."""
        exact: ColumnElement[bool] = table.c.target_kind.in_(kinds)
        if self._db.mysql:
            exact = exact & func.concat(table.c.target_kind, "|").in_([f"{kind}|" for kind in kinds])
        return exact

    def scan_query(self, before: datetime, kinds: Sequence[str], limit: int) -> Any:
        """One range of the index a kind, then the rows of the earliest."""
        schedules = self._db.schedules
        ranges = []
        for kind in kinds:
            found = (
                select(schedules.c.schedule_id, schedules.c.next_run)
                .where(
                    self._of_kinds(schedules, [kind]),
                    schedules.c.enabled == true(),
                    schedules.c.disabled_by == null(),
                    schedules.c.next_run <= before,
                )
                .order_by(schedules.c.next_run)
                .limit(limit)
                .subquery()
            )
            ranges.append(select(found.c.schedule_id, found.c.next_run))
        every = union_all(*ranges).subquery()
        earliest = select(every.c.schedule_id).order_by(every.c.next_run).limit(limit).subquery()
        return (
            select(*[schedules.c[name] for name in _LIGHT])
            .join_from(earliest, schedules, schedules.c.schedule_id == earliest.c.schedule_id)
            .order_by(schedules.c.next_run, schedules.c.schedule_id)
        )

    def _due(self, before: datetime, kinds: Sequence[str], limit: int) -> list[Due]:
        query = self.scan_query(before, kinds, limit)
        for _ in range(_ROUNDS):
            rows = self._db.read(lambda connection: [dict(row) for row in connection.execute(query).mappings()])
            found, corrected = self._judge(rows, before)
            # Rows that turned out not to be due may have kept others out of the batch.
            if found or not corrected:
                return found
        return found

    def _judge(self, rows: Sequence[Mapping[str, Any]], before: datetime) -> tuple[list[Due], bool]:
        """Those that are due indeed; the others get their right ``next_run``, or the reason why they have none."""
        definitions = self._definitions(rows)
        found: list[Due] = []
        corrections: list[dict[str, Any]] = []
        for row in rows:
            definition = definitions.get(row["schedule_id"])
            if definition is None:  # deleted or edited since the scan: the next one sees it
                continue
            fault, mark, at = definition.fault, row["last_due"], None
            if definition.schedule is not None and definition.trigger is not None:
                try:
                    mark = self._mark(row, definition, before)
                    at = following(definition.schedule, definition.trigger, mark, row["auto_count"])
                except Exception as exc:  # what a trigger may raise: the others run
                    fault = fault_of(exc)
                if not fault and at is not None and at <= before and row["last_due"] is not None:
                    found.append(Due(definition.schedule, definition.trigger, mark, row["disabled_by"]))
                    continue
            corrections.append({**row, "mark": mark, "at": None if fault else at, "fault": fault or None})
        if corrections:
            self._correct(corrections)
        return found, bool(corrections)

    def _mark(self, row: Mapping[str, Any], definition: Definition, before: datetime) -> datetime:
        if row["last_due"] is not None:
            mark: datetime = row["last_due"]
            return mark
        assert definition.schedule is not None
        assert definition.trigger is not None
        inserted = min(row["created_at"] or before, before)
        return initial_mark(definition.schedule, definition.trigger, inserted_at=inserted, next_run=row["next_run"])

    def _correct(self, corrections: Sequence[Mapping[str, Any]]) -> None:
        schedules = self._db.schedules

        def work(connection: Connection) -> None:
            for row in sorted(corrections, key=lambda one: str(one["schedule_id"])):
                connection.execute(
                    update(schedules)
                    .where(
                        schedules.c.schedule_id == row["schedule_id"],
                        schedules.c.version == row["version"],
                        schedules.c.last_due.is_not_distinct_from(row["last_due"]),
                        schedules.c.next_run.is_not_distinct_from(row["next_run"]),
                    )
                    .values(last_due=row["mark"], next_run=row["at"], broken_reason=row["fault"])
                )

        self._db.write(work)

    # --- broken ones ---

    def _try_broken(self, before: datetime, kinds: Sequence[str]) -> None:
        """Look at some broken rows again, in turn."""
        if self._broken_next is not None and before < self._broken_next:
            return
        self._broken_next = min(before, LATEST - BROKEN_TRIED_AGAIN) + BROKEN_TRIED_AGAIN
        schedules = self._db.schedules

        def look(connection: Connection) -> Sequence[Mapping[str, Any]]:
            query = (
                select(
                    *definition_columns(connection, schedules),
                    *[schedules.c[name] for name in ("last_due", "next_run", "auto_count", "broken_reason")],
                )
                .where(schedules.c.broken_reason != null(), self._of_kinds(schedules, kinds))
                .order_by(schedules.c.schedule_id)
                .limit(_BROKEN_AT_ONCE)
            )
            if self._broken_after:
                query = query.where(schedules.c.schedule_id > literal(self._broken_after, schedules.c.schedule_id.type))
            return [dict(row) for row in connection.execute(query).mappings()]

        rows = self._db.read(look)
        self._broken_after = rows[-1]["schedule_id"] if len(rows) == _BROKEN_AT_ONCE else ""
        changed = [new for row in rows if (new := self._look_again(row, before)) is not None]
        if changed:
            self._correct(changed)

    def _look_again(self, row: Mapping[str, Any], before: datetime) -> dict[str, Any] | None:
        definition = read(row, self._timezone, self._allowed)
        fault, at, mark = definition.fault, None, row["last_due"]
        if definition.schedule is not None and definition.trigger is not None:
            try:
                mark = self._mark(row, definition, before)
                at = following(definition.schedule, definition.trigger, mark, row["auto_count"])
            except Exception as exc:  # still
                fault = fault_of(exc)
        if fault == row["broken_reason"]:
            return None
        if fault:
            return {**row, "mark": row["last_due"], "at": None, "fault": fault}
        return {**row, "mark": mark, "at": at, "fault": None}

    # --- definitions ---

    def _definitions(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Definition]:
        """The definition of each row at the version that the row has; left out if it has another by now."""
        found: dict[str, Definition] = {}
        missing: dict[str, tuple[int, datetime | None]] = {}
        for row in rows:
            kept = self.cache.get(row["schedule_id"], row["version"], row["created_at"])
            if kept is not None:
                found[row["schedule_id"]] = kept
            else:
                missing[row["schedule_id"]] = (row["version"], row["created_at"])
        schedules = self._db.schedules
        for some in chunks(list(missing), 100):
            for row in self._fetch(schedules.c.schedule_id.in_(some)):
                if (row["version"], row["created_at"]) == missing[row["schedule_id"]]:
                    definition = found[row["schedule_id"]] = read(row, self._timezone, self._allowed)
                    self.cache.put(row, definition)
        return found

    def _fetch(self, where: Any) -> Sequence[Mapping[str, Any]]:
        schedules = self._db.schedules
        state = [schedules.c[name] for name in ("last_due", "disabled_by")]
        return self._db.read(
            lambda connection: [
                dict(row)
                for row in connection.execute(
                    select(*definition_columns(connection, schedules), *state).where(where)
                ).mappings()
            ]
        )

    def definitions(self, schedule_ids: Sequence[str]) -> dict[str, Due]:
        """See the protocol. A broken one has no trigger and is not handed out; its fires stay pending."""
        found: dict[str, Due] = {}
        ids = id_forms(schedule_ids, strict=self._db.postgresql)
        for some in chunks(ids, 100):
            for row in self._fetch(self._db.schedules.c.schedule_id.in_(some)):
                definition = self.cache.get(row["schedule_id"], row["version"], row["created_at"])
                if definition is None:
                    definition = read(row, self._timezone, self._allowed)
                    self.cache.put(row, definition)
                if definition.schedule is not None and definition.trigger is not None:
                    mark = row["last_due"] or row["created_at"] or EARLIEST
                    due = Due(definition.schedule, definition.trigger, mark, row["disabled_by"])
                    found[row["schedule_id"]] = due
        return {**found, **{id_: found[as_is] for id_ in schedule_ids if (as_is := _usual(id_, found)) in found}}

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """See the protocol. What is still to be settled is due at once."""
        wanted = sorted(set(kinds))
        if not wanted:
            return None
        schedules, changes = self._db.schedules, self._db.changes
        parts = [
            select(func.min(schedules.c.next_run).label("at")).where(
                self._of_kinds(schedules, [kind]), schedules.c.enabled == true(), schedules.c.disabled_by == null()
            )
            for kind in wanted
        ]
        parts.append(select(func.min(changes.c.changed_at).label("at")).where(self._of_kinds(changes, wanted)))
        query = union_all(*parts)
        found = self._db.read(lambda connection: list(connection.execute(query).scalars()))
        return min((at for at in found if at is not None), default=None)


def _usual(id_: str, found: Mapping[str, Due]) -> str:
    if id_ in found:
        return id_
    return next(iter(form for form in id_forms([id_], strict=False) if form in found), id_)
