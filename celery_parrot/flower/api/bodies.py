"""The JSON Schemas of parameters and bodies. What they refuse is refused by them; the rest is the client's to judge."""

from __future__ import annotations

from typing import Any, Final

from celery_parrot.client import schedule_schema
from celery_parrot.flower.api.checks import NO_CONTROLS
from celery_parrot.flower.api.operations import Parameter
from celery_parrot.flower.api.requests import GREATEST_VERSION
from celery_parrot.model.fire import Status
from celery_parrot.protocols import State

Json = dict[str, Any]

LONGEST: Final = 255
LONGEST_NOTE: Final = 1000
MOST_AT_ONCE: Final = 500

TEXT: Final[Json] = {"type": "string", "maxLength": LONGEST, "pattern": NO_CONTROLS}
SOME_TEXT: Final[Json] = {**TEXT, "minLength": 1}
NOTE: Final[Json] = {**TEXT, "maxLength": LONGEST_NOTE}
VERSION: Final[Json] = {"type": "integer", "minimum": 0, "maximum": GREATEST_VERSION}

_PREVIEWED: Final = ("schedule_type", "schedule_config", "timezone", "start_at", "end_at", "dst_gap", "dst_fold")


def limited(most: int, default: int) -> Json:
    """A number of things."""
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def _object(properties: Json, required: tuple[str, ...] = ()) -> Json:
    found: Json = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": list(required)} if required else found


_SCHEDULE: Final = schedule_schema()
_FIELDS: Final[Json] = _SCHEDULE["properties"]
_UUID: Final[Json] = {
    **TEXT, "description": "A UUID that another system has given it; left out: a new one.",
}  # fmt: skip
_VERSIONED: Final[Json] = {"version": {**VERSION, "description": "The version that you read; as If-Match."}}

NEW_SCHEDULE: Final = _object({**_FIELDS, "schedule_id": _UUID}, tuple(_SCHEDULE["required"]))
CHANGES: Final = _object(
    {**{name: {key: one[key] for key in one if key != "default"} for name, one in _FIELDS.items()}, **_VERSIONED}
)
PAUSE: Final = _object({"note": {**NOTE, "default": "", "description": "Why."}, **_VERSIONED})
RESUME: Final = _object(_VERSIONED)
RUN_NOW: Final = _object({
    "args": {"type": ["array", "null"], "description": "In place of the schedule's."},
    "kwargs": {"type": ["object", "null"], "description": "In place of the schedule's."},
    "key": {**SOME_TEXT, "description": "An idempotency key: asked again with it, it is the same fire."},
    **_VERSIONED,
})  # fmt: skip
BACKFILL: Final = _object({
    "from": {**SOME_TEXT, "description": "The first due time: ISO 8601; without offset, in the schedule's zone."},
    "to": {
        "type": ["string", "null"], "minLength": 1, "maxLength": LONGEST, "pattern": NO_CONTROLS,
        "description": "The last; a day alone is all of it. Left out: the latest that is decided.",
    },
    "dry_run": {"type": "boolean", "default": False, "description": "Only tell which would fire."},
    "max_active": {**limited(1000, 1), "description": "So many at once at most."},
    "reverse": {"type": "boolean", "default": False, "description": "The latest first."},
    "force": {"type": "boolean", "default": False, "description": "Also what is older than the history."},
}, ("from",))  # fmt: skip
PREVIEW: Final = _object(
    {
        **{name: _FIELDS[name] for name in _PREVIEWED},
        "schedule_id": {**TEXT, "description": "Of the schedule to be changed: some due times follow from it."},
        "count": limited(100, 5),
    },
    ("schedule_type", "schedule_config"),
)
RELEASE: Final = _object({
    "fire_id": {
        "type": ["string", "null"], "minLength": 1, "maxLength": LONGEST, "pattern": NO_CONTROLS,
        "description": "Which fire, where several hold it.",
    },
})  # fmt: skip
APPLY: Final = _object({
    "schedules": {"type": "array", "items": {}, "description": "The fields of a schedule each, as export gives them."},
    "prune": {"type": "boolean", "default": False, "description": "Delete those that are not among them."},
    "dry_run": {"type": "boolean", "default": True, "description": "Only tell what would change."},
    "store": {**SOME_TEXT, "description": "With prune: only of this store."},
    "kind": {**SOME_TEXT, "description": "With prune: only of this kind."},
}, ("schedules",))  # fmt: skip

# --- parameters ---

NAME: Final = Parameter("name", {**SOME_TEXT, "maxLength": LONGEST}, "Of a schedule, or its id.", "path")
GROUP: Final = Parameter("name", SOME_TEXT, "Of a group, or the whole name of any limit: kind:report.", "path")
JOB: Final = Parameter("id", SOME_TEXT, "As it was answered when it was begun.", "path")
LIMIT: Final = Parameter("limit", limited(MOST_AT_ONCE, 100), "How many at most.")
AFTER: Final = Parameter("after", TEXT, "The after of the page before.")
KIND: Final = Parameter("kind", TEXT, "Only of this kind.")
STATE: Final = Parameter("state", {"type": "string", "enum": ["", *State]}, "Only in this state.")
STORE: Final = Parameter("store", TEXT, "Only of this store.")
SEARCH: Final = Parameter("text", TEXT, "Part of the name or target, in any case.")
COUNT: Final = Parameter("count", limited(1000, 5), "How many due times.")
BEFORE: Final = Parameter("before", {**TEXT, "format": "date-time"}, "Only older ones; the before of the page before.")
AT: Final = Parameter("at", TEXT, "The due time: ISO 8601, 03:00 (today) or yesterday 03:00, in the schedule's zone.")
FIRE: Final = Parameter("fire", TEXT, "The id of a fire instead.")
STATUS: Final = Parameter("status", {"type": "string", "enum": ["", *Status]}, "Only of this status.")
HEARD_TEXT: Final = Parameter("text", TEXT, "Part of a schedule's name or id, a fire's id or a worker's name.")
HEARD_AFTER: Final = Parameter(
    "after", {"type": "string", "pattern": "^[0-9]{0,18}$", "description": "must be the after of the page before"},
    "The after of the page before.",
)  # fmt: skip
