"""What outcomes do to a schedule's row: the run state, failures in a row, and what was told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, select, update

from celery_parrot.database.bulk import json_value, update_each, upsert
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.planning import HELD_BY_FAILURES, disabled_note, disables
from celery_parrot.protocols import IN_FLIGHT_SKIP_OUTPUT_KEY, About, Carried
from celery_parrot.stores.sql.engine import Database
from celery_parrot.stores.sql.history import parsed_notes
from celery_parrot.stores.sql.owed import Owed, alert_of

_REMEMBERED: Final = ("failing_since", "delivery_due")

State = dict[str, Any]
"""One locked row, as the items of a batch change it. What begins with ``_`` is no column."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """:param max_failures: so many counted failures in a row disable a schedule; 0: none ever does."""

    database: Database
    owed: Owed
    max_failures: int

    def remember(self, connection: Connection, states: Mapping[str, State]) -> None:
        """Add what is remembered beside the rows, which are locked."""
        c = self.database.outcomes.c
        for state in states.values():
            state.update(dict.fromkeys(_REMEMBERED))
        for row in connection.execute(
            select(c.schedule_id, *[c[name] for name in _REMEMBERED]).where(c.schedule_id.in_(list(states)))
        ).mappings():
            states[row["schedule_id"]].update({name: row[name] for name in _REMEMBERED})
        for state in states.values():
            state["_remembered"] = tuple(state[name] for name in _REMEMBERED)

    def ended(self, state: State, item: Carried) -> None:
        """Skipped, missed, expired and unknown ones leave the run state; so does a fire skipped for a busy limit."""
        record = item.record
        if record.status is Status.SUCCESS and not in_flight_skip(record):
            state.update(
                last_status="success",
                last_error=None,
                last_result=record.output,
                last_result_at=record.finished_at,
                consecutive_failures=0,
                failing_since=None,
            )
        elif record.status.failure:
            state.update(
                last_status="target_missing" if record.status is Status.TARGET_MISSING else "error",
                last_error=record.error or record.reason,
                last_error_at=record.finished_at,
                consecutive_failures=(state["consecutive_failures"] or 0) + item.counted,
            )
            if item.counted:
                state["failing_since"] = state["failing_since"] or record.finished_at
                self._judge(state, record)

    def _judge(self, state: State, record: FireRecord) -> None:
        failures = state["consecutive_failures"]
        if state["disabled_by"] is not None or not state["enabled"] or not disables(failures, self.max_failures):
            return
        since = state["failing_since"]
        state.update(disabled_by=HELD_BY_FAILURES, note=disabled_note(failures, since, record.error or record.reason))
        state["_alert"] = alert_of(record, failures, since)

    @staticmethod
    def told(state: State, row: Mapping[str, Any] | None, record: FireRecord) -> bool:
        """Bring the run state up to what was told of this fire; false if that says nothing new."""
        known = notes_of(row)
        news = [note for about, note in record.delivery.items() if about != About.ALERT and newer(note, known, about)]
        if not news or (state["delivery_due"] is not None and record.key.due_at < state["delivery_due"]):
            return False
        note = max(news, key=lambda one: str(one.get("at") or ""))
        state["delivery_due"] = record.key.due_at
        state["_delivery"] = {
            "last_delivery_status": note.get("status"),
            "last_delivery_at": datetime.fromisoformat(note["at"]) if note.get("at") else None,
            "last_callbacks": json.dumps(note.get("callbacks") or []),
        }
        return True

    def save(self, connection: Connection, states: Mapping[str, State]) -> None:
        """Write what is not part of the plain run state."""
        schedules = self.database.schedules
        held = [state for _, state in sorted(states.items()) if "_alert" in state]
        update_each(connection, schedules, ("schedule_id",), ("disabled_by", "note"), held)
        self.owed.add(connection, [state["_alert"] for state in held])
        for schedule_id, state in sorted(states.items()):
            if "_delivery" in state:
                values = dict(state["_delivery"])
                values["last_callbacks"] = json_value(connection, values["last_callbacks"])
                connection.execute(update(schedules).where(schedules.c.schedule_id == schedule_id).values(values))
        rows = [
            {"schedule_id": schedule_id, **{name: state[name] for name in _REMEMBERED}}
            for schedule_id, state in sorted(states.items())
            if tuple(state[name] for name in _REMEMBERED) != state["_remembered"]
        ]
        upsert(connection, self.database.outcomes, ("schedule_id",), _REMEMBERED, rows)


def forgive(connection: Connection, database: Database, schedule_ids: Sequence[str]) -> None:
    """These start anew: no failure of theirs counts any more."""
    c = database.outcomes.c
    connection.execute(update(database.outcomes).where(c.schedule_id.in_(schedule_ids)).values(failing_since=None))


def in_flight_skip(record: FireRecord) -> bool:
    """Whether a success only says that a limit was busy."""
    if record.sent_at is not None or record.output is None or IN_FLIGHT_SKIP_OUTPUT_KEY not in record.output:
        return False
    try:
        output = json.loads(record.output)
    except ValueError:
        return False
    return isinstance(output, dict) and output.get(IN_FLIGHT_SKIP_OUTPUT_KEY) is True


def notes_of(row: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the history row says of telling somebody, by what it was about."""
    return parsed_notes(row["delivery"]) if row is not None else {}


def newer(note: Mapping[str, Any], known: Mapping[str, Any], about: str) -> bool:
    """Whether a note says more than the one that is known."""
    before = known.get(about)
    if not isinstance(before, dict):
        return True
    return before != note and int(note.get("tries") or 0) >= int(before.get("tries") or 0)


def merged_notes(record: FireRecord, row: Mapping[str, Any] | None) -> str | None:
    """The column as it is to be: each note the newest that is known. None: nobody was told."""
    known = notes_of(row)
    merged = {**known, **{about: note for about, note in record.delivery.items() if newer(note, known, about)}}
    return json.dumps(merged) if merged else None
