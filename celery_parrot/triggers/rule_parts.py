"""The text of a recurrence rule: its lines, its parts and what each may hold.

dateutil takes numbers that are out of range, fails on some of them only when it is asked, and searches others for ever.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import NoReturn

from dateutil.rrule import rrulestr

from celery_parrot.errors import InvalidSchedule

from .instants import DAY, EPOCH, FIFTY_YEARS, seconds_of
from .zones import Zone

UNITS = {"HOURLY": 3_600, "MINUTELY": 60, "SECONDLY": 1}
_STEPS = {"YEARLY": 366 * DAY, "MONTHLY": 30 * DAY, "WEEKLY": 7 * DAY, "DAILY": DAY, **UNITS}
WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_SECOND = timedelta(seconds=1)
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_WEEKDAY = re.compile(rf"([+-]?[0-9]{{1,2}})?(?:{'|'.join(WEEKDAYS)})")
# Lowest and highest number of a part.
_FROM_THE_START = {"BYSECOND": (0, 59), "BYMINUTE": (0, 59), "BYHOUR": (0, 23), "BYMONTH": (1, 12)}
# Highest number of a part; a negative one counts from the end.
_FROM_EITHER_END = {"BYMONTHDAY": 31, "BYYEARDAY": 366, "BYWEEKNO": 53, "BYSETPOS": 366}
# Days from Easter Sunday, dateutil's own; never out of the year.
_EASTER = (-80, 250)


def lines(given: str) -> tuple[str, str]:
    """The text of the RRULE and, if there, of the DTSTART.

    :raises InvalidSchedule: if there is more, or one of them twice.
    """
    found = {"RRULE": "", "DTSTART": ""}
    for line in given.upper().split():
        name, value = line.split(":", 1) if ":" in line else ("RRULE", line)
        if name not in found:
            raise InvalidSchedule("rule", given, f"{name} is not supported; one RRULE and its DTSTART are")
        if found[name]:
            raise InvalidSchedule("rule", given, f"holds more than one {name}")
        found[name] = value
    return found["RRULE"], found["DTSTART"]


def split(given: str, text: str) -> dict[str, str]:
    """The parts of an RRULE, each within its range.

    :raises InvalidSchedule: naming ``rule``.
    """
    parts: dict[str, str] = {}
    for part in text.rstrip(";").split(";"):
        key, equals, value = part.partition("=")
        key = "BYDAY" if key == "BYWEEKDAY" else key
        if not equals or not value or key in parts:
            raise InvalidSchedule("rule", given, f"{part!r} is not a part of a recurrence rule, such as FREQ=DAILY")
        parts[key] = value
    if parts.get("FREQ") not in _STEPS:
        raise InvalidSchedule("rule", given, f"FREQ must be one of {', '.join(_STEPS)}")
    if "COUNT" in parts and "UNTIL" in parts:
        raise InvalidSchedule("rule", given, "COUNT and UNTIL exclude each other")
    for key, value in parts.items():
        _Part(given, key, value).check(parts["FREQ"])
    return parts


def joined(parts: Mapping[str, str]) -> str:
    """``parts`` as the text of a rule."""
    return ";".join(f"{key}={value}" for key, value in parts.items())


def refuse_what_dateutil_does(given: str, parts: Mapping[str, str], start: datetime) -> None:
    """Raise InvalidSchedule for a rule that dateutil will not have, with ``start`` as its DTSTART."""
    try:
        rrulestr(joined({key: value for key, value in parts.items() if key != "UNTIL"}), dtstart=start)
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise InvalidSchedule("rule", given, str(error) or "is not a recurrence rule") from None


def stamp(given: str, text: str, where: Zone) -> int:
    """A DTSTART or UNTIL as a reading on a clock in ``where``; one that ends in Z is an instant."""
    for form in ("%Y%m%dT%H%M%SZ", "%Y%m%dT%H%M%S", "%Y%m%d"):
        try:
            at = datetime.strptime(text, form)  # noqa: DTZ007 - a reading has no zone
        except ValueError:
            continue
        return local(at.replace(tzinfo=UTC) if form.endswith("Z") else at, where)
    raise InvalidSchedule("rule", given, f"{text!r} is not a date and time such as 20270314T093000Z")


def local(at: datetime, where: Zone) -> int:
    """What a clock in ``where`` shows at ``at``; a naive one is such a reading already."""
    if at.tzinfo is None:
        return reading_of(at)
    second = seconds_of(at)
    return second + where.offset(second)


def reading_of(at: datetime) -> int:
    """Naive ``at`` as a reading."""
    return (at - _NAIVE_EPOCH) // _SECOND


class _Part:
    """One part of a rule; every complaint names it."""

    __slots__ = ("given", "key", "value")

    def __init__(self, given: str, key: str, value: str) -> None:
        self.given, self.key, self.value = given, key, value

    def fail(self, reason: str) -> NoReturn:
        raise InvalidSchedule("rule", self.given, f"{self.key}={self.value}: {reason}")

    def check(self, freq: str) -> None:
        """Raise InvalidSchedule if the value is none for the key; what is not checked here is left to dateutil."""
        if self.key == "INTERVAL":
            self._numbers(1, FIFTY_YEARS // _STEPS[freq], most=1)
        elif self.key == "COUNT":
            self._numbers(1, 10**9, most=1)
        elif self.key in _FROM_THE_START:
            self._numbers(*_FROM_THE_START[self.key])
        elif self.key in _FROM_EITHER_END:
            self._numbers(1, _FROM_EITHER_END[self.key], either_end=True)
        elif self.key == "BYEASTER":
            self._numbers(*_EASTER)
        elif self.key == "BYDAY":
            self._weekdays({"MONTHLY": 5, "YEARLY": 53}.get(freq, 0))

    def _numbers(self, low: int, high: int, *, either_end: bool = False, most: int = 1_000) -> None:
        items = self.value.split(",")
        if len(items) > most or not all(map(_NUMBER.fullmatch, items)):
            self.fail("must be a whole number" if most == 1 else "must be whole numbers")
        for number in map(int, items):
            if not low <= (abs(number) if either_end else number) <= high:
                self.fail(f"must be {low} to {high}" + (f" or -{high} to -{low}" if either_end else ""))

    def _weekdays(self, highest: int) -> None:
        for item in self.value.split(","):
            found = _WEEKDAY.fullmatch(item)
            if not found:
                self.fail(f"{item!r} is not one of {', '.join(WEEKDAYS)}")
            if found[1] and not highest:
                self.fail("a numbered BYDAY needs a FREQ of MONTHLY or YEARLY")
            if found[1] and not 1 <= abs(int(found[1])) <= highest:
                self.fail(f"the number of a weekday must be 1 to {highest} or -{highest} to -1")
