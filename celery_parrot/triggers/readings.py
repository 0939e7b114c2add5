"""Local readings: what a wall clock shows, before any zone is applied.

A reading is a number of seconds since a naive 1970-01-01T00:00. A :class:`Readings` names some of them; :mod:`.wall`
turns them into instants.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Protocol

from .instants import DAY, EPOCH_ORDINAL

# Steps of a search through a lattice: more than 50 years of days.
_MOST_STEPS = 20_000


class Days(Protocol):
    """A set of days, by their proleptic ordinal, that can be searched both ways without walking through it."""

    def next(self, ordinal: int) -> int | None:
        """The first at or after ``ordinal``; None if there is none within 50 years or the calendar ends."""
        ...

    def prev(self, ordinal: int) -> int | None:
        """The last at or before ``ordinal``; None if there is none within 50 years or the calendar begins."""
        ...


class Readings(Protocol):
    """A set of local readings that can be searched both ways without walking through it."""

    def next(self, reading: int) -> int | None:
        """The smallest at or after ``reading``; None if there is none within 50 years or the calendar ends."""
        ...

    def prev(self, reading: int) -> int | None:
        """The greatest at or before ``reading``; None if there is none within 50 years or the calendar begins."""
        ...


@dataclass(frozen=True, slots=True)
class OneReading:
    """The reading ``at`` and no other."""

    at: int

    def next(self, reading: int) -> int | None:
        return self.at if reading <= self.at else None

    def prev(self, reading: int) -> int | None:
        return self.at if reading >= self.at else None


@dataclass(frozen=True, slots=True)
class CalendarReadings:
    """Every reading on a day of ``days`` at a minute of ``minutes`` and a second of ``seconds``.

    :ivar minutes: bit ``60 * hour + minute`` is set for each minute of the day that takes part; never 0.
    :ivar seconds: bit ``second`` is set for each second that takes part; never 0.
    """

    days: Days
    minutes: int
    seconds: int = 1

    def next(self, reading: int) -> int | None:
        day, second = divmod(reading, DAY)
        ordinal = day + EPOCH_ORDINAL
        found = self.days.next(ordinal)
        if found == ordinal:
            at = self._next_in_day(second)
            if at is not None:
                return day * DAY + at
            found = self.days.next(ordinal + 1)
        if found is None:
            return None
        return (found - EPOCH_ORDINAL) * DAY + _low(self.minutes) * 60 + _low(self.seconds)

    def prev(self, reading: int) -> int | None:
        day, second = divmod(reading, DAY)
        ordinal = day + EPOCH_ORDINAL
        found = self.days.prev(ordinal)
        if found == ordinal:
            at = self._prev_in_day(second)
            if at is not None:
                return day * DAY + at
            found = self.days.prev(ordinal - 1)
        if found is None:
            return None
        return (found - EPOCH_ORDINAL) * DAY + (self.minutes.bit_length() - 1) * 60 + self.seconds.bit_length() - 1

    def _next_in_day(self, second: int) -> int | None:
        minute, within = divmod(second, 60)
        rest = self.minutes >> minute
        if rest & 1:
            later = self.seconds >> within
            if later:
                return second + _low(later)
            rest &= -2
        if not rest:
            return None
        return (minute + _low(rest)) * 60 + _low(self.seconds)

    def _prev_in_day(self, second: int) -> int | None:
        minute, within = divmod(second, 60)
        rest = self.minutes & ((2 << minute) - 1)
        if rest >> minute:
            earlier = self.seconds & ((2 << within) - 1)
            if earlier:
                return minute * 60 + earlier.bit_length() - 1
            rest ^= 1 << minute
        if not rest:
            return None
        return (rest.bit_length() - 1) * 60 + self.seconds.bit_length() - 1


@dataclass(frozen=True, slots=True)
class Lattice:
    """Those of ``within`` that fall into every ``interval``-th unit of time since ``start``.

    :ivar unit: seconds.
    """

    within: Readings
    start: int
    unit: int
    interval: int

    def next(self, reading: int) -> int | None:
        for _ in range(_MOST_STEPS):
            found = self.within.next(reading)
            if found is None:
                return None
            behind = (found // self.unit - self.start // self.unit) % self.interval
            if not behind:
                return found
            reading = (found // self.unit + self.interval - behind) * self.unit
        return None

    def prev(self, reading: int) -> int | None:
        for _ in range(_MOST_STEPS):
            found = self.within.prev(reading)
            if found is None:
                return None
            behind = (found // self.unit - self.start // self.unit) % self.interval
            if not behind:
                return found
            reading = (found // self.unit - behind + 1) * self.unit - 1
        return None


@dataclass(frozen=True, slots=True)
class Between:
    """Those of ``within`` from ``first`` to ``last``, both inclusive; no ``last``: for ever."""

    within: Readings
    first: int
    last: int | None

    def next(self, reading: int) -> int | None:
        found = self.within.next(max(reading, self.first))
        return None if found is None or (self.last is not None and found > self.last) else found

    def prev(self, reading: int) -> int | None:
        found = self.within.prev(reading if self.last is None else min(reading, self.last))
        return None if found is None or found < self.first else found


@dataclass(frozen=True, slots=True)
class Listed:
    """A finite number of readings, ascending."""

    all: tuple[int, ...]

    def next(self, reading: int) -> int | None:
        at = bisect_left(self.all, reading)
        return self.all[at] if at < len(self.all) else None

    def prev(self, reading: int) -> int | None:
        at = bisect_right(self.all, reading)
        return self.all[at - 1] if at else None


def _low(mask: int) -> int:
    """The lowest bit set in ``mask``."""
    return (mask & -mask).bit_length() - 1


def minutes_of_day(hours: int, minutes: int) -> int:
    """The mask of minutes of the day from a mask of ``hours`` and one of ``minutes``."""
    return sum(minutes << 60 * hour for hour in range(24) if hours >> hour & 1)
