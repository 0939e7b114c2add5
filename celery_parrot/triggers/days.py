"""Which days of the calendar a schedule takes part in."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

ALL_DAYS = (1 << 32) - 2
ALL_MONTHS = (1 << 13) - 2
ALL_WEEKDAYS = (1 << 7) - 1
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTHS_AHEAD = 50 * 12
_LAST_ORDINAL = date.max.toordinal()


@dataclass(frozen=True, slots=True)
class DayRule:
    """Days of the proleptic Gregorian calendar, by month, day of the month and weekday. Weekday 0 is Sunday.

    :ivar months: bit 1–12 for each month that takes part.
    :ivar days: bit 1–31 for each day of the month.
    :ivar last: the last day of the month as well.
    :ivar last_weekday: the last Monday–Friday of the month as well (``LW``).
    :ivar nearest: for each number here the Monday–Friday nearest to that day, within the month (``nW``).
    :ivar weekdays: bit 0–6 for each weekday.
    :ivar last_of: bit 0–6 for each weekday whose last one in the month takes part (``5L``).
    :ivar nth: pairs ``(weekday, n)``: its n-th in the month (``fri#2``).
    :ivar union: a day takes part if its day of the month **or** its weekday does (crontab(5) with both fields
        given); else both must.
    :ivar clamp: a day number past the end of the month means its last day.
    """

    months: int = ALL_MONTHS
    days: int = ALL_DAYS
    last: bool = False
    last_weekday: bool = False
    nearest: tuple[int, ...] = ()
    weekdays: int = ALL_WEEKDAYS
    last_of: int = 0
    nth: tuple[tuple[int, int], ...] = ()
    union: bool = False
    clamp: bool = False
    _every: bool = field(init=False, repr=False, compare=False)
    _masks: dict[int, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        all_days = self.days == ALL_DAYS and self.months == ALL_MONTHS
        object.__setattr__(self, "_every", all_days and (self.union or self.weekdays == ALL_WEEKDAYS))
        object.__setattr__(self, "_masks", {})

    def next(self, ordinal: int) -> int | None:
        """The first day at or after proleptic ``ordinal``; None if none comes within 50 years or before year 10000."""
        if not 1 <= ordinal <= _LAST_ORDINAL:
            return None if ordinal > 0 else self.next(1)
        if self._every:
            return ordinal
        today = date.fromordinal(ordinal)
        year, month, day = today.year, today.month, today.day
        first = ordinal - day + 1
        for _ in range(_MONTHS_AHEAD + 1):
            length = _length(year, month)
            if self.months >> month & 1:
                rest = self._mask(first % 7, length) >> day
                if rest:
                    return first + day - 1 + (rest & -rest).bit_length() - 1
            first, day, month = first + length, 1, month + 1
            if month > 12:
                year, month = year + 1, 1
                if year > 9999:
                    return None
        return None

    def prev(self, ordinal: int) -> int | None:
        """The last day at or before proleptic ``ordinal``; None if there is none within 50 years or since year 1."""
        if not 1 <= ordinal <= _LAST_ORDINAL:
            return None if ordinal < 1 else self.prev(_LAST_ORDINAL)
        if self._every:
            return ordinal
        today = date.fromordinal(ordinal)
        year, month, day = today.year, today.month, today.day
        first = ordinal - day + 1
        for _ in range(_MONTHS_AHEAD + 1):
            if self.months >> month & 1:
                rest = self._mask(first % 7, _length(year, month)) & ((2 << day) - 1)
                if rest:
                    return first + rest.bit_length() - 2
            month -= 1
            if month < 1:
                year, month = year - 1, 12
                if year < 1:
                    return None
            day = _length(year, month)
            first -= day
        return None

    def _mask(self, weekday: int, length: int) -> int:
        """Bit 1–31 for each day that takes part in a month of ``length`` days that begins on ``weekday``."""
        key = weekday << 5 | length
        mask = self._masks.get(key)
        if mask is None:
            by_day, by_weekday = self._by_day(weekday, length), self._by_weekday(weekday, length)
            mask = self._masks[key] = by_day | by_weekday if self.union else by_day & by_weekday
        return mask

    def _by_day(self, weekday: int, length: int) -> int:
        within = (2 << length) - 2
        mask = self.days & within
        if self.last or (self.clamp and self.days & ~within):
            mask |= 1 << length
        if self.last_weekday:
            mask |= 1 << _nearest_weekday(length, weekday, length)
        for day in self.nearest:
            if day <= length:
                mask |= 1 << _nearest_weekday(day, weekday, length)
        return mask

    def _by_weekday(self, weekday: int, length: int) -> int:
        mask = 0
        for day in range(1, length + 1):
            today = (weekday + day - 1) % 7
            last = self.last_of >> today & 1 and day + 7 > length
            if self.weekdays >> today & 1 or last or (today, (day + 6) // 7) in self.nth:
                mask |= 1 << day
        return mask


def _length(year: int, month: int) -> int:
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The Monday–Friday nearest to ``day``, never leaving the month, whose day 1 is weekday ``first``."""
    today = (first + day - 1) % 7
    if today == 6:
        return day - 1 if day > 1 else day + 2
    if today == 0:
        return day + 1 if day < length else day - 2
    return day
