"""From what came over the wire to checked values. Whatever comes, it is a value or a refusal with one sentence."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from celery_parrot.flower.api.checks import check
from celery_parrot.flower.api.operations import Operation, Parameter
from celery_parrot.flower.api.refusals import invalid, unknown
from celery_parrot.flower.bridge import Refused

MOST: Final = 1_000_000
"""Bytes of a body."""
DEEPEST: Final = 64
"""Lists and objects in one another."""
GREATEST: Final = 2**63 - 1
GREATEST_VERSION: Final = 2**31 - 1

_NUMBER: Final = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_TAG: Final = re.compile(r'"([0-9]{1,10})"', re.ASCII)
_TRUTH: Final = {"true": True, "false": False}


def parameters_of(
    operation: Operation, path: Mapping[str, str], query: Mapping[str, Sequence[bytes]]
) -> dict[str, Any]:
    """The values in path and query. An empty text is none."""
    found: dict[str, Any] = {}
    known = {one.name: one for one in operation.parameters}
    texts: dict[str, str] = dict(path)
    for raw, values in query.items():
        name = _decoded(raw.encode("latin-1"), "The query")
        if name not in known or known[name].where != "query":
            wanted = {one.name for one in known.values() if one.where == "query"}
            raise unknown("parameter", name, _decoded(values[0], name), wanted)
        if len(values) > 1:
            raise invalid(name, [_decoded(one, name) for one in values], "is given more than once")
        texts[name] = _decoded(values[0], name)
    for name, text in texts.items():
        value = _value(known[name], text)
        if value != "":
            found[name] = value
    return found


def body_of(operation: Operation, content_type: str, raw: bytes) -> dict[str, Any]:
    """The JSON object of the body, as the operation's schema has it."""
    if operation.body is None:
        if raw.strip():
            raise Refused(400, "invalid", "This takes no body.")
        return {}
    if not raw.strip() and not operation.body_required:
        return {}
    media, _, options = content_type.partition(";")
    if media.strip().lower() != "application/json":
        raise Refused(415, "unsupported", "The body must be JSON, with Content-Type: application/json.")
    if "charset" in options.lower() and "utf-8" not in options.lower().replace("utf8", "utf-8"):
        raise Refused(415, "unsupported", "The body must be in UTF-8.")
    body = parsed(raw)
    check(body, operation.body, "")
    return body


def version_of(if_match: str | None, body: Mapping[str, Any]) -> int | None:
    """The version that the caller has read; None where any will do."""
    said = body.get("version")
    if if_match is None or if_match.strip() == "*":
        return said
    tag = _TAG.fullmatch(if_match.strip())
    if tag is None or int(tag[1]) > GREATEST_VERSION:
        raise invalid("If-Match", if_match, 'must be the ETag of the schedule, such as "3", or *')
    if said is not None and said != int(tag[1]):
        raise invalid("version", said, f"the header If-Match says {tag[1]}")
    return int(tag[1])


def parsed(raw: bytes) -> dict[str, Any]:
    """A JSON object that every store can keep."""
    text = _decoded(raw, "The body")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_float, parse_int=_integer
        )
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise Refused(
            400, "invalid", f"The body is not JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from None
    if not isinstance(value, dict):
        raise Refused(422, "invalid", "The body must be a JSON object.")
    _examine(value, 0)
    return value


def _examine(value: Any, depth: int) -> None:
    if depth > DEEPEST:
        raise _too_deep()
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= one <= "\udfff" for one in value):
            raise invalid("body", value, "a text must not contain NUL or half of a surrogate pair: no store keeps it")
    elif isinstance(value, dict):
        for name, one in value.items():
            _examine(name, depth)
            _examine(one, depth + 1)
    elif isinstance(value, list):
        for one in value:
            _examine(one, depth + 1)


def _too_deep() -> Refused:
    return Refused(422, "invalid", f"The body has more than {DEEPEST} lists and objects in one another.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise invalid(name, None, "is there twice in one object")
        found[name] = value
    return found


def _no_number(text: str) -> float:
    raise Refused(400, "invalid", f"The body is not JSON: {text} is no number there.")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise invalid("body", text, "is too large a number: no store keeps it")
    return value


def _integer(text: str) -> int:
    if len(text) > len(str(GREATEST)) + 1 or abs(int(text)) > GREATEST:
        raise invalid("body", text, f"is too large a number: at most {GREATEST}; larger ones must be texts")
    return int(text)


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(400, "invalid", f"{what} is not in UTF-8.") from None


def _value(parameter: Parameter, text: str) -> Any:
    """A text as the type that the schema of its parameter names."""
    value: Any = text
    kind = parameter.schema.get("type")
    if kind == "integer":
        if not _NUMBER.fullmatch(text):
            raise invalid(parameter.name, text, "must be a whole number")
        value = int(text)
    elif kind == "boolean":
        if text not in _TRUTH:
            raise invalid(parameter.name, text, "must be true or false")
        value = _TRUTH[text]
    check(value, parameter.schema, parameter.name)
    return value
