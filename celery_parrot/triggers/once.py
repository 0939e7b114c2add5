"""One instant."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.errors import InvalidSchedule

from .options import Options, number

ONCE_KEYS = frozenset({"run_date", "fire_at_iso"})
DELAY_KEYS = frozenset({"delay"})
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd])\s*")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")


@dataclass(frozen=True, slots=True)
class Once:
    """That instant and no other, however late it is asked for.

    :ivar run_date: UTC.
    """

    run_date: datetime

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    def next_after(self, t: datetime) -> datetime | None:
        """The instant if it is strictly after ``t``."""
        return self.run_date if self.run_date > t else None

    def latest_at(self, t: datetime) -> datetime | None:
        """The instant if it is at or before ``t``."""
        return self.run_date if self.run_date <= t else None

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """``once`` with ``run_date`` in UTC, whatever it was resolved from."""
        return "once", {"run_date": self.run_date.isoformat()}

    def describe(self) -> str:
        """The instant in UTC."""
        return f"Once, at {self.run_date.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC."


def from_once(options: Options) -> Once:
    """``run_date`` or ``fire_at_iso``; without either, the instant of creation.

    :raises InvalidSchedule: if there is neither, or the reading does not exist and ``dst_gap`` is ``skip``.
    """
    key = "run_date" if options.get("run_date") is not None else "fire_at_iso"
    if key == "run_date" and options.get("fire_at_iso") is not None:
        raise InvalidSchedule("fire_at_iso", options.get("fire_at_iso"), "is given twice, here and in run_date")
    due = options.instant(key) or options.context.created_at
    if due is None:
        raise InvalidSchedule("run_date", None, "must be given where the instant of creation is not known")
    return Once(due)


def from_delay(options: Options) -> Once:
    """``delay`` after the instant of creation: seconds, or text such as ``30m`` or ``1h 30m`` (units s m h d)."""
    value = options.get("delay")
    seconds = _delay(value)
    created = options.context.created_at
    if created is None:
        raise InvalidSchedule("delay", value, "counts from the instant of creation, which is not known here")
    try:
        return Once(created + timedelta(seconds=seconds))
    except OverflowError:
        raise InvalidSchedule("delay", value, "leads past year 9999") from None


def _delay(value: Any) -> float:
    if value is None:
        raise InvalidSchedule("delay", None, "must be given, as in '30m'")
    text = value.strip().lower() if isinstance(value, str) else ""
    if _SPAN.fullmatch(text):
        return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(text))
    try:
        seconds = number("delay", value)
    except InvalidSchedule:
        seconds = -1
    if seconds < 0:
        raise InvalidSchedule("delay", value, "must be a time span of at least 0, such as '30m' (units s, m, h, d)")
    return seconds
