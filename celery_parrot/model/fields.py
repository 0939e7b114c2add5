"""The fields of a schedule, one list for all doors: what each is called, what it may hold, what it means.

Imports nothing, so that a command line can offer them before anything else is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

REQUIRED: Final = ("name", "target", "schedule_type", "schedule_config")
"""What a schedule cannot be without."""

_TEXT: Final = {"type": "string", "minLength": 1}
_TEXT_OR_NULL: Final = {"type": ["string", "null"], "minLength": 1}
_OBJECT: Final = {"type": "object"}
_LIST: Final = {"type": "array"}
_INSTANT_OR_NULL: Final = {"type": ["string", "null"], "format": "date-time"}
_CALLBACKS: Final = {"type": "array", "items": {"type": ["object", "string"]}}


@dataclass(frozen=True, slots=True)
class Field:
    """:ivar schema: its JSON Schema, without description. ``text``: what it means, a sentence.
    :ivar default: what it has when it is absent, as JSON; None where ``by_app``: the app's settings decide.
    """

    name: str
    schema: Mapping[str, Any]
    text: str
    default: Any = None
    by_app: bool = False

    @property
    def types(self) -> tuple[str, ...]:
        """The JSON types it may have."""
        found = self.schema.get("type", ())
        if "enum" in self.schema:
            return ("string", "null") if None in self.schema["enum"] else ("string",)
        return (found,) if isinstance(found, str) else tuple(found)

    @property
    def nullable(self) -> bool:
        return "null" in self.types


FIELDS: Final = (
    Field("name", {**_TEXT, "maxLength": 255}, "Unique in all stores of one scheduler."),
    Field("store", {"enum": ["db", "redis"]}, "Where it lives; it stays there.", by_app=True),
    Field(
        "kind",
        _TEXT,
        "Decides which Celery task runs it, on which queue; task: the one that target names.",
        "task",
    ),
    Field("target", _TEXT, "The name of a Celery task; of another kind than task, what its task is called with."),
    Field("method_name", _TEXT_OR_NULL, "Given to the task of a kind other than task."),
    Field("prompt", _TEXT_OR_NULL, "Given to the task of a kind other than task."),
    Field("target_id", _TEXT_OR_NULL, "Given to the task of a kind other than task."),
    Field("tenant", _TEXT_OR_NULL, "Given to the task of a kind other than task."),
    Field("args", _LIST, "Positional arguments of the task.", ()),
    Field("kwargs", _OBJECT, "Keyword arguments of the task.", {}),
    Field("schedule_type", _TEXT, "How it says when: cron, interval, daily and others."),
    Field("schedule_config", _OBJECT, "When: the keys of its schedule type."),
    Field("timezone", _TEXT, "A time zone by its IANA name, such as Europe/Madrid.", by_app=True),
    Field("enabled", {"type": "boolean"}, "Whether it runs.", True),
    Field("options", _OBJECT, "Options of apply_async, such as queue, priority, expires.", {}),
    Field(
        "missed",
        {"enum": ["coalesce", "catch_up", "skip"]},
        "What to do with due times that could not be sent in time: send the latest, each in order, or none.",
        "coalesce",
    ),
    Field(
        "misfire_grace",
        {"type": ["number", "null"], "minimum": 0},
        "Seconds after which a due time is too late; null: never.",
        by_app=True,
    ),
    Field(
        "catch_up_limit",
        {"type": "integer", "minimum": 1, "maximum": 5000},
        "With missed catch_up, how many of the newest due times are kept.",
        100,
    ),
    Field(
        "overlap",
        {"enum": ["allow", "skip", "buffer_one", "buffer_all", None]},
        "What to do when it is due while its last fire goes on: run beside it, skip, or wait; null: as its kind says.",
    ),
    Field("exclusion_group", _TEXT_OR_NULL, "Fires of one group wait for one another."),
    Field(
        "jitter",
        {"type": "number", "minimum": 0},
        "It is sent up to so many seconds later.",
        0.0,
    ),
    Field("start_at", _INSTANT_OR_NULL, "The first instant at which it may be due; without offset, in its zone."),
    Field("end_at", _INSTANT_OR_NULL, "The last instant at which it may be due; without offset, in its zone."),
    Field(
        "max_fires",
        {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000_000},
        "It is completed after so many automatic fires.",
    ),
    Field("recover", {"type": "boolean"}, "Whether a fire whose worker died is sent once more.", False),
    Field(
        "dst_gap",
        {"enum": ["next_valid", "skip", None]},
        "What becomes of a local time that a clock change leaves out; null: the first instant after it.",
    ),
    Field(
        "dst_fold",
        {"enum": ["first", "last", "both", None]},
        "Which pass of a local time that a clock change repeats; null: the first.",
    ),
    Field("send_result", _OBJECT, "Whom the result is mailed to.", {}),
    Field("callbacks", _CALLBACKS, "What is called after each success, in order.", ()),
    Field("failure_callbacks", _CALLBACKS, "What is called after each failure.", ()),
    Field("missed_callbacks", _CALLBACKS, "What is called for due times that were missed.", ()),
)
"""Every field that a schedule may be given with, in the order in which people read them."""

BY_NAME: Final[Mapping[str, Field]] = {field.name: field for field in FIELDS}
