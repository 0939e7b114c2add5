"""The JSON Schemas of what is answered, made from the very classes that it is made of."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from celery_parrot.client import Asked, BeatView, Group, Health, InLine, ScheduleView
from celery_parrot.flower.backfills import JobState
from celery_parrot.flower.folding import STAMPS
from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.model.state import RunState
from celery_parrot.triggers import Occurrence

Json = dict[str, Any]

TEXT: Final[Json] = {"type": "string"}
TEXT_OR_NULL: Final[Json] = {"type": ["string", "null"]}
WHOLE: Final[Json] = {"type": "integer"}
COUNT: Final[Json] = {"type": "integer", "minimum": 0}
TRUTH: Final[Json] = {"type": "boolean"}
INSTANT: Final[Json] = {"type": "string", "format": "date-time"}
INSTANT_OR_NULL: Final[Json] = {"type": ["string", "null"], "format": "date-time"}
TEXTS: Final[Json] = {"type": "array", "items": TEXT}
OBJECT: Final[Json] = {"type": "object"}

_SCALARS: Final[Mapping[Any, Json]] = {
    str: TEXT, bool: TRUTH, int: WHOLE, float: {"type": "number"}, datetime: INSTANT, Any: {},
}  # fmt: skip


def shape(kind: Any) -> Json:
    """The schema of a value of this type, as :func:`~celery_parrot.model.plain.plain` shows it."""
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    origin, inside = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _nullable(shape(next(one for one in inside if one is not types.NoneType)))
    if origin is tuple or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return {"type": "array", "items": shape(inside[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": shape(inside[1])}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"type": "string", "enum": [one.value for one in kind]}
    if dataclasses.is_dataclass(kind):
        return ref(kind.__name__) if kind in NAMED else record(_fields(kind))
    return {}


def record(properties: Mapping[str, Json], without: Iterable[str] = ()) -> Json:
    """An object with these members, all of them always there but those ``without``."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [name for name in properties if name not in set(without)],
    }


def listed(items: Json, **more: Json) -> Json:
    """A page of a list. ``next`` says what ``after`` says."""
    cursor = {**TEXT, "description": "Give it as after to get the next page; empty: this was the last."}
    return record({"items": {"type": "array", "items": items}, "after": cursor, "next": cursor, **more})


def ref(name: str) -> Json:
    """A schema of the document by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


def _nullable(schema: Json) -> Json:
    if "$ref" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    return {**schema, "type": [schema["type"], "null"]}


def _fields(kind: Any) -> dict[str, Json]:
    hints = get_type_hints(kind)
    return {one.name: shape(hints[one.name]) for one in dataclasses.fields(kind)}


NAMED: Final = (RunState, InLine)
"""Those that others hold."""


def _fire() -> Json:
    fields = _fields(FireRecord)
    del fields["key"]
    return record({"schedule_id": TEXT, "due_at": INSTANT, **fields})


STRETCH: Final[Json] = {
    "name": TEXT, "schedule_id": TEXT, "start": INSTANT, "end": INSTANT_OR_NULL, "total": COUNT, "fired": COUNT,
}  # fmt: skip
"""What a backfill is to cover."""

_SENTENCE: Final = {**TEXT_OR_NULL, "description": "When it is due, in words; null where that cannot be computed."}

SCHEMAS: Final[Mapping[str, Json]] = {
    "Schedule": record({**_fields(ScheduleView), "description": _SENTENCE, "sentence": _SENTENCE}),
    "RunState": record(_fields(RunState)),
    "Fire": _fire(),
    "Occurrence": record({
        **_fields(Occurrence), "reading": {**TEXT, "description": "What the clock was meant to show, without offset."},
        "mark": {"enum": ["moved", "repeated", "dropped", None], "description": "What a clock change does to it."},
        "fires": {**TRUTH, "description": "False where a clock change takes it away."},
    }),
    "Asked": record(_fields(Asked)),
    "Group": record(_fields(Group)),
    "InLine": record(_fields(InLine)),
    "Beat": record(_fields(BeatView)),
    "Health": record(_fields(Health)),
    "Story": record({
        "schedule": TEXT, "due_at": INSTANT_OR_NULL, "verdict": TEXT, "sentence": TEXT,
        "steps": {"type": "array", "items": record({"at": INSTANT_OR_NULL, "what": TEXT, "text": TEXT})},
        "previous": INSTANT_OR_NULL, "next": INSTANT_OR_NULL, "fire_id": TEXT_OR_NULL, "closing": TEXT,
    }),
    "Step": record({
        "name": TEXT, "action": {"enum": ["create", "update", "delete", "unchanged", "refused"]}, "store": TEXT,
        "changes": {"type": "object", "additionalProperties": record({"before": {}, "after": {}})},
        "field": TEXT, "error": TEXT,
    }),
    "Backfill": record({
        "id": TEXT, "state": {"enum": [one.value for one in JobState]}, "asked_by": TEXT, "asked_at": INSTANT,
        "error": TEXT, **STRETCH, "asked": COUNT, "ended": COUNT, "active": TEXTS,
        "outcomes": {"type": "object", "additionalProperties": COUNT}, "left_out": COUNT,
    }),
    "HeardFire": record({
        "fire_id": TEXT, "task_id": TEXT, "status": {"enum": [one.value for one in Status]},
        **dict.fromkeys(
            ("schedule", "schedule_id", "kind", "store", "origin", "worker", "limit", "held_by", "held_by_kind"),
            TEXT_OR_NULL,
        ),
        **dict.fromkeys(("due_at", "until", *STAMPS), INSTANT_OR_NULL),
        "count": _nullable(COUNT), "late": _nullable({"type": "number"}), "attempt": WHOLE, "reason": TEXT,
    }),
    "Error": record({
        "error": record({
            "type": {**TEXT, "description": "One word for programs."},
            "message": {**TEXT, "description": "One sentence for people."},
            "field": {**TEXT, "description": "At fault."},
            "value": {"description": "What that holds, shortened."},
            "reason": {**TEXT, "description": "What would be right."},
            "closest": {**TEXTS, "description": "Names like one that does not exist."},
        }, without=("field", "value", "reason", "closest")),
        "field": TEXT, "value": {}, "reason": TEXT,
    }, without=("field", "value", "reason")),
}  # fmt: skip
"""Those of the document, by name."""
