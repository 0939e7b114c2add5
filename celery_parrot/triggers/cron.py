"""Cron expressions: five fields as crontab(5) reads them, with explicit clock-change policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date

from celery_parrot.errors import InvalidSchedule

from . import cron_fields
from .clocked import DEFAULTS, ClockTrigger
from .days import DayRule
from .options import Options, items
from .readings import CalendarReadings, minutes_of_day
from .wall import FOLDS, GAPS, WallClock
from .wording import cron_words, sentence
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
# From coarse to fine, each with its value where nothing finer is given.
_COARSE_TO_FINE = {"month_of_year": "1", "day_of_month": "1", "day_of_week": "*", "hour": "0", "minute": "0"}
_SHORT = {"day_of_month": "day", "month_of_year": "month"}
DAY_RULES = ("crontab", "intersection")
KEYS = frozenset({"expr", "seconds", "day_rule", "seed", *_SEPARATE, *_SHORT.values()})
# A leap day that must fall on a given weekday can be 40 years away, across 2100; the calendar repeats within that,
# so one start serves all.
_YEAR_2000 = date(2000, 1, 1).toordinal()


@dataclass(frozen=True, slots=True)
class Cron(ClockTrigger):
    """Local readings that match a cron expression.

    :ivar expr: five fields, six if ``seconds`` is given; lower case, single spaces, no macro.
    :ivar tz: the zone whose clock is read.
    :ivar seconds: where the sixth field stands: ``first`` or ``last``; empty without one.
    :ivar day_rule: ``crontab``: day of month and weekday unite unless one of them starts with ``*``;
        ``intersection``: both
        must match, as Celery does.
    :ivar seed: what ``H`` hashes, as a rule the schedule's id; empty if there is no ``H``.
    :raises InvalidSchedule: naming the field, also if nothing would ever be due.
    """

    schedule_type = "cron"
    defaults = {**DEFAULTS, "seconds": "", "day_rule": DAY_RULES[0], "seed": ""}  # noqa: RUF012

    expr: str
    tz: str
    dst_gap: str = GAPS[0]
    dst_fold: str = FOLDS[0]
    seconds: str = ""
    day_rule: str = DAY_RULES[0]
    seed: str = ""

    def __post_init__(self) -> None:
        parts = self.expr.split(" ")
        second = parts.pop(0 if self.seconds == "first" else -1) if self.seconds else "0"
        parsed = [
            cron_fields.parse(kind, part, self.seed)
            for kind, part in zip(cron_fields.KINDS, (second, *parts), strict=True)
        ]
        seconds, minutes, hours, *days = parsed
        readings = CalendarReadings(
            _days(days, parts, self.day_rule), minutes_of_day(hours.mask, minutes.mask), seconds.mask
        )
        continuous = minutes.star or hours.star
        self._set(WallClock(readings, zone(self.tz), continuous, self.dst_gap, self.dst_fold))
        if not any(field.hashed for field in parsed):
            object.__setattr__(self, "seed", "")

    def describe(self) -> str:
        """The expression in words, its zone and how clock changes are treated."""
        return sentence(cron_words(self.expr, self.seconds, self.day_rule == "intersection"), self._clock)


def from_cron(options: Options) -> Cron:
    """``expr``, or ``minute hour day_of_month month_of_year day_of_week`` (``day`` and ``month`` accepted), each as
    text, number or list. An absent one is ``*`` if a finer one is given, else its lowest value.

    :raises InvalidSchedule: naming the field.
    """
    where = options.get("seconds")
    seconds = "" if where is None else options.choice("seconds", ("first", "last"), "")
    expr = _expression(options, seconds)
    return Cron(
        expr,
        options.zone().key,
        options.gap(),
        options.fold(),
        seconds if expr.count(" ") == 5 else "",
        options.choice("day_rule", DAY_RULES, DAY_RULES[0]),
        options.text("seed", options.context.schedule_id),
    )


def _expression(options: Options, seconds: str) -> str:
    separate = [key for key in (*_SEPARATE, *_SHORT.values()) if options.get(key) is not None]
    if options.get("expr") is None:
        if not separate:
            raise InvalidSchedule("expr", None, "must be given: five fields, as in '30 9 * * mon-fri'")
        if seconds:
            raise InvalidSchedule("seconds", seconds, "says where the sixth field of expr is; there is no expr")
        return _joined({key: text for key in _SEPARATE if (text := _separate(options, key))})
    if separate:
        raise InvalidSchedule(separate[0], options.get(separate[0]), "is given twice, here and in expr")
    expr = cron_fields.shorten(" ".join(options.text("expr").lower().split()))
    if expr.startswith("@"):
        if expr not in MACROS:
            raise InvalidSchedule("expr", options.get("expr"), f"known names are {', '.join(MACROS)}")
        return MACROS[expr]
    count = len(expr.split(" ")) if expr else 0
    if count == 6 and not seconds:
        raise InvalidSchedule(
            "expr", options.get("expr"), "six fields need seconds: 'first' or 'last', to say where the seconds are"
        )
    if count != (6 if seconds else 5):
        raise InvalidSchedule("expr", options.get("expr"), f"has {count} fields, not {6 if seconds else 5}")
    return expr


def _joined(given: Mapping[str, str]) -> str:
    """Five fields from some. An absent one is ``*`` if a finer one is given, else its lowest value (any weekday):
    ``hour: 9`` is once a day and ``minute: 30`` once an hour.
    """
    keys = list(_COARSE_TO_FINE)
    finest = max(map(keys.index, given))
    lowest = {key: _COARSE_TO_FINE[key] for key in keys[finest:]}
    return " ".join(given.get(key) or lowest.get(key, "*") for key in _SEPARATE)


def _separate(options: Options, key: str) -> str:
    """One field given by itself: text, number, or a list of either; empty if absent."""
    short = _SHORT.get(key, key)
    if key != short and options.get(key) is not None and options.get(short) is not None:
        raise InvalidSchedule(short, options.get(short), f"is given twice, here and in {key}")
    value = options.get(key, options.get(short))
    if value is None:
        return ""
    given = items(key, value)
    if any(isinstance(item, bool) or not isinstance(item, int | str) for item in given):
        raise InvalidSchedule(key, value, "must be text, a number, or a list of them")
    text = ",".join(cron_fields.tidy(str(item)) for item in given)
    if not text or " " in text:
        raise InvalidSchedule(key, value, "has a space in it; a list takes commas" if text else "is empty")
    return text


def _days(parsed: list[cron_fields.Field], parts: list[str], rule: str) -> DayRule:
    """The day rule of the fields day of month, month and weekday, the last three of ``parts``.

    :raises InvalidSchedule: if there is no such day.
    """
    days, months, weekdays = parsed
    by_day = DayRule(months.mask, days.mask, days.last, days.last_weekday, days.nearest)
    union = rule == "crontab" and not (days.star or weekdays.star)
    found = replace(by_day, weekdays=weekdays.mask, last_of=weekdays.last_of, nth=weekdays.nth, union=union)
    if found.next(_YEAR_2000) is None:
        name, text = ("day_of_week", parts[-1]) if by_day.next(_YEAR_2000) else ("day_of_month", parts[-3])
        raise InvalidSchedule(name, text, "there is no such day within 50 years: nothing would ever be due")
    return found
