"""Values as JSON has them. Imports nothing of ours: the command line loads it before anything else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Final

_DEEPEST: Final = 100
_LONGEST_NUMBER: Final = 10**4000
"""Python writes no whole number of more than 4300 digits."""


def plain(value: object, depth: int = 0) -> Any:
    """Dataclasses, enums, instants, mappings and sequences as JSON has them; anything else as its ``repr``. So are the
    numbers that JSON does not know: a store that somebody else writes to may hold them. What the code gives a schedule
    may be anything: one that holds itself, say, must not hide all others of a list.

    :param depth: how many others it is in.
    """
    if depth > _DEEPEST:
        return "…"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name), depth + 1) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return plain(value.value, depth)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, int) and not -_LONGEST_NUMBER < value < _LONGEST_NUMBER:
        return f"a number of {value.bit_length()} bits"
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item, depth + 1) for item in value]
    try:
        return repr(value)
    except Exception:  # it is somebody else's
        return f"<{type(value).__name__}>"
