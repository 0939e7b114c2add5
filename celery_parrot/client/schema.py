"""The JSON Schema of a schedule, and values of its fields from text."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any, Final

from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.fields import BY_NAME, FIELDS, REQUIRED, Field
from celery_parrot.triggers import SCHEDULE_TYPES

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"

_WHAT: Final = {
    "object": 'a JSON object such as \'{"key": "value"}\'',
    "array": "a JSON list such as '[1, 2]'",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "null": "null",
}


def schedule_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a schedule as ``create`` takes it, in Python, on the command line and over
    HTTP. What it refuses is refused there too; what a config may hold, and whether a zone exists, is judged there."""
    return {
        "$schema": DRAFT,
        "title": "Schedule",
        "description": "When a Celery task is due, and how it is called.",
        "type": "object",
        "properties": {field.name: _property(field) for field in FIELDS},
        "required": list(REQUIRED),
        "additionalProperties": False,
    }


def field_named(name: str, value: object = None) -> Field:
    """The field of this name. Raises InvalidSchedule with the closest one."""
    if name not in BY_NAME:
        close = get_close_matches(name, BY_NAME, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"must be one of {', '.join(sorted(BY_NAME))}"
        raise InvalidSchedule(name, value, f"unknown field; {hint}")
    return BY_NAME[name]


def value_of(name: str, text: str) -> Any:
    """What ``text``, as typed, is for this field: texts as they are, all else as JSON, ``null`` where it may be.

    :raises InvalidSchedule: for an unknown field, or a text that cannot be one of its values.
    """
    field = field_named(name, text)
    if field.nullable and text == "null":
        return None
    if "string" in field.types:
        return text
    try:
        value = json.loads(text)
    except ValueError:
        value = ...
    if not any(_is(value, kind) for kind in field.types):
        wanted = " or ".join(_WHAT[kind] for kind in field.types)
        raise InvalidSchedule(name, text, f"must be {wanted}")
    return value


def _property(field: Field) -> dict[str, Any]:
    found = {**field.schema, "description": field.text}
    if field.name == "schedule_type":
        found["enum"] = list(SCHEDULE_TYPES)
    if field.name not in REQUIRED and not field.by_app:
        found["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
    return found


def _is(value: object, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    types: dict[str, type | tuple[type, ...]] = {"object": dict, "array": list, "integer": int, "number": (int, float)}
    return isinstance(value, types[kind]) if kind in types else False
