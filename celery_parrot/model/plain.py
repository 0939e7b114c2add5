"""Values as JSON has them. Imports nothing of ours: the command line loads it before anything else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum
from typing import Any


def plain(value: object) -> Any:
    """Dataclasses, enums, instants, mappings and sequences as JSON has them; anything else as its ``repr``. So are the
    numbers that JSON does not know: a store that somebody else writes to may hold them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return repr(value)
