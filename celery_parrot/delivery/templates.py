"""Subjects, messages and paths with names in them: ``$name``, ``${name}``, and ``$$`` for a dollar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from difflib import get_close_matches
from string import Template
from typing import Final

from celery_parrot.errors import shortened
from celery_parrot.protocols import Parcel

NAMES: Final = (
    "about", "attempt", "count", "due_at", "error", "failing_since", "failures", "finished_at", "fire_id", "kind",
    "name", "origin", "output", "reason", "schedule_id", "sent_at", "started_at", "status", "until",
)  # fmt: skip
"""What a template may name: fields of a parcel. One without a value is an empty text."""

LONGEST: Final = 10_000
MOST: Final = 100_000
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")


def fault(text: str) -> str:
    """What is wrong with a template, or an empty text."""
    if len(text) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if "\0" in text:
        return "must not contain a NUL character"
    template = Template(text)
    if not template.is_valid():
        return "has a $ that begins no name; write $$ for a dollar"
    for name in template.get_identifiers():
        if name not in NAMES:
            close = get_close_matches(name, NAMES, n=1)
            hint = f"did you mean ${close[0]}?" if close else f"there are {', '.join('$' + one for one in NAMES)}"
            return f"${name} is no name of a template; {hint}"
    return ""


def values(parcel: Parcel) -> dict[str, str]:
    """The value of each of :data:`NAMES` for one parcel."""
    return {name: _text(getattr(parcel, name)) for name in NAMES}


def render(text: str, names: Mapping[str, str]) -> str:
    """``text`` with values for names, at most :data:`MOST` characters. What is no name stays as it is: a definition
    that was written past all checks is still delivered."""
    return shortened(Template(text).safe_substitute(names), MOST)


def one_line(text: str, most: int) -> str:
    """``text`` as it may stand in a header: no line ends, no control characters, at most ``most`` characters."""
    return shortened(_CONTROL.sub(" ", text).encode("utf-8", "replace").decode().strip(), most)


def _text(value: object) -> str:
    if value is None:
        return ""
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)
