"""From a row to a schedule and its trigger, and back. A row that cannot be read is a reason, never an exception."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Table
from sqlalchemy.sql.elements import ColumnElement

from celery_parrot.database.bulk import json_text
from celery_parrot.errors import InvalidSchedule, shortened
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.codec import CALLBACK_FIELDS, POLICY_FIELDS, from_fields, to_fields
from celery_parrot.model.schedule import Schedule, as_uuid
from celery_parrot.planning import trigger_of
from celery_parrot.triggers import Trigger

STORE: Final = "db"

_REASON_CHARS = 500
_OPTIONAL = ("method_name", "prompt", "target_id", "tenant")
_TEXTS = ("schedule_config", "args", "metadata", "options", "policy", "callbacks", "send_result")
IN_POLICY: Final = (*POLICY_FIELDS, *(name for name in CALLBACK_FIELDS if name not in _TEXTS))
"""Fields that are keys of the column ``policy``."""

COLUMNS: Final = (
    "schedule_id",
    "version",
    "created_at",
    "name",
    "target_kind",
    "target_name",
    "schedule_type",
    "enabled",
    *_OPTIONAL,
    *_TEXTS,
)


def definition_columns(connection: Connection, table: Table) -> list[ColumnElement[Any]]:
    """What :func:`read` needs of a row."""
    return [
        json_text(connection, table.c[name]).label(name) if name in _TEXTS else table.c[name].label(name)
        for name in COLUMNS
    ]


@dataclass(frozen=True, slots=True)
class Definition:
    """:ivar schedule: None if the row cannot be read. ``trigger``: None if its due times cannot be computed.

    :ivar fault: why; empty if it can run.
    """

    schedule: Schedule | None
    trigger: Trigger | None
    fault: str = ""


def read(row: Mapping[str, Any], timezone: str, allowed: AllowedTasks = EVERY_TASK) -> Definition:
    """The definition in a row that has :func:`definition_columns`.

    :param timezone: the zone of a row whose policy and config name none.
    :param allowed: what it may call; one that calls something else cannot run.
    """
    schedule = None
    try:
        schedule = _schedule(row, timezone)
        allowed.check(schedule)
        return Definition(schedule, trigger_of(schedule))
    except Exception as exc:  # whatever a row may hold: the others run
        return Definition(schedule, None, fault_of(exc))


def fault_of(exc: Exception) -> str:
    """Why, in one line that fits a column."""
    text = str(exc) if isinstance(exc, InvalidSchedule) else f"{type(exc).__name__}: {exc}"
    return shortened(text.replace("\0", ""), _REASON_CHARS)


def _schedule(row: Mapping[str, Any], timezone: str) -> Schedule:
    policy = _json("policy", row["policy"], {})
    if not isinstance(policy, Mapping):
        raise InvalidSchedule("policy", policy, "must be an object")
    fields = {name: policy[name] for name in IN_POLICY if name in policy}
    fields.update({name: row[name] for name in _OPTIONAL if row[name] and str(row[name]).strip()})
    schedule = from_fields(
        {
            **fields,
            "name": row["name"] or row["schedule_id"],
            "store": STORE,
            "kind": row["target_kind"],
            "target": row["target_name"],
            "schedule_type": row["schedule_type"],
            "schedule_config": _json("schedule_config", row["schedule_config"], None),
            "args": _json("args", row["args"], []),
            "kwargs": _json("metadata", row["metadata"], {}),
            "options": _json("options", row["options"], {}),
            "callbacks": _lenient(row["callbacks"], []),
            "send_result": _lenient(row["send_result"], {}),
            "timezone": policy.get("timezone") or timezone,
            "enabled": bool(row["enabled"]),
        },
        schedule_id=row["schedule_id"],
    )
    return replace(schedule, version=row["version"], created_at=row["created_at"])


def _lenient(text: str | bytes | None, absent: Any) -> Any:
    """Whom to tell is no reason not to fire: what is no JSON is told as it is, which fails."""
    try:
        return _json("callbacks", text, absent)
    except InvalidSchedule:
        return str(text)


def _json(column: str, text: str | bytes | None, absent: Any) -> Any:
    if text is None:
        return absent
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as exc:
        shown = text if len(text) <= 80 else text[:80]
        raise InvalidSchedule(column, shown, f"is not JSON: {exc}") from None
    return absent if value is None else value


def to_row(schedule: Schedule, policy: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule's definition columns, JSON as text.

    :param policy: what the row's policy held before; keys that are neither ``timezone`` nor a policy's are kept.
    """
    fields = to_fields(schedule)
    kept = {key: value for key, value in policy.items() if key not in IN_POLICY and key != "timezone"}
    own = {name: fields[name] for name in IN_POLICY}
    return {
        "name": schedule.name,
        "target_kind": schedule.kind,
        "target_name": schedule.target,
        "schedule_type": schedule.schedule_type,
        "enabled": schedule.enabled,
        **{name: getattr(schedule, name) for name in _OPTIONAL},
        "schedule_config": dumps(fields["schedule_config"]),
        "args": dumps(fields["args"]),
        "metadata": dumps(fields["kwargs"]),
        "options": dumps(fields["options"]),
        "callbacks": dumps(fields["callbacks"]),
        "send_result": dumps(fields["send_result"]),
        "policy": dumps({**kept, **own, "timezone": schedule.timezone}),
    }


def dumps(value: Any) -> str:
    """JSON text of a definition's part. Raises InvalidSchedule for what JSON cannot hold."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidSchedule("definition", None, f"is not JSON: {exc}") from None


def id_forms(ids: Sequence[str], *, strict: bool) -> list[str]:
    """How these ids may be spelled in the database.

    :param strict: only UUIDs can be there at all (PostgreSQL).
    """
    forms: dict[str, None] = {}
    for id_ in ids:
        usual = as_uuid(id_)
        if usual is not None:
            forms[usual] = None
        if not strict:
            forms[id_] = None
            if usual is not None:
                forms[usual.replace("-", "")] = None
    return list(forms)


class DefinitionCache:
    """Definitions that were parsed lately, by id; each is good for one version of its row. Bounded, oldest go first.

    :param most: how many at most. ``weight``: of how many characters of JSON and prompt together, at most.
    """

    def __init__(self, most: int = 4096, weight: int = 16 * 2**20) -> None:
        self._most, self._heaviest = most, weight
        self._kept: OrderedDict[str, tuple[tuple[int, datetime | None], Definition, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, schedule_id: str, version: int, created_at: datetime | None) -> Definition | None:
        """The definition of this very version, if it is kept."""
        with self._lock:
            found = self._kept.get(schedule_id)
            if found is None or found[0] != (version, created_at):
                return None
            self._kept.move_to_end(schedule_id)
            return found[1]

    def put(self, row: Mapping[str, Any], definition: Definition) -> None:
        """Keep it, unless it alone would fill a good part of the room."""
        schedule_id = row["schedule_id"]
        weight = 500 + sum(len(row[name] or "") for name in (*_TEXTS, "prompt"))
        with self._lock:
            self._drop(schedule_id)
            if weight * 16 > self._heaviest:
                return
            self._kept[schedule_id] = ((row["version"], row["created_at"]), definition, weight)
            self._weight += weight
            while len(self._kept) > self._most or self._weight > self._heaviest:
                self._drop(next(iter(self._kept)))

    def drop(self, schedule_id: str) -> None:
        """Forget one."""
        with self._lock:
            self._drop(schedule_id)

    def _drop(self, schedule_id: str) -> None:
        found = self._kept.pop(schedule_id, None)
        if found is not None:
            self._weight -= found[2]
