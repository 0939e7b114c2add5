"""Reading a schedule's config: every complaint names the key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.errors import InvalidSchedule

from .instants import DAY, EPOCH, instant
from .readings import OneReading
from .wall import FOLDS, GAPS, WallClock
from .zones import Zone, zone

_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
_LARGEST = 10**12
# A rule that lists every day of the year by its number has half as many characters; no field has as many values.
_LONGEST = 4_000
_WHOLE = re.compile(r"\s*-?[0-9]{1,18}\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?\s*", re.IGNORECASE)
COMMON = frozenset({"tz", "timezone", "dst_gap", "dst_fold"})


@dataclass(frozen=True, slots=True)
class Context:
    """What a trigger is built from besides its config.

    :ivar schedule_id: hashed where times are spread out.
    :ivar created_at: UTC; where relative times start. :ivar timezone: the zone of a config that names none.
    """

    schedule_id: str
    created_at: datetime | None
    timezone: str


class Options:
    """One config, read key by key.

    :param allowed: the keys of this type besides the common ones; any other is refused.
    """

    __slots__ = ("context", "values")

    def __init__(self, values: Mapping[str, Any], context: Context, allowed: frozenset[str]) -> None:
        for key in values:
            if key not in allowed and key not in COMMON:
                raise InvalidSchedule(
                    str(key), values[key], f"no such key here; known are {', '.join(sorted(allowed | COMMON))}"
                )
        self.values, self.context = values, context

    def get(self, key: str, default: Any = None) -> Any:
        """The value of ``key``; null counts as absent."""
        value = self.values.get(key)
        return default if value is None else value

    def text(self, key: str, default: str = "") -> str:
        """A string."""
        value = self.get(key, default)
        if not isinstance(value, str):
            raise InvalidSchedule(key, value, "must be text")
        if len(value) > _LONGEST and key in self.values:
            raise InvalidSchedule(key, f"{value[:40]}…", f"is longer than {_LONGEST} characters")
        return value

    def choice(self, key: str, choices: tuple[str, ...], default: str) -> str:
        """One of ``choices``."""
        value = self.get(key, default)
        if value not in choices:
            raise InvalidSchedule(key, value, f"must be one of {', '.join(choices)}")
        return str(value)

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number from ``low`` to ``high``, as a number or as digits."""
        value = self.get(key, default)
        if value is None:
            raise InvalidSchedule(key, None, f"must be given, {low} to {high}")
        return integer(key, value, low, high)

    def number(self, key: str) -> float | int | None:
        """A finite number, as such or as text."""
        value = self.get(key)
        return None if value is None else number(key, value)

    def zone(self) -> Zone:
        """The zone of the config, else of the schedule."""
        field = "tz" if self.get("tz") is not None else "timezone"
        key = self.get(field, self.context.timezone)
        if not isinstance(key, str):
            raise InvalidSchedule(field, key, "must be the name of a time zone, such as Europe/Madrid")
        return zone(key, field)

    def gap(self) -> str:
        """``dst_gap``."""
        return self.choice("dst_gap", GAPS, GAPS[0])

    def fold(self) -> str:
        """``dst_fold``."""
        return self.choice("dst_fold", FOLDS, FOLDS[0])

    def instant(self, key: str) -> datetime | None:
        """An ISO 8601 instant or datetime, as UTC. A naive one is a reading in the zone, by the policy of the config.

        :raises InvalidSchedule: also if the reading falls into a gap and ``dst_gap`` is ``skip``.
        """
        value = self.moment(key)
        return None if value is None else aware(key, value, self.zone(), self.gap(), self.fold())

    def moment(self, key: str) -> datetime | None:
        """An ISO 8601 instant or datetime as it is given, aware or naive."""
        value = self.get(key)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                raise InvalidSchedule(
                    key, value, "must be an ISO 8601 instant, such as 2027-03-14T09:30:00+01:00"
                ) from None
        if value is not None and not isinstance(value, datetime):
            raise InvalidSchedule(key, value, "must be an ISO 8601 instant")
        return value


def aware(key: str, value: datetime, where: Zone, gap: str, fold: str) -> datetime:
    """``value`` in UTC; a naive one is read off a clock in ``where``.

    :raises InvalidSchedule: if no such instant exists, or not within the years 1 to 9999.
    """
    if value.tzinfo is not None:
        try:
            return value.astimezone(UTC)
        except OverflowError:
            raise InvalidSchedule(key, value, "lies outside the years 1 to 9999") from None
    reading = (value - _NAIVE_EPOCH) // _SECOND
    second = WallClock(OneReading(reading), where, gap=gap, fold=fold).next(reading - 2 * DAY)
    found = None if second is None else instant(second)
    if second is None or found is None:
        raise InvalidSchedule(key, value.isoformat(), f"there is no such time in {where.key}")
    unmoved = second + where.offset(second) == reading
    return found.replace(microsecond=value.microsecond) if unmoved else found


def integer(key: str, value: Any, low: int, high: int) -> int:
    """``value`` as a whole number from ``low`` to ``high``.

    :raises InvalidSchedule: naming ``key``.
    """
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidSchedule(key, value, f"must be a whole number, {low} to {high}")
    return value


def number(key: str, value: Any) -> float | int:
    """``value`` as a finite number.

    :raises InvalidSchedule: naming ``key``.
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = int(value) if _WHOLE.fullmatch(value) else float(value)
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise InvalidSchedule(key, value, "must be a number")
    if not -_LARGEST <= value <= _LARGEST:
        raise InvalidSchedule(key, value, f"must be a number from -{_LARGEST} to {_LARGEST}")
    return value


def items(key: str, value: Any) -> list[Any]:
    """``value`` as a list: text at its commas, a list or set, anything else alone.

    :raises InvalidSchedule: if it is empty or has very many items.
    """
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple | set | frozenset | range):
        return [value]
    if not value:
        raise InvalidSchedule(key, value, "is empty: nothing would ever be due")
    if len(value) > _LONGEST:
        raise InvalidSchedule(key, f"{len(value)} items", f"has more than {_LONGEST} items")
    return list(value)
