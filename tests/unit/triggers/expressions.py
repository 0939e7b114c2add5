"""Random cron expressions, each with what it names spelled out for the witness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from random import Random
from zoneinfo import ZoneInfo

from .witness import Named, month_length, weekday

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
Item = tuple[str, frozenset[int]]


@dataclass(frozen=True)
class Expression:
    """``text`` and what it names; ``shared``: whether cronsim knows its grammar too."""

    text: str
    named: Named
    shared: bool


def expression(rng: Random, beyond: float = 0.0) -> Expression:
    """A random expression; with chance ``beyond``, a day field that cronsim does not know."""
    minute, minutes = _field(rng, 0, 59)
    hour, hours = _field(rng, 0, 23)
    if rng.random() < 0.25:
        early = ["0", "1", "2", "3", "1-3", "0-4", "2,3", "0,1,2", "23", "22-23"]
        hour = rng.choice(early)
        hours = frozenset(number for part in hour.split(",") for number in _range(part))
    month, months = ("*", frozenset(range(1, 13))) if rng.random() < 0.5 else _field(rng, 1, 12, MONTHS)
    shared = True
    if rng.random() < beyond:
        shared = False
        (day, by_day), (week, by_weekday) = _unknown_days(rng)
    else:
        day, by_day = _days(rng)
        week, by_weekday = _weekdays(rng)
    union = not (day.startswith("*") or week.startswith("*"))

    def on(at: date) -> bool:
        if at.month not in months:
            return False
        return by_day(at) or by_weekday(at) if union else by_day(at) and by_weekday(at)

    text = " ".join((minute, hour, day, month, week))
    return Expression(text, Named(minutes, hours, on, minute.startswith("*") or hour.startswith("*")), shared)


def _range(part: str) -> range:
    first, _, last = part.partition("-")
    return range(int(first), int(last or first) + 1)


def _field(rng: Random, low: int, high: int, names: Sequence[str] = ()) -> Item:
    kind = rng.random()
    if kind < 0.3:
        return "*", frozenset(range(low, high + 1))
    if kind < 0.42:
        step = rng.choice([step for step in (1, 2, 3, 4, 5, 6, 10, 15) if step <= high - low])
        return f"*/{step}", frozenset(range(low, high + 1, step))
    items = [_item(rng, low, high, names) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return ",".join(text for text, _ in items), frozenset().union(*(values for _, values in items))


def _item(rng: Random, low: int, high: int, names: Sequence[str]) -> Item:
    kind, a, b = rng.random(), rng.randint(low, high), rng.randint(low, high)
    if kind < 0.5 or a == b:
        return _name(rng, a, low, names), frozenset({a})
    if kind < 0.75:
        a, b = min(a, b), max(a, b)
        step = rng.choice((1, 1, 1, 2, 3, 5, 7))
        text = f"{_name(rng, a, low, names)}-{_name(rng, b, low, names)}"
        return text + (f"/{step}" if step > 1 else ""), frozenset(range(a, b + 1, step))
    if kind < 0.9:
        # On weekdays 7/n is read as 0/n here and as 7 alone by cronsim: left to the cases beyond.
        a, step = (low if (low, high) == (0, 7) and a == 7 else a), rng.randint(1, 9)
        last = 6 if (low, high, a) == (0, 7, 0) else high
        return f"{a}/{step}", frozenset(range(a, last + 1, step))
    step = rng.randint(1, min(9, (6 if high == 7 else high) - low))
    return f"*/{step}", frozenset(range(low, (6 if high == 7 else high) + 1, step))


def _name(rng: Random, value: int, low: int, names: Sequence[str]) -> str:
    if value - low < len(names) and rng.random() < 0.3:
        name = names[value - low]
        return rng.choice((name, name.upper(), name.title()))
    return str(value)


def _days(rng: Random) -> tuple[str, Callable[[date], bool]]:
    kind = rng.random()
    if kind < 0.45:
        return "*", lambda _: True
    if kind < 0.55:
        text = rng.choice(("L", "LW", "15,L", "1,LW", "L,10-12"))
        plain = {number for part in text.split(",") if part[0] != "L" for number in _range(part)}
        last, last_weekday = "L" in text.split(","), "LW" in text.split(",")
        return (
            text,
            lambda at: (
                at.day in plain
                or (last and at.day == month_length(at))
                or (last_weekday and at.day == nearest(at, month_length(at)))
            ),
        )
    text, values = _field(rng, 1, 31)
    return text, lambda at: at.day in values


def _weekdays(rng: Random) -> tuple[str, Callable[[date], bool]]:
    kind = rng.random()
    if kind < 0.5:
        return "*", lambda _: True
    if kind < 0.6:
        day, nth = rng.randint(0, 7), rng.randint(1, 6)
        if nth == 6:
            return f"{day}L", lambda at: weekday(at) == day % 7 and at.day + 7 > month_length(at)
        return f"{_name(rng, day, 0, WEEKDAYS)}#{nth}", lambda at: weekday(at) == day % 7 and (at.day + 6) // 7 == nth
    text, values = _field(rng, 0, 7, WEEKDAYS)
    return text, lambda at: weekday(at) in {value % 7 for value in values}


def _unknown_days(rng: Random) -> tuple[tuple[str, Callable[[date], bool]], tuple[str, Callable[[date], bool]]]:
    everyday: tuple[str, Callable[[date], bool]] = ("*", lambda _: True)
    kind, day = rng.randrange(5), rng.randint(0, 6)
    if kind == 0:
        target = rng.randint(1, 31)
        return (
            f"{target}{rng.choice('wW')}",
            lambda at: target <= month_length(at) and at.day == nearest(at, target),
        ), everyday
    if kind == 1:
        return everyday, (f"L{day}", lambda at: weekday(at) == day and at.day + 7 > month_length(at))
    if kind == 2:
        return everyday, (f"{WEEKDAYS[day]}L", lambda at: weekday(at) == day and at.day + 7 > month_length(at))
    if kind == 3:
        step = rng.randint(2, 6)
        return everyday, (f"7/{step}", lambda at: weekday(at) in range(0, 7, step))
    first = rng.randint(1, 6)
    last = rng.randint(0, first - 1)
    wrapped = {*range(first, 7), *range(last + 1)}
    return everyday, (f"{WEEKDAYS[first]}-{WEEKDAYS[last]}", lambda at: weekday(at) in wrapped)


def nearest(month: date, day: int) -> int:
    """The Monday to Friday nearest to ``day`` in the month, by trying them in order of distance."""
    candidates = [number for number in range(1, month_length(month) + 1) if month.replace(day=number).isoweekday() < 6]
    return min(candidates, key=lambda number: (abs(number - day), number))


@lru_cache(maxsize=4096)
def change_near(zone: str, year: int) -> tuple[datetime, ...]:
    """UTC midnights before the zone's changes of that year."""
    info = ZoneInfo(zone)
    days = [datetime(year, 1, 1, tzinfo=UTC) + timedelta(days=day) for day in range(366)]
    return tuple(
        day
        for day in days
        if day.astimezone(info).utcoffset() != (day + timedelta(days=1)).astimezone(info).utcoffset()
    )


def instant(rng: Random, zone: str, first_year: int = 1990, last_year: int = 2037) -> datetime:
    """A random instant, more often than not close to a clock change."""
    year = rng.randint(first_year, last_year)
    micros = rng.choice((0, 0, rng.randint(1, 999_999)))
    changes = change_near(zone, year)
    if changes and rng.random() < 0.6:
        return rng.choice(changes) + timedelta(seconds=rng.randint(-86_400, 2 * 86_400), microseconds=micros)
    return datetime(year, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randint(0, 366 * 86_400), microseconds=micros)
