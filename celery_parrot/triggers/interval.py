"""Fixed steps from a fixed anchor: never drifts, whoever computes it and whenever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_parrot.errors import InvalidSchedule

from .instants import FIFTY_YEARS, MICRO, instant_of_micros, micros_of
from .options import Options

_UNITS = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
KEYS = frozenset({*_UNITS, "offset"})
HOURS_KEYS = frozenset({"n", "offset"})
_SHORTEST = MICRO // 10


@dataclass(frozen=True, slots=True)
class Interval:
    """``1970-01-01T00:00Z + offset + n × every``.

    :ivar every: microseconds between due times, 100 ms to 50 years.
    :ivar offset: microseconds, at least 0 and less than ``every``.
    """

    every: int
    offset: int = 0

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, in UTC; None beyond year 9999."""
        n = (micros_of(t) - self.offset) // self.every + 1
        return instant_of_micros(n * self.every + self.offset)

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, in UTC; None before year 1."""
        n = (micros_of(t) - self.offset) // self.every
        return instant_of_micros(n * self.every + self.offset)

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """``interval`` with ``seconds`` and, unless 0, ``offset``."""
        config = {"seconds": _seconds(self.every)}
        if self.offset:
            config["offset"] = _seconds(self.offset)
        return "interval", config

    def describe(self) -> str:
        """The step in the largest unit that divides it."""
        shift = f" and {_seconds(self.offset):g} s" if self.offset else ""
        return f"Every {_span(self.every)}, counted from 1970-01-01 00:00 UTC{shift}; clock changes do not move it."


def from_interval(options: Options) -> Interval:
    """Sum ``weeks days hours minutes seconds``; ``offset`` in seconds.

    :raises InvalidSchedule: if the sum is under 100 ms or over 50 years, or the offset is not within one step.
    """
    given = [key for key in _UNITS if options.get(key) is not None]
    if not given:
        raise InvalidSchedule("seconds", None, "an interval needs one of weeks, days, hours, minutes, seconds")
    amounts = {key: _micros(options, key) * _UNITS[key] for key in given}
    return _interval(options, max(given, key=lambda key: abs(amounts[key])), round(sum(amounts.values())))


def from_hours(options: Options) -> Interval:
    """``n`` hours."""
    if options.get("n") is None:
        raise InvalidSchedule("n", None, "must be given: how many hours between due times")
    return _interval(options, "n", round(_micros(options, "n") * 3_600))


def _interval(options: Options, key: str, every: int) -> Interval:
    if not _SHORTEST <= every <= FIFTY_YEARS * MICRO:
        raise InvalidSchedule(key, options.get(key), "the interval must be at least 0.1 seconds and at most 50 years")
    offset = round(_micros(options, "offset"))
    if not 0 <= offset < every:
        raise InvalidSchedule("offset", options.get("offset"), "must be at least 0 and less than the interval")
    return Interval(every, offset)


def _micros(options: Options, key: str) -> float | int:
    return (options.number(key) or 0) * MICRO


def _seconds(micros: int) -> float | int:
    return micros / MICRO if micros % MICRO else micros // MICRO


def _span(micros: int) -> str:
    for name, seconds in _UNITS.items():
        count, rest = divmod(micros, seconds * MICRO)
        if not rest:
            return name.removesuffix("s") if count == 1 else f"{count} {name}"
    return f"{_seconds(micros):g} seconds"
