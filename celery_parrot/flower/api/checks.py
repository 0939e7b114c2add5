"""What a request gives, held against the JSON Schemas of the document: as much of JSON Schema as those use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from celery_parrot.flower.api.refusals import invalid, unknown

Schema = Mapping[str, Any]

NO_CONTROLS: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"

_PYTHON: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float),
    "null": type(None),
}  # fmt: skip
_CALLED: Final = {
    "object": "an object", "array": "a list", "string": "a text", "boolean": "true or false",
    "integer": "a whole number", "number": "a number", "null": "null",
}  # fmt: skip


def check(value: Any, schema: Schema, field: str) -> None:
    """Raises Refused, which names the field, where ``value`` is not as ``schema`` says."""
    _check_type(value, schema, field)
    if "enum" in schema and value not in schema["enum"]:
        shown = ["null" if one is None else str(one) for one in schema["enum"] if one != ""]
        close = get_close_matches(value, shown, n=1) if isinstance(value, str) else []
        raise invalid(field, value, f"must be one of {', '.join(shown)}", closest=close)
    if isinstance(value, str):
        _check_text(value, schema, field)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _check_number(value, schema, field)
    elif isinstance(value, list):
        _check_list(value, schema, field)
    elif isinstance(value, dict):
        _check_object(value, schema, field)


def _check_type(value: Any, schema: Schema, field: str) -> None:
    wanted = schema.get("type")
    types = [wanted] if isinstance(wanted, str) else list(wanted or ())
    if types and not any(_is(value, one) for one in types):
        raise invalid(field, value, f"must be {' or '.join(_CALLED[one] for one in types)}")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _PYTHON[kind])


def _check_text(value: str, schema: Schema, field: str) -> None:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least:
        raise invalid(field, value, "must not be empty" if least == 1 else f"must have at least {least} characters")
    if most is not None and len(value) > most:
        raise invalid(field, value, f"must have at most {most} characters")
    pattern = schema.get("pattern")
    # In JSON Schema $ is the end of a text, in Python also the place before a line break there.
    if pattern is not None and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        reason = "must not contain control characters" if pattern == NO_CONTROLS else schema["description"]
        raise invalid(field, value, reason)


def _check_number(value: float, schema: Schema, field: str) -> None:
    if value < schema.get("minimum", value):
        raise invalid(field, value, f"must be at least {schema['minimum']}")
    if value > schema.get("maximum", value):
        raise invalid(field, value, f"must be at most {schema['maximum']}")


def _check_list(value: list[Any], schema: Schema, field: str) -> None:
    for number, one in enumerate(value):
        check(one, schema.get("items", {}), f"{field}[{number}]")


def _check_object(value: dict[str, Any], schema: Schema, field: str) -> None:
    known = schema.get("properties", {})
    for name, one in value.items():
        inside = f"{field}.{name}" if field else name
        if name in known:
            check(one, known[name], inside)
        elif schema.get("additionalProperties", True) is False:
            raise unknown("field", inside, one, known)
    for name in schema.get("required", ()):
        if name not in value:
            raise invalid(f"{field}.{name}" if field else name, None, "is required")
