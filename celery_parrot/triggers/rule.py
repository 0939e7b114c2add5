"""RFC 5545 recurrence rules, read and expanded by python-dateutil.

dateutil walks from DTSTART, which costs more every day and for some rules never ends. So it is asked for one year at
a time, from a DTSTART moved to right before that year; and rules that step in hours or less are found by arithmetic.
"""

from __future__ import annotations

import calendar
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache

from dateutil.rrule import rrule, rrulestr

from celery_parrot.errors import InvalidSchedule

from .clocked import DEFAULTS, ClockTrigger
from .days import ALL_DAYS, ALL_MONTHS, ALL_WEEKDAYS, DayRule
from .instants import DAY, EPOCH, EPOCH_ORDINAL, FIFTY_YEARS
from .options import Options
from .readings import Between, CalendarReadings, Lattice, Listed, Readings, minutes_of_day
from .wall import WallClock
from .wording import sentence
from .zones import Zone, zone

KEYS = frozenset({"rule", "dtstart"})
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
_UNITS = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}
_CALENDAR = ("DAILY", "WEEKLY", "MONTHLY", "YEARLY")
_DAY_PARTS = ("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYEASTER")
_TIME_PARTS = {"BYHOUR": "hour", "BYMINUTE": "minute", "BYSECOND": "second"}
_WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_MOST_A_DAY = 100
_MOST_COUNTED = 10_000
_MOST_LOOKS = 16


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
        readings = _readings(parts, datetime.fromisoformat(self.dtstart), where)
        self._set(WallClock(readings, where, parts["FREQ"] in _UNITS, self.dst_gap, self.dst_fold))

    def describe(self) -> str:
        """The rule, its start, the zone and how clock changes are treated."""
        return sentence(f"As recurrence rule {self.rule} says, from {self.dtstart.replace('T', ' ')}", self._clock)


def from_rule(options: Options) -> Rule:
    """``rule``: one RRULE, optionally with its DTSTART line; ``dtstart``: an instant, 1970-01-01T00:00 local if absent.

    :raises InvalidSchedule: naming ``rule`` or ``dtstart``; also if nothing would ever be due.
    """
    given = options.text("rule")
    where = options.zone()
    text, start_text = _lines(given)
    parts = _parts(given, text)
    start = _NAIVE_EPOCH
    if options.get("dtstart") is not None:
        if start_text:
            raise InvalidSchedule("dtstart", options.get("dtstart"), "is given twice, here and in rule")
        at = options.instant("dtstart")
        assert at is not None
        start = at.astimezone(where.info).replace(tzinfo=None)
    elif start_text:
        start = _stamp(given, start_text, where)
    elif "COUNT" in parts:
        raise InvalidSchedule("dtstart", None, "must be given: COUNT counts from there")
    rule = ";".join(f"{key}={value}" for key, value in parts.items())
    return Rule(rule, start.replace(microsecond=0).isoformat(), where.key, options.gap(), options.fold())


def _lines(given: str) -> tuple[str, str]:
    """The text of the RRULE and, if there, of the DTSTART."""
    rule = start = ""
    for line in given.upper().split():
        name, colon, value = line.partition(":")
        if not colon or name == "RRULE":
            if rule:
                raise InvalidSchedule("rule", given, "holds more than one rule")
            rule = value if colon else line
        elif name == "DTSTART":
            start = value
        else:
            raise InvalidSchedule("rule", given, f"{name} is not supported; one RRULE and its DTSTART are")
    return rule, start


def _parts(given: str, text: str) -> dict[str, str]:
    """The parts of an RRULE, checked by dateutil as far as it goes."""
    parts: dict[str, str] = {}
    for part in text.rstrip(";").split(";"):
        key, equals, value = part.partition("=")
        if not equals or not value or key in parts:
            raise InvalidSchedule("rule", given, f"{part!r} is not a part of a recurrence rule, such as FREQ=DAILY")
        parts["BYDAY" if key == "BYWEEKDAY" else key] = value
    try:
        if parts.get("FREQ") not in (*_UNITS, *_CALENDAR):
            raise ValueError("FREQ must be one of YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY, SECONDLY")
        if not 1 <= int(parts.get("INTERVAL", "1")) < 1_000_000 or int(parts.get("COUNT", "1")) < 1:
            raise ValueError("INTERVAL and COUNT must be at least 1")
        if "COUNT" in parts and "UNTIL" in parts:
            raise ValueError("COUNT and UNTIL exclude each other")
        rrulestr(_text(tuple((key, value) for key, value in parts.items() if key != "UNTIL")), dtstart=_NAIVE_EPOCH)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidSchedule("rule", given, str(error) or "is not a recurrence rule") from None
    return parts


def _text(parts: tuple[tuple[str, str], ...]) -> str:
    return ";".join(f"{key}={value}" for key, value in parts)


def _stamp(given: str, text: str, where: Zone) -> datetime:
    """A DTSTART or UNTIL as a local reading; one that ends in Z is an instant."""
    for form in ("%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S", "%Y%m%d"):
        try:
            at = datetime.strptime(text, form)  # noqa: DTZ007 - a reading has no zone
        except ValueError:
            continue
        if form.endswith("Z"):
            return at.replace(tzinfo=EPOCH.tzinfo).astimezone(where.info).replace(tzinfo=None)
        return at
    raise InvalidSchedule("rule", given, f"{text!r} is not a date and time such as 20270314T093000Z")


