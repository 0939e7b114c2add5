"""Values as drivers and JSON give them, made what they stand for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any

from celery_parrot.importers.items import CannotMap


def instant(value: object, naive: tzinfo = UTC) -> datetime | None:
    """An instant in UTC, from a datetime or ISO text.

    :param naive: the zone of one that names none. :raises CannotMap: if it is neither.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise CannotMap(f"{value!r} is not a date and time", "Correct it in the source") from None
    if not isinstance(value, datetime):
        raise CannotMap(f"{value!r} is not a date and time", "Correct it in the source")
    return (value if value.tzinfo is not None else value.replace(tzinfo=naive)).astimezone(UTC)


def json_of(column: str, value: object, kind: type) -> Any:
    """The list or object in a column; empty text and null are an empty one.

    :raises CannotMap: if it is no JSON, or something else.
    """
    if value is None or value == "":
        return kind()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise CannotMap(f"its {column} are not JSON", "Correct them in the source") from None
    if value is None:
        return kind()
    if not isinstance(value, kind):
        shape = "list" if kind is list else "object"
        raise CannotMap(f"its {column} are not a JSON {shape}", "Correct them in the source")
    return value


def plain_json(what: str, value: object) -> Any:
    """``value`` as JSON has it: tuples become lists.

    :raises CannotMap: if something in it is no JSON, naming its class.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list | tuple):
        return [plain_json(what, each) for each in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain_json(what, each) for key, each in value.items()}
    name = getattr(value, "class_name", None) or f"{type(value).__module__}.{type(value).__qualname__}"
    raise CannotMap(
        f"its {what} hold a {name.removeprefix('builtins.')}, and schedules keep JSON only",
        "Pass text or numbers instead, and let the task make the object",
    )


def call_of(args: object, kwargs: object) -> dict[str, Any]:
    """``args`` and ``kwargs`` of a schedule. Raises CannotMap if they are no JSON."""
    return {"args": plain_json("args", list(args or ())), "kwargs": plain_json("kwargs", dict(kwargs or {}))}  # type: ignore[call-overload]


def options_of(options: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """``apply_async`` options that can be kept; what cannot is noted."""
    kept: dict[str, Any] = {}
    for key, value in options.items():
        if value is None or (key == "headers" and not value):
            continue
        if hasattr(value, "total_seconds"):
            value = value.total_seconds()
        elif isinstance(value, datetime):
            value = value.isoformat()
        try:
            kept[key] = plain_json(f"option {key}", value)
        except CannotMap:
            notes.append(f"option {key} is not kept: it is no JSON")
    return kept
