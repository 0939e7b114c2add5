"""RFC 5545 recurrence rules, read and expanded by python-dateutil.

dateutil walks from DTSTART, which costs more every day and for some rules never ends. So it is asked for one year at
a time, from a DTSTART moved to right before that year, and for days only; times of day are a mask as everywhere. Rules
that step in hours or less are found by arithmetic.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache
from itertools import islice

from dateutil.rrule import rrule, rrulestr

from celery_parrot.errors import InvalidSchedule

from . import rule_parts
from .clocked import DEFAULTS, ClockTrigger
from .days import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, DayRule
from .instants import DAY, EPOCH, EPOCH_ORDINAL, FIFTY_YEARS
from .options import Options
from .readings import Between, CalendarReadings, Lattice, Listed, Readings, minutes_of_day
from .rule_parts import UNITS, WEEKDAYS, reading_of
from .wall import WallClock
from .wording import sentence
from .zones import Zone, zone

KEYS = frozenset({"rule", "dtstart"})
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_DAY_PARTS = frozenset({"BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYEASTER"})
_TIME_PARTS = {"BYHOUR": "hour", "BYMINUTE": "minute", "BYSECOND": "second"}
_MIDNIGHT = dict.fromkeys(_TIME_PARTS, "0")
_MOST_A_DAY = 100
_MOST_COUNTED = 10_000
_LONGEST_COUNT = 10 * FIFTY_YEARS
# How often a search comes to a new year without a match: within one year, and over 50.
_LOOKS_IN_A_YEAR, _LOOKS_IN_FIFTY = 16, 106


@dataclass(frozen=True, slots=True)
class YearlyExpansion:
    """Readings of a rule that steps in days or more, without COUNT and UNTIL.

    :ivar parts: the rule, every implied part filled in from DTSTART. :ivar dtstart: naive.
    """

    parts: tuple[tuple[str, str], ...]
    dtstart: datetime

    def next(self, reading: int) -> int | None:
        year = max(_year_of(reading), self.dtstart.year)
        for number in range(year, min(year + 51, 10_000)):
            found = _expand(self.parts, self.dtstart, number)
            at = bisect_left(found, reading)
            if at < len(found):
                return found[at]
        return None

    def prev(self, reading: int) -> int | None:
        year = _year_of(reading)
        for number in range(year, max(year - 51, self.dtstart.year - 1), -1):
            found = _expand(self.parts, self.dtstart, number)
            at = bisect_right(found, reading)
            if at:
                return found[at - 1]
        return None


@dataclass(frozen=True, slots=True)
class YearlyDays:
    """The days of ``midnights``, whose readings are all at 00:00:00."""

    midnights: YearlyExpansion

    def next(self, ordinal: int) -> int | None:
        found = self.midnights.next((ordinal - EPOCH_ORDINAL) * DAY)
        return None if found is None else found // DAY + EPOCH_ORDINAL

    def prev(self, ordinal: int) -> int | None:
        found = self.midnights.prev((ordinal - EPOCH_ORDINAL) * DAY)
        return None if found is None else found // DAY + EPOCH_ORDINAL


@dataclass(frozen=True, slots=True)
class Rule(ClockTrigger):
    """An RFC 5545 recurrence rule, read on the clock of ``tz``.

    A rule that steps in hours or less is continuous, any other is wall. COUNT counts readings, before clock changes.

    :ivar rule: its parts, upper case. :ivar dtstart: ISO 8601, naive: a reading in ``tz``.
    """

    schedule_type = "rrule"
    defaults = DEFAULTS

    rule: str
    dtstart: str
    tz: str
    dst_gap: str
    dst_fold: str

    def __post_init__(self) -> None:
        parts = dict(part.split("=") for part in self.rule.split(";"))
        where = zone(self.tz)
        readings = _readings(self.rule, parts, datetime.fromisoformat(self.dtstart), where)
        self._set(WallClock(readings, where, parts["FREQ"] in UNITS, self.dst_gap, self.dst_fold))

    def describe(self) -> str:
        """The rule, its start, the zone and how clock changes are treated."""
        return sentence(f"As recurrence rule {self.rule} says, from {self.dtstart.replace('T', ' ')}", self._clock)


def from_rule(options: Options) -> Rule:
    """``rule``: one RRULE, optionally with its DTSTART line; ``dtstart``: a reading or an instant, 1970-01-01T00:00
    local if absent.

    :raises InvalidSchedule: naming ``rule`` or ``dtstart``; also if nothing would ever be due.
    """
    given = options.text("rule")
    where = options.zone()
    text, start_text = rule_parts.lines(given)
    parts = rule_parts.split(given, text)
    start = _start(options, start_text, where)
    if start is None and "COUNT" in parts:
        raise InvalidSchedule("dtstart", None, "must be given: COUNT counts from there")
    start = start or _NAIVE_EPOCH
    rule_parts.refuse_what_dateutil_does(given, parts, start)
    return Rule(rule_parts.joined(parts), start.isoformat(), where.key, options.gap(), options.fold())


def _start(options: Options, in_rule: str, where: Zone) -> datetime | None:
    """The reading that the rule starts from, as ``dtstart`` or the rule itself says."""
    given = options.moment("dtstart")
    if in_rule and given is not None:
        raise InvalidSchedule("dtstart", options.get("dtstart"), "is given twice, here and in rule")
    if in_rule:
        reading = rule_parts.stamp(options.text("rule"), in_rule, where)
    elif given is not None:
        reading = rule_parts.local(given, where)
    else:
        return None
    try:
        return _NAIVE_EPOCH + timedelta(seconds=reading)
    except OverflowError:
        key = "rule" if in_rule else "dtstart"
        raise InvalidSchedule(key, options.get(key), f"starts outside the years 1 to 9999 in {where.key}") from None


def _readings(whole: str, parts: Mapping[str, str], start: datetime, where: Zone) -> Readings:
    """The rule as a set of readings.

    :raises InvalidSchedule: if it is empty, or could not be searched in reasonable time.
    """
    first = reading_of(start)
    last = rule_parts.stamp(whole, parts["UNTIL"], where) if "UNTIL" in parts else None
    if parts["FREQ"] in UNITS:
        found = Between(_lattice(whole, parts, start), first, last)
        ahead = _steps(found, first)
    else:
        filled = _filled(whole, parts, start)
        found = Between(_calendar(filled, start), first, last)
        ahead = map(reading_of, _walk(filled, start, _LOOKS_IN_FIFTY))
    at = next(ahead, None)
    if at is None or at > first + FIFTY_YEARS or (last is not None and at > last):
        raise InvalidSchedule("rule", whole, "names no time within 50 years: nothing would ever be due")
    return Listed((at, *_counted(whole, int(parts["COUNT"]), first, ahead))) if "COUNT" in parts else found


def _counted(whole: str, count: int, first: int, ahead: Iterator[int]) -> Iterator[int]:
    """All but the first of ``count`` readings."""
    if count > _MOST_COUNTED:
        raise InvalidSchedule("rule", whole, f"COUNT may be at most {_MOST_COUNTED}; UNTIL has no such limit")
    for at in islice(ahead, count - 1):
        if at > first + _LONGEST_COUNT:
            raise InvalidSchedule("rule", whole, "COUNT leads further than 500 years; UNTIL has no such limit")
        yield at


def _steps(readings: Readings, first: int) -> Iterator[int]:
    at = readings.next(first)
    while at is not None:
        yield at
        at = readings.next(at + 1)


def _lattice(whole: str, parts: Mapping[str, str], start: datetime) -> Lattice:
    """A rule that steps in hours or less: BY-parts of its unit and above filter, those below expand."""
    unit = UNITS[parts["FREQ"]]
    if unsupported := {"BYSETPOS", "BYYEARDAY", "BYWEEKNO", "BYEASTER"} & parts.keys():
        raise InvalidSchedule("rule", whole, f"{min(unsupported)} needs a FREQ of DAILY or more")
    masks = {}
    for (key, name), size, length in zip(_TIME_PARTS.items(), (24, 60, 60), (3_600, 60, 1), strict=True):
        implied = (1 << size) - 1 if unit <= length else 1 << getattr(start, name)
        masks[key] = _mask(parts[key]) if key in parts else implied
    days = {int(day) for day in parts["BYMONTHDAY"].split(",")} if "BYMONTHDAY" in parts else set()
    if any(day < -1 for day in days):
        raise InvalidSchedule("rule", whole, "BYMONTHDAY under -1 needs a FREQ of DAILY or more")
    rule = DayRule(
        months=_mask(parts["BYMONTH"]) if "BYMONTH" in parts else ALL_MONTHS,
        days=sum(1 << day for day in days if day > 0) if days else ALL_DAYS,
        last=-1 in days,
        weekdays=_weekday_mask(parts["BYDAY"]) if "BYDAY" in parts else ALL_WEEKDAYS,
    )
    within = CalendarReadings(rule, minutes_of_day(masks["BYHOUR"], masks["BYMINUTE"]), masks["BYSECOND"])
    return Lattice(within, reading_of(start), unit, int(parts.get("INTERVAL", "1")))


def _mask(text: str) -> int:
    return sum(1 << value for value in {int(value) for value in text.split(",")})


def _weekday_mask(text: str) -> int:
    return sum(1 << WEEKDAYS.index(name) for name in set(text.split(",")))


def _filled(whole: str, parts: Mapping[str, str], start: datetime) -> dict[str, str]:
    """A rule that steps in days or more, with what DTSTART implies written out, since DTSTART will be moved."""
    filled = {key: value for key, value in parts.items() if key not in ("COUNT", "UNTIL")}
    a_day = 1
    for key, name in _TIME_PARTS.items():
        a_day *= len(set(filled.setdefault(key, str(getattr(start, name))).split(",")))
    if a_day > _MOST_A_DAY:
        raise InvalidSchedule(
            "rule", whole, f"names {a_day} times a day; over {_MOST_A_DAY} take FREQ=HOURLY or MINUTELY"
        )
    if not filled.keys() & _DAY_PARTS:
        if filled["FREQ"] == "YEARLY":
            filled.setdefault("BYMONTH", str(start.month))
        if filled["FREQ"] in ("MONTHLY", "YEARLY"):
            filled["BYMONTHDAY"] = str(start.day)
        elif filled["FREQ"] == "WEEKLY":
            filled["BYDAY"] = WEEKDAYS[start.isoweekday() % 7]
    return filled


def _calendar(filled: Mapping[str, str], start: datetime) -> Readings:
    """Days by dateutil, times of day by a mask; BYSETPOS picks among both, so there dateutil does all."""
    if "BYSETPOS" in filled:
        return YearlyExpansion(tuple(filled.items()), start)
    hours, minutes, seconds = (_mask(filled[key]) for key in _TIME_PARTS)
    midnight = start.replace(hour=0, minute=0, second=0)
    days = YearlyDays(YearlyExpansion(tuple({**filled, **_MIDNIGHT}.items()), midnight))
    return CalendarReadings(days, minutes_of_day(hours, minutes), seconds)


@lru_cache(maxsize=1024)
def _expand(parts: tuple[tuple[str, str], ...], dtstart: datetime, year: int) -> tuple[int, ...]:
    """The readings of one year, by dateutil."""
    begin, end = datetime(year, 1, 1), datetime(year, 12, 31, 23, 59, 59)  # noqa: DTZ001 - readings have no zone
    rule = dict(parts)
    found: list[int] = []
    for at in _walk(rule, _moved(rule, dtstart, begin), _LOOKS_IN_A_YEAR):
        if at > end:
            break
        if at >= begin:
            found.append(reading_of(at))
    return tuple(found)


def _walk(parts: Mapping[str, str], dtstart: datetime, looks: int) -> Iterator[datetime]:
    """What dateutil finds, one after the other, until it has looked into ``looks`` years in vain."""
    rule = rrulestr(rule_parts.joined(parts), dtstart=dtstart)
    rule.__class__ = _PatientRule
    assert isinstance(rule, _PatientRule)
    rule.left = looks
    with suppress(_Enough):
        for at in rule:
            rule.left = looks
            yield at


class _Enough(Exception):
    """Nothing has matched for years."""


class _PatientRule(rrule):
    """dateutil looks at UNTIL only when something matches, and else walks on to year 9999. It reads ``_byweekno`` once
    or twice for each year it comes to; the walk from a moved DTSTART to the year wanted takes five at most.

    :ivar left: how many more of these looks there may be.
    """

    left: int

    @property
    def _byweekno(self) -> object:
        self.left -= 1
        if self.left < 0:
            raise _Enough
        return self.__dict__["_byweekno"]


def _moved(parts: dict[str, str], dtstart: datetime, begin: datetime) -> datetime:
    """A DTSTART of the same rule, a whole number of steps later and at least one whole step before ``begin``."""
    interval, freq = int(parts.get("INTERVAL", "1")), parts["FREQ"]
    if freq in ("DAILY", "WEEKLY"):
        step = interval * (7 if freq == "WEEKLY" else 1)
        steps = (begin - dtstart).days // step - 2
        return dtstart + timedelta(days=steps * step) if steps > 0 else dtstart
    months = interval * (12 if freq == "YEARLY" else 1)
    steps = ((begin.year - dtstart.year) * 12 + begin.month - dtstart.month) // months - 1
    if steps <= 0:
        return dtstart
    year, month = divmod(dtstart.year * 12 + dtstart.month - 1 + steps * months, 12)
    day = min(dtstart.day, calendar.monthrange(year, month + 1)[1])
    return dtstart.replace(year=year, month=month + 1, day=day)


def _year_of(reading: int) -> int:
    ordinal = min(max(reading // DAY + EPOCH_ORDINAL, 1), date.max.toordinal())
    return date.fromordinal(ordinal).year
