"""Definitions as people see them: with their run state, and with the reason where one cannot run."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, collate, exists, func, or_, select, true, union_all

from celery_parrot.database.bulk import json_text
from celery_parrot.database.types import EARLIEST, utc_now
from celery_parrot.errors import shortened
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.state import RunState
from celery_parrot.planning import following, next_sending
from celery_parrot.protocols.editing import Page, State, Stored
from celery_parrot.stores.sql.definitions import Definition, definition_columns, fault_of, id_forms, read
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.tables import shown_name

_RAW_CHARS = 500
_STATE: Final = (
    "last_due",
    "last_run",
    "next_run",
    "run_count",
    "auto_count",
    "last_status",
    "last_error",
    "last_error_at",
    "last_result",
    "last_result_at",
    "consecutive_failures",
    "last_delivery_status",
    "last_delivery_at",
    "disabled_by",
)
_COUNTS = ("run_count", "auto_count", "consecutive_failures")


class Listing:
    """:param timezone: the zone of rows that name none. :param allowed: what they may call."""

    def __init__(self, database: Database, timezone: str, allowed: AllowedTasks = EVERY_TASK) -> None:
        self._db, self._timezone, self._allowed = database, timezone, allowed

    def get(self, names_or_ids: Sequence[str]) -> list[Stored | None]:
        """See the protocol. A name wins over an id."""
        c = self._db.schedules.c
        ids = id_forms(names_or_ids, strict=self._db.postgresql)
        rows = self._rows(or_(c.name.in_(names_or_ids), c.schedule_id.in_(ids)))
        by_name = {row["name"]: row for row in rows if row["name"]}
        by_id = {row["schedule_id"]: row for row in rows}
        found: list[Stored | None] = []
        for text in names_or_ids:
            row = by_name.get(text)
            if row is None:
                forms = [text, *id_forms([text], strict=False)]
                row = next((by_id[form] for form in forms if form in by_id), None)
            found.append(None if row is None else self._stored(row))
        return found

    def find(self, kind: str | None, state: State | None, text: str | None, after: str, limit: int) -> Page:
        """See the protocol."""
        c = self._db.schedules.c
        shown = shown_name(self._db.schedules)
        wanted: list[ColumnElement[bool]] = []
        if kind is not None:
            wanted.append(c.target_kind == kind)
        if text:
            words = [func.lower(shown), func.lower(c.target_name)]
            # Lowered by the database, too: SQLite knows the letters of English only.
            part = func.lower("%" + re.sub(r"([/%_])", r"/\1", text) + "%")
            wanted.append(or_(*[word.like(part, escape="/") for word in words]))
        if state is not None:
            wanted.append(self._in_state(state))
        rows = self._in_order(wanted, after, max(limit, 0) + 1)
        items = tuple(self._stored(row) for row in rows[: max(limit, 0)])
        return Page(items=items, after=items[-1].name if items and len(rows) > limit else "")

    def names_with(self, text: str, limit: int) -> list[str]:
        """See the protocol."""
        shown = shown_name(self._db.schedules)
        query = select(shown).where(func.lower(shown).contains(text.lower(), autoescape=True)).limit(limit)
        return self._db.read(lambda connection: list(connection.execute(query).scalars()))

    def _in_order(self, wanted: Sequence[ColumnElement[bool]], after: str, limit: int) -> list[Mapping[str, Any]]:
        """By the name shown, as an index has them. Only PostgreSQL has one of names and ids together: elsewhere the
        first of those with a name and the first of those without are put in order."""
        c, shown = self._db.schedules.c, shown_name(self._db.schedules)
        if self._db.postgresql:
            key: ColumnElement[Any] = collate(shown, "C")
            return self._rows(and_(true(), *wanted, *_after(key, after)), order=key, limit=limit)
        firsts = [
            select(c.schedule_id).where(has, *wanted, *_after(key, after)).order_by(key).limit(limit).subquery()
            for key, has in ((c.name, c.name.is_not(None)), (c.schedule_id, c.name.is_(None)))
        ]
        either = union_all(*[select(some.c.schedule_id) for some in firsts]).subquery()
        return self._rows(c.schedule_id.in_(select(either.c.schedule_id)), order=shown, limit=limit)

    def _in_state(self, state: State) -> ColumnElement[bool]:
        c, changes = self._db.schedules.c, self._db.changes
        whole, on = c.broken_reason.is_(None), func.coalesce(c.enabled, False) == true()
        live = and_(whole, on, c.disabled_by.is_(None))
        unsettled = exists(select(changes.c.id).where(changes.c.schedule_id == c.schedule_id))
        return {
            State.BROKEN: c.broken_reason.is_not(None),
            State.DISABLED: and_(whole, c.disabled_by.is_not(None), c.disabled_by != "person"),
            State.PAUSED: and_(whole, or_(c.disabled_by == "person", and_(c.disabled_by.is_(None), ~on))),
            State.COMPLETED: and_(live, c.next_run.is_(None), ~unsettled),
            State.ACTIVE: and_(live, or_(c.next_run.is_not(None), unsettled)),
        }[state]

    def _rows(
        self, where: ColumnElement[bool], *, order: ColumnElement[Any] | None = None, limit: int | None = None
    ) -> list[Mapping[str, Any]]:
        schedules, outcomes = self._db.schedules, self._db.outcomes
        own = [schedules.c[name] for name in (*_STATE, "note", "broken_reason", "updated_at")]
        own.append(outcomes.c.failing_since)
        both = schedules.outerjoin(outcomes, outcomes.c.schedule_id == schedules.c.schedule_id)

        def work(connection: Any) -> list[Mapping[str, Any]]:
            columns = definition_columns(connection, schedules)
            callbacks = json_text(connection, schedules.c.last_callbacks).label("last_callbacks")
            query = select(*columns, *own, callbacks, utc_now().label("now")).select_from(both).where(where)
            if order is not None:
                query = query.order_by(order)
            if limit is not None:
                query = query.limit(limit)
            return [dict(row) for row in connection.execute(query).mappings()]

        return self._db.read(work)

    def _stored(self, row: Mapping[str, Any]) -> Stored:
        definition = read(row, self._timezone, self._allowed)
        fault, next_run = row["broken_reason"] or definition.fault, None
        held = row["disabled_by"]
        waiting = held is not None or not row["enabled"]
        if not fault:
            try:
                next_run = _next_run(definition, row, waiting)
            except Exception as exc:  # what a trigger may raise
                fault = fault_of(exc)
        broken = bool(fault)
        state = {name: row[name] for name in _STATE}
        state.update({name: row[name] or 0 for name in _COUNTS}, next_run=next_run)
        state.update(failing_since=row["failing_since"], last_callbacks=_callbacks(row["last_callbacks"]))
        return Stored(
            schedule_id=row["schedule_id"],
            name=row["name"] or row["schedule_id"],
            schedule=definition.schedule,
            run_state=RunState(**state),
            state=_state(broken, held, waiting, next_run),
            held=held,
            note=row["note"],
            broken_reason=fault or None,
            raw=_raw(row) if broken else "",
            updated_at=row["updated_at"],
        )


def _after(key: ColumnElement[Any], after: str) -> list[ColumnElement[bool]]:
    return [key > after] if after else []


def _next_run(definition: Definition, row: Mapping[str, Any], waiting: bool) -> datetime | None:
    """As it is; of a paused one, as it would be."""
    schedule, trigger = definition.schedule, definition.trigger
    assert schedule is not None
    assert trigger is not None
    mark = row["last_due"] or row["created_at"] or EARLIEST
    if waiting:
        return next_sending(schedule, trigger, max(mark, row["now"]))
    if row["next_run"] is not None:
        known: datetime = row["next_run"]
        return known
    return following(schedule, trigger, mark, row["auto_count"])


def _state(broken: bool, held: str | None, waiting: bool, next_run: datetime | None) -> State:
    if broken:
        return State.BROKEN
    if held is not None and held != "person":
        return State.DISABLED
    if waiting:
        return State.PAUSED
    return State.ACTIVE if next_run is not None else State.COMPLETED


def _callbacks(text: str | None) -> tuple[Mapping[str, Any], ...]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def _raw(row: Mapping[str, Any]) -> str:
    text = f"{row['schedule_type']} {row['schedule_config']}"
    return shortened(text, _RAW_CHARS)
