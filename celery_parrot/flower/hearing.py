"""What is believed of a Celery event. Whoever reaches the broker can send one, and its fields end up in pages,
metrics and memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

LONGEST: Final = 1000
"""Characters of a text that are kept."""
GREATEST: Final = 2**53 - 1
"""The greatest whole number that a browser reads as it is."""


def sane(event: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of docs/events.md that hold what belongs there; all else is left out."""
    found = {}
    for name, read in _READ.items():
        if (value := event.get(name)) is not None and (value := read(value)) is not None:
            found[name] = value
    return found


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    text = value if len(value) <= LONGEST else f"{value[: LONGEST - 1]}…"
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= GREATEST else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if -GREATEST <= value <= GREATEST else None  # NaN is in no range


def _instant(value: object) -> str | None:
    try:
        at = datetime.fromisoformat(value)  # type: ignore[arg-type]  # as it came
        return None if at.tzinfo is None else at.astimezone(UTC).isoformat()
    except (TypeError, ValueError, OverflowError):
        return None


_READ: Final[Mapping[str, Callable[[object], Any]]] = {
    **dict.fromkeys(
        (
            "type", "hostname", "scheduler", "schedule", "schedule_id", "kind", "store", "fire_id", "origin",
            "status", "reason", "worker", "limit", "held_by", "held_by_kind", "change",
        ),
        _text,
    ),
    **dict.fromkeys(("due_at", "until"), _instant),
    **dict.fromkeys(("count", "attempt", "version", "failures"), _count),
    **dict.fromkeys(("late", "timestamp", "utcoffset"), _number),
}  # fmt: skip
