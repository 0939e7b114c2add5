"""At times that look random, within a window of the day, the same on every beat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from celery_parrot.errors import InvalidSchedule

from .clocked import DEFAULTS, ClockTrigger
from .instants import DAY, EPOCH_ORDINAL
from .options import Options
from .spread import draw
from .wall import WallClock
from .wording import sentence
from .zones import zone

KEYS = frozenset({"start_hour", "end_hour", "fires_per_day", "seed"})
_HOUR = 3_600
_LAST_ORDINAL = date.max.toordinal()
# From the second day of the calendar on, so that a window that wraps midnight begins within it, to its last second.
_FIRST, _LAST = (2 - EPOCH_ORDINAL) * DAY, (_LAST_ORDINAL + 1 - EPOCH_ORDINAL) * DAY - 1


@dataclass(frozen=True, slots=True)
class WindowReadings:
    """One reading in each of ``slots`` equal parts of every day's window, at ``hash(seed, date of its begin, slot)``.

    :ivar start: seconds after midnight; ``length`` seconds, at most a day.
    """

    seed: str
    start: int
    length: int
    slots: int

    def next(self, reading: int) -> int | None:
        day, slot = self._slot_at(max(reading, _FIRST))
        for _ in range(3):
            found = self._reading(day, slot)
            if found is None or found >= reading:
                return found
            day, slot = (day, slot + 1) if slot + 1 < self.slots else (day + 1, 0)
        raise AssertionError("the slot after the next lies ahead")

    def prev(self, reading: int) -> int | None:
        day, slot = self._slot_at(min(reading, _LAST))
        for _ in range(3):
            found = self._reading(day, slot)
            if found is None or found <= reading:
                return found
            day, slot = (day, slot - 1) if slot else (day - 1, self.slots - 1)
        raise AssertionError("the slot before the last lies behind")

    def _slot_at(self, reading: int) -> tuple[int, int]:
        """The last window that has begun by ``reading``, and its slot there, the last one if the window has ended."""
        day, within = divmod(reading - self.start, DAY)
        if within >= self.length:
            return day, self.slots - 1
        return day, ((within + 1) * self.slots - 1) // self.length

    def _reading(self, day: int, slot: int) -> int | None:
        ordinal = day + EPOCH_ORDINAL
        if not 1 <= ordinal <= _LAST_ORDINAL:
            return None
        begin, end = slot * self.length // self.slots, (slot + 1) * self.length // self.slots
        drawn = draw("window", self.seed, date.fromordinal(ordinal).isoformat(), slot)
        return day * DAY + self.start + begin + drawn % (end - begin)


@dataclass(frozen=True, slots=True)
class RandomWithinWindow(ClockTrigger):
    """``fires_per_day`` times a day between two hours.

    :ivar start_hour: 0–23. :ivar end_hour: 0–24, exclusive; not after ``start_hour``: on the next day.
    :ivar seed: what is hashed: the schedule's id.
    """

    schedule_type = "random_within_window"
    defaults = {**DEFAULTS, "fires_per_day": 1}  # noqa: RUF012

    start_hour: int
    end_hour: int
    fires_per_day: int
    seed: str
    tz: str
    dst_gap: str
    dst_fold: str

    def __post_init__(self) -> None:
        length = ((self.end_hour - self.start_hour) % 24 or 24) * _HOUR
        readings = WindowReadings(self.seed, self.start_hour * _HOUR, length, self.fires_per_day)
        self._set(WallClock(readings, zone(self.tz), gap=self.dst_gap, fold=self.dst_fold))

    def describe(self) -> str:
        """How often, the window, the zone and how clock changes are treated."""
        often = "Once" if self.fires_per_day == 1 else f"{self.fires_per_day} times"
        window = f"{self.start_hour:02}:00 and {self.end_hour:02}:00"
        return sentence(f"{often} a day at a fixed but arbitrary time between {window}", self._clock)


def from_window(options: Options) -> RandomWithinWindow:
    """``start_hour end_hour fires_per_day``; ``seed`` instead of the schedule's id.

    :raises InvalidSchedule: if the window is empty, or too short for one second a fire.
    """
    start = options.integer("start_hour", 0, 23)
    end = options.integer("end_hour", 0, 24)
    if start == end:
        raise InvalidSchedule("end_hour", end, "the window is empty; a whole day is 0 to 24")
    longest = (end - start) % 24 or 24
    fires = options.integer("fires_per_day", 1, longest * _HOUR, 1)
    seed = options.text("seed", options.context.schedule_id)
    return RandomWithinWindow(start, end, fires, seed, options.zone().key, options.gap(), options.fold())
