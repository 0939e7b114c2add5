"""Every day, every week, every month, at a time of day."""

from __future__ import annotations

from dataclasses import dataclass

from celery_parrot.errors import InvalidSchedule

from . import cron_fields
from .clocked import ClockTrigger
from .days import DayRule
from .options import Options, integer, items
from .readings import CalendarReadings
from .wall import WallClock
from .wording import ordinal, sentence, series
from .zones import zone

TIME_KEYS = frozenset({"hour", "minute", "second"})
WEEKLY_KEYS = TIME_KEYS | {"day_of_week"}
MONTHLY_KEYS = TIME_KEYS | {"day", "on_short_month"}
SHORT_MONTH = ("last", "skip")
_NAMES = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")


@dataclass(frozen=True, slots=True)
class _AtTime(ClockTrigger):
    """A time of day in a zone.

    :ivar hour: 0–23, ``minute`` and ``second`` 0–59, on the clock of ``tz``.
    """

    hour: int
    minute: int
    second: int
    tz: str
    dst_gap: str
    dst_fold: str

    def __post_init__(self) -> None:
        readings = CalendarReadings(self._days(), 1 << 60 * self.hour + self.minute, 1 << self.second)
        self._set(WallClock(readings, zone(self.tz), gap=self.dst_gap, fold=self.dst_fold))

    def _days(self) -> DayRule:
        return DayRule()

    def _time(self) -> str:
        return f"{self.hour:02}:{self.minute:02}" + (f":{self.second:02}" if self.second else "")


@dataclass(frozen=True, slots=True)
class Daily(_AtTime):
    """Every local day at a time of day."""

    schedule_type = "daily"

    def describe(self) -> str:
        """The time of day, the zone and how clock changes are treated."""
        return sentence(f"Every day at {self._time()}", self._clock)


@dataclass(frozen=True, slots=True)
class Weekly(_AtTime):
    """On some weekdays at a time of day.

    :ivar day_of_week: ascending, Sunday is 0.
    """

    schedule_type = "weekly"
    day_of_week: tuple[int, ...]

    def _days(self) -> DayRule:
        return DayRule(weekdays=sum(1 << day for day in self.day_of_week))

    def describe(self) -> str:
        """The weekdays, the time of day, the zone and how clock changes are treated."""
        days = series([_NAMES[day] for day in self.day_of_week])
        return sentence(f"Every {days} at {self._time()}", self._clock)


@dataclass(frozen=True, slots=True)
class Monthly(_AtTime):
    """On some days of every month at a time of day.

    :ivar day: ascending, 1–31, or -1 for the last day.
    :ivar on_short_month: a day the month does not have: ``last`` its last day instead, ``skip`` none.
    """

    schedule_type = "monthly"
    day: tuple[int, ...]
    on_short_month: str

    def _days(self) -> DayRule:
        mask = sum(1 << day for day in self.day if day > 0)
        return DayRule(days=mask, last=-1 in self.day, clamp=self.on_short_month == "last")

    def describe(self) -> str:
        """The days, the time of day, the zone and how clock changes are treated."""
        days = series([ordinal(day) if day > 0 else "last day" for day in sorted(self.day, key=lambda day: day % 99)])
        short = ""
        if max(self.day) > 28:
            short = (
                ", in shorter months on the last day" if self.on_short_month == "last" else ", not in shorter months"
            )
        return sentence(f"On the {days} of every month at {self._time()}{short}", self._clock)


def from_daily(options: Options) -> Daily:
    """``hour minute second``, each 0 if absent."""
    return Daily(*_time(options))


def from_weekly(options: Options) -> Weekly:
    """``day_of_week``: names or numbers (0, 7: Sunday), one, a list, or text like ``mon-fri``; Monday if absent."""
    value = options.get("day_of_week", "mon")
    mask = 0
    for item in items("day_of_week", value):
        if isinstance(item, bool) or not isinstance(item, int | str):
            raise InvalidSchedule("day_of_week", value, "must be a name, a number from 0 to 7, or a list of them")
        field = cron_fields.parse(cron_fields.DAY_OF_WEEK, cron_fields.tidy(str(item)))
        if field.hashed or not field.plain:
            raise InvalidSchedule("day_of_week", value, "H, L and # belong in a cron expression")
        mask |= field.mask
    return Weekly(*_time(options), tuple(day for day in range(7) if mask >> day & 1))


def from_monthly(options: Options) -> Monthly:
    """``day``: 1–31 or -1, one or a list, 1 if absent; ``on_short_month``."""
    value = options.get("day", 1)
    days = {integer("day", item, -1, 31) for item in items("day", value)}
    if 0 in days:
        raise InvalidSchedule("day", value, "must be 1 to 31, or -1 for the last day")
    return Monthly(*_time(options), tuple(sorted(days)), options.choice("on_short_month", SHORT_MONTH, SHORT_MONTH[0]))


def _time(options: Options) -> tuple[int, int, int, str, str, str]:
    return (
        options.integer("hour", 0, 23, 0),
        options.integer("minute", 0, 59, 0),
        options.integer("second", 0, 59, 0),
        options.zone().key,
        options.gap(),
        options.fold(),
    )