def _readings(parts: dict[str, str], start: datetime, where: Zone) -> Readings:
    """The rule as a set of readings.

    :raises InvalidSchedule: if it is empty, or dateutil could not search it in reasonable time.
    """
    whole = _text(tuple(parts.items()))
    first = _reading(start)
    last = _reading(_stamp(whole, parts["UNTIL"], where)) if "UNTIL" in parts else None
    found: Readings = Between(
        _lattice(whole, parts, start) if parts["FREQ"] in _UNITS else _expansion(whole, parts, start), first, last
    )
    at = found.next(first)
    if at is None or at > first + FIFTY_YEARS:
        raise InvalidSchedule("rule", whole, "names no time within 50 years: nothing would ever be due")
    if "COUNT" not in parts:
        return found
    if int(parts["COUNT"]) > _MOST_COUNTED:
        raise InvalidSchedule("rule", whole, f"COUNT may be at most {_MOST_COUNTED}; UNTIL has no such limit")
    counted: list[int] = []
    while at is not None and len(counted) < int(parts["COUNT"]):
        counted.append(at)
        at = found.next(at + 1)
    return Listed(tuple(counted))


def _lattice(whole: str, parts: dict[str, str], start: datetime) -> Lattice:
    """A rule that steps in hours or less: BY-parts of its unit and above filter, those below expand."""
    unit = _UNITS[parts["FREQ"]]
    if unsupported := {"BYSETPOS", "BYYEARDAY", "BYWEEKNO", "BYEASTER"} & parts.keys():
        raise InvalidSchedule("rule", whole, f"{min(unsupported)} needs a FREQ of DAILY or more")
    masks = {}
    for (key, name), size, length in zip(_TIME_PARTS.items(), (24, 60, 60), (3_600, 60, 1), strict=True):
        implied = (1 << size) - 1 if unit <= length else 1 << getattr(start, name)
        masks[key] = _mask(whole, parts[key]) if key in parts else implied
    days = [int(day) for day in parts.get("BYMONTHDAY", "").split(",") if day]
    if any(day < -1 for day in days):
        raise InvalidSchedule("rule", whole, "BYMONTHDAY under -1 needs a FREQ of DAILY or more")
    rule = DayRule(
        months=_mask(whole, parts["BYMONTH"]) if "BYMONTH" in parts else ALL_MONTHS,
        days=sum(1 << day for day in set(days) if day > 0) if days else ALL_DAYS,
        last=-1 in days,
        weekdays=_weekday_mask(whole, parts["BYDAY"]) if "BYDAY" in parts else ALL_WEEKDAYS,
    )
    within = CalendarReadings(rule, minutes_of_day(masks["BYHOUR"], masks["BYMINUTE"]), masks["BYSECOND"])
    return Lattice(within, _reading(start), unit, int(parts.get("INTERVAL", "1")))


def _mask(whole: str, text: str) -> int:
    values = {int(value) for value in text.split(",")}
    if min(values) < 0 or max(values) > 59:
        raise InvalidSchedule("rule", whole, f"{text} is out of range")
    return sum(1 << value for value in values)


def _weekday_mask(whole: str, text: str) -> int:
    names = set(text.split(","))
    if not names <= set(_WEEKDAYS):
        raise InvalidSchedule("rule", whole, "a numbered BYDAY needs a FREQ of MONTHLY or YEARLY")
    return sum(1 << _WEEKDAYS.index(name) for name in names)


def _expansion(whole: str, parts: dict[str, str], start: datetime) -> YearlyExpansion:
    """A rule that steps in days or more, with what DTSTART implies written out, since DTSTART will be moved."""
    kept = {key: value for key, value in parts.items() if key not in ("COUNT", "UNTIL")}
    a_day = 1
    for key, name in _TIME_PARTS.items():
        a_day *= len(set(kept.setdefault(key, str(getattr(start, name))).split(",")))
    if a_day > _MOST_A_DAY:
        raise InvalidSchedule(
            "rule", whole, f"names {a_day} times a day; over {_MOST_A_DAY} take FREQ=HOURLY or MINUTELY"
        )
    if not kept.keys() & set(_DAY_PARTS):
        if kept["FREQ"] == "YEARLY":
            kept.setdefault("BYMONTH", str(start.month))
        if kept["FREQ"] in ("MONTHLY", "YEARLY"):
            kept["BYMONTHDAY"] = str(start.day)
        elif kept["FREQ"] == "WEEKLY":
            kept["BYDAY"] = _WEEKDAYS[start.isoweekday() % 7]
    return YearlyExpansion(tuple(kept.items()), start)


@lru_cache(maxsize=1024)
def _expand(parts: tuple[tuple[str, str], ...], dtstart: datetime, year: int) -> tuple[int, ...]:
    """The readings of one year, by dateutil."""
    begin, end = datetime(year, 1, 1), datetime(year, 12, 31, 23, 59, 59)  # noqa: DTZ001 - readings have no zone
    rule = rrulestr(_text(parts), dtstart=_moved(dict(parts), dtstart, begin))
    rule.__class__ = _PatientRule
    found: list[int] = []
    with suppress(_Enough):
        for at in rule:
            if at > end:
                break
            if at >= begin:
                found.append(_reading(at))
    return tuple(found)


class _Enough(Exception):
    """Nothing has matched for years."""


class _PatientRule(rrule):
    """dateutil looks at UNTIL only when something matches, and else walks on to year 9999. It reads this attribute once
    or twice for each year it comes to; the walk to the year wanted takes five at most.
    """

    @property
    def _byweekno(self) -> object:
        self.__dict__["looked"] = looked = self.__dict__.get("looked", 0) + 1
        if looked > _MOST_LOOKS:
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


def _reading(at: datetime) -> int:
    return (at - _NAIVE_EPOCH) // _SECOND


def _year_of(reading: int) -> int:
    ordinal = min(max(reading // DAY + EPOCH_ORDINAL, 1), date.max.toordinal())
    return date.fromordinal(ordinal).year
