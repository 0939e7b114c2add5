"""Cron expressions: five fields as crontab(5) reads them, with explicit clock-change policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from celery_parrot.errors import InvalidSchedule

from . import fields
from .days import ALL_DAYS, ALL_WEEKDAYS, DayRule
from .options import Options
from .readings import CalendarReadings, minutes_of_day
from .wall import WallClock
from .wording import cron_sentence
from .zones import zone

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SEPARATE = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_SHORT = {"day_of_month": "day", "month_of_year": "month"}
DAY_RULES = ("crontab", "intersection")
KEYS = frozenset({"expr", "seconds", "day_rule", "seed", *_SEPARATE, *_SHORT.values()})
# A leap day that must fall on a given weekday can be 40 years away, across 2100; the calendar repeats within that, so one start serves all.
_YEAR_2000 = datetime(2000, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Cron:
    """Local readings that match a cron expression.

    :ivar expr: five fields, six if ``seconds`` is given; lower case, single spaces, no macro.
    :ivar tz: the zone whose clock is read.
    :ivar seconds: where the sixth field stands: ``first`` or ``last``; empty without one.
    :ivar day_rule: ``crontab``: day of month and weekday unite unless one of them starts with ``*``; ``intersection``: both must match, as Celery does.
    :ivar seed: what ``H`` hashes; empty if there is no ``H``.
    :raises InvalidSchedule: naming the field, also if nothing would ever be due.
    """

    expr: str
    tz: str = "UTC"
    dst_gap: str = "next_valid"
    dst_fold: str = "first"
    seconds: str = ""
    day_rule: str = "crontab"
    seed: str = ""
    _clock: WallClock = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = self.expr.split(" ")
        second = "0"
        if self.seconds:
            second = parts.pop(0 if self.seconds == "first" else -1)
        minute, hour, day, month, weekday = parts
        seconds = fields.parse(fields.SECOND, second, self.seed)
        minutes = fields.parse(fields.MINUTE, minute, self.seed)
        hours = fields.parse(fields.HOUR, hour, self.seed)
        days = _day_rule(day, month, weekday, self.seed, self.day_rule)
        readings = CalendarReadings(days, minutes_of_day(hours.mask, minutes.mask), seconds.mask)
        continuous = minutes.star or hours.star
        clock = WallClock(readings, zone(self.tz), continuous, self.dst_gap, self.dst_fold)
        object.__setattr__(self, "_clock", clock)

    @property
    def deterministic(self) -> bool:
        """True."""
        return True

    @property
    def clock(self) -> WallClock:
        """The readings with their zone and policy."""
        return self._clock

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, in UTC."""
        return self._clock.next_after(t)

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, in UTC."""
        return self._clock.latest_at(t)

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """``cron`` with ``expr``, ``tz`` and what differs from the defaults."""
        config = {"expr": self.expr, "tz": self.tz}
        for key, default in (("dst_gap", "next_valid"), ("dst_fold", "first"), ("seconds", ""), ("day_rule", "crontab"), ("seed", "")):
            value = getattr(self, key)
            if value != default:
                config[key] = value
        return "cron", config

    def describe(self) -> str:
        """The expression in words, its zone and how clock changes are treated."""
        return cron_sentence(self.expr, self.seconds, self._clock)


def from_cron(options: Options) -> Cron:
    """``expr``, or ``minute hour day_of_month month_of_year day_of_week`` (``day`` and ``month`` accepted), each as text, number or list.

    :raises InvalidSchedule: naming the field.
    """
    seconds = options.choice("seconds", ("first", "last"), "") if options.get("seconds") is not None else ""
    expr = _expression(options, seconds)
    seed = options.text("seed", options.context.schedule_id) if "h" in _without_names(expr) else ""
    return Cron(
        expr,
        options.zone().key,
        options.gap(),
        options.fold(),
        seconds if len(expr.split(" ")) == 6 else "",
        options.choice("day_rule", DAY_RULES, DAY_RULES[0]),
        seed,
    )


def _expression(options: Options, seconds: str) -> str:
    separate = [key for key in (*_SEPARATE, *_SHORT.values()) if options.get(key) is not None]
    if options.get("expr") is None:
        if not separate:
            raise InvalidSchedule("expr", None, "must be given: five fields, as in '30 9 * * mon-fri'")
        if seconds:
            raise InvalidSchedule("seconds", seconds, "says where the sixth field of expr is; there is no expr")
        return " ".join(_separate(options, key) for key in _SEPARATE)
    if separate:
        raise InvalidSchedule(separate[0], options.get(separate[0]), "is given twice, here and in expr")
    expr = " ".join(options.text("expr").lower().split())
    if expr.startswith("@"):
        if expr not in MACROS:
            raise InvalidSchedule("expr", options.get("expr"), f"known names are {', '.join(MACROS)}")
        return MACROS[expr]
    count = len(expr.split(" ")) if expr else 0
    if count == 6 and not seconds:
        raise InvalidSchedule("expr", options.get("expr"), "six fields need seconds: 'first' or 'last', to say where the seconds are")
    if count != (6 if seconds else 5):
        raise InvalidSchedule("expr", options.get("expr"), f"has {count} fields, not {6 if seconds else 5}")
    return expr


def _separate(options: Options, key: str) -> str:
    """One field given by itself: text, number, or a list of either. Absent means ``*``, as in Celery."""
    short = _SHORT.get(key, key)
    if key != short and options.get(key) is not None and options.get(short) is not None:
        raise InvalidSchedule(short, options.get(short), f"is given twice, here and in {key}")
    value = options.get(key, options.get(short, "*"))
    items = list(value) if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else [value]
    if not items or any(isinstance(item, bool) or not isinstance(item, int | str) for item in items):
        raise InvalidSchedule(key, value, "must be text, a number, or a list of them")
    text = ",".join("".join(str(item).lower().split()) for item in items)
    if not text:
        raise InvalidSchedule(key, value, "is empty")
    return text


def _day_rule(day: str, month: str, weekday: str, seed: str, rule: str) -> DayRule:
    days = fields.parse(fields.DAY_OF_MONTH, day, seed)
    months = fields.parse(fields.MONTH_OF_YEAR, month, seed)
    weekdays = fields.parse(fields.DAY_OF_WEEK, weekday, seed)
    found = DayRule(
        months=months.mask,
        days=days.mask,
        last=days.last,
        last_weekday=days.last_weekday,
        nearest=days.nearest,
        weekdays=weekdays.mask,
        last_of=weekdays.last_of,
        nth=weekdays.nth,
        union=rule == "crontab" and not (days.star or weekdays.star),
    )
    if found.next(_YEAR_2000) is None:
        alone = DayRule(found.months, found.days, found.last, found.last_weekday, found.nearest).next(_YEAR_2000)
        name, text = ("day_of_month", day) if alone is None else ("day_of_week", weekday)
        raise InvalidSchedule(name, text, "no such day in any of the months given, within 50 years: nothing would ever be due")
    return found


def _without_names(expr: str) -> str:
    """``expr`` less the only name with an h in it."""
    return expr.replace("mar", "").replace("thu", "").replace("march", "")


__all__ = ["ALL_DAYS", "ALL_WEEKDAYS", "DAY_RULES", "KEYS", "MACROS", "Cron", "from_cron"]
