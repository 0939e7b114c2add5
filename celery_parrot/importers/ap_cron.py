"""Cron fields as APScheduler 3 reads them: Monday is 0, and every field must match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from celery_parrot.importers.items import CannotMap

FIELDS: Final = ("year", "month", "day", "week", "day_of_week", "hour", "minute", "second")
_LOWEST: Final = {"month": "1", "day": "1", "hour": "0", "minute": "0", "second": "0"}
_OURS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_PLACES: Final = {"1st": "#1", "2nd": "#2", "3rd": "#3", "4th": "#4", "5th": "#5", "last": "l"}
_PLACE: Final = re.compile(r"(1st|2nd|3rd|4th|5th|last) +([a-z]+)")
_NUMBERS: Final = re.compile(r"(\d+)(?:-(\d+))?(?:/([1-9]\d*))?")
_NAMES: Final = re.compile(r"([a-z]{3})[a-z]*(?:-([a-z]{3})[a-z]*)?")
_YEARS: Final = re.compile(r"(\d{4})(?:-(\d{4}))?")
_SPLIT: Final = "Split it into schedules that a cron expression can say, or use an rrule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """:ivar config: of the schedule type ``cron``. :ivar years: first and last, where the source names them.
    :ivar renumbered: whether a weekday was given as a number.
    """

    config: Mapping[str, Any]
    years: tuple[int, int] | None = None
    renumbered: bool = False


def cron(given: Mapping[str, object]) -> Cron:
    """From the fields that APScheduler's ``cron`` trigger takes, as text or numbers; absent ones have its defaults.

    :raises CannotMap: for what a cron expression cannot say, or APScheduler cannot read.
    """
    fields = _filled(given)
    if fields["week"] != "*":
        raise CannotMap(
            f"a cron expression has no week of the year (week={fields['week']!r})", "Use an rrule, BYWEEKNO"
        )
    weekdays, renumbered = _weekdays(fields["day_of_week"])
    day, weekdays, rule = _days(fields["day"], weekdays)
    expr = " ".join((fields["minute"], fields["hour"], day, fields["month"], weekdays))
    config: dict[str, Any] = {"expr": expr, "day_rule": rule}
    if fields["second"] != "0":
        config |= {"expr": f"{fields['second']} {expr}", "seconds": "first"}
    return Cron(config=config, years=_years(fields["year"]), renumbered=renumbered)


def crontab_fields(expr: str) -> dict[str, str]:
    """The fields of ``CronTrigger.from_crontab``. Raises CannotMap unless there are five."""
    parts = expr.split()
    if len(parts) != 5:
        raise CannotMap(f"{expr!r} has {len(parts)} fields, not 5", "Correct it in the source")
    return dict(zip(("minute", "hour", "day", "month", "day_of_week"), parts, strict=True))


def _filled(given: Mapping[str, object]) -> dict[str, str]:
    """Absent fields are ``*`` if a finer one is given, else their lowest value."""
    named = {name: str(given[name]).strip().lower() for name in FIELDS if given.get(name) is not None}
    if not named:
        return dict.fromkeys(FIELDS, "*")
    finest = max(FIELDS.index(name) for name in named)
    return {
        name: named.get(name) or ("*" if index < finest else _LOWEST.get(name, "*"))
        for index, name in enumerate(FIELDS)
    }


def _weekdays(text: str) -> tuple[str, bool]:
    """By name, since the numbers mean other days here; and whether there were numbers."""
    if text == "*":
        return "*", False
    found, numbers = [], False
    for item in re.split(" *, *", text):
        if stepped := re.fullmatch(r"\*/([1-9]\d*)", item):
            picked = range(0, 7, int(stepped[1]))
        elif plain := _NUMBERS.fullmatch(item):
            numbers = True
            first = int(plain[1])
            last = int(plain[2]) if plain[2] else (6 if plain[3] else first)
            picked = range(first, last + 1, int(plain[3] or 1))
        elif named := _NAMES.fullmatch(item):
            first = _weekday(named[1])
            picked = range(first, (_weekday(named[2]) if named[2] else first) + 1)
        else:
            raise CannotMap(f"APScheduler does not read a weekday {item!r} as it is written", "Correct it there")
        if not picked or picked[-1] > 6:
            raise CannotMap(f"APScheduler has no weekdays {item!r}", "Correct it in the source")
        found += [_OURS[number] for number in picked]
    ordered = [day for day in _OURS if day in found]
    return ("*" if len(ordered) == 7 else ",".join(ordered)), numbers


def _weekday(name: str) -> int:
    if name not in _OURS:
        raise CannotMap(f"APScheduler has no weekday {name!r}", "Correct it in the source")
    return _OURS.index(name)


def _days(text: str, weekdays: str) -> tuple[str, str, str]:
    """Day of month, weekday and how they go together. ``2nd fri`` stands in the day of month there, with us in the
    weekday."""
    days, places = [], []
    for item in re.split(" *, *", text):
        if placed := _PLACE.fullmatch(item):
            places.append(_OURS[_weekday(placed[2][:3])] + _PLACES[placed[1]])
        else:
            days.append("l" if item == "last" else item)
    if not places:
        return ",".join(days), weekdays, "intersection"
    if weekdays != "*":
        raise CannotMap(f"a day of month {text!r} together with weekdays {weekdays!r} is no cron expression", _SPLIT)
    if not days:
        return "*", ",".join(places), "intersection"
    if any(day.startswith("*") for day in days):
        return "*", "*", "intersection" if "*" in days else _refuse(text)
    return ",".join(days), ",".join(places), "crontab"  # there the two unite, as the items of one field do


def _refuse(text: str) -> str:
    raise CannotMap(f"a day of month {text!r} is no cron expression", _SPLIT)


def _years(text: str) -> tuple[int, int] | None:
    if text == "*":
        return None
    found = _YEARS.fullmatch(text)
    if not found:
        raise CannotMap(f"a cron expression has no year, and {text!r} is not one stretch of years", _SPLIT)
    return int(found[1]), int(found[2] or found[1])
