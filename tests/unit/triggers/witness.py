"""An independent witness: read the clock every minute and look.

It knows sets of numbers, zoneinfo and nothing else; neither the grammar nor the evaluator under test.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)

# Every kind of clock change: half hours, two hours, at midnight, a skipped day, negative saving, four a year.
ZONES = (
    *("Africa/Cairo", "Africa/Casablanca", "Africa/El_Aaiun", "Africa/Windhoek", "America/Asuncion", "America/Caracas"),
    *(
        "America/Chicago",
        "America/Denver",
        "America/Halifax",
        "America/Havana",
        "America/Los_Angeles",
        "America/Mexico_City",
    ),
    *(
        "America/New_York",
        "America/Nuuk",
        "America/Santiago",
        "America/Sao_Paulo",
        "America/Scoresbysund",
        "America/St_Johns",
    ),
    *("Antarctica/Troll", "Asia/Almaty", "Asia/Amman", "Asia/Beirut", "Asia/Damascus", "Asia/Gaza", "Asia/Jerusalem"),
    *("Asia/Kathmandu", "Asia/Kolkata", "Asia/Pyongyang", "Asia/Tehran", "Asia/Tokyo", "Atlantic/Azores"),
    *(
        "Australia/Adelaide",
        "Australia/Lord_Howe",
        "Australia/Sydney",
        "Europe/Athens",
        "Europe/Berlin",
        "Europe/Dublin",
    ),
    *("Europe/Istanbul", "Europe/Lisbon", "Europe/London", "Europe/Madrid", "Europe/Moscow", "Europe/Paris"),
    *("Pacific/Apia", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Kiritimati", "Pacific/Norfolk"),
    *("Pacific/Tongatapu", "UTC"),
)


@dataclass(frozen=True)
class Named:
    """What an expression names, spelled out.

    :ivar on: whether a local day takes part. :ivar continuous: whether minute or hour is a star.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    on: Callable[[date], bool]
    continuous: bool

    def has(self, reading: datetime) -> bool:
        return reading.minute in self.minutes and reading.hour in self.hours and self.on(reading.date())


def scan(named: Named, zone: str, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Every due time in ``begin <= t < end``, both whole minutes in UTC, by our policy."""
    info = ZoneInfo(zone)
    at = begin
    before = (at - MINUTE).astimezone(info).replace(tzinfo=None)
    while at < end:
        local = at.astimezone(info)
        reading = local.replace(tzinfo=None)
        due = named.has(reading) and (named.continuous or not local.fold)
        if not due and not named.continuous and reading - before > MINUTE:
            skipped = before + MINUTE
            while skipped < reading and not due:
                due = named.has(skipped)
                skipped += MINUTE
        if due:
            yield at
        before = reading
        at += MINUTE


def by_policy(
    named: Callable[[datetime], bool], zone: str, begin: datetime, end: datetime, gap: str, fold: str
) -> list[datetime]:
    """The due times of a wall schedule in ``begin <= t < end``: which instants show each reading, then the policy."""
    info, margin = ZoneInfo(zone), timedelta(days=2)
    shown: dict[datetime, list[datetime]] = {}
    found: set[datetime] = set()
    at = begin - margin
    before = at.astimezone(info).replace(tzinfo=None) - MINUTE
    while at < end + margin:
        reading = at.astimezone(info).replace(tzinfo=None)
        shown.setdefault(reading, []).append(at)
        left_out = before + MINUTE
        while gap == "next_valid" and left_out < reading:
            if named(left_out):
                found.add(at)
            left_out += MINUTE
        before, at = reading, at + MINUTE
    for reading, instants in shown.items():
        if named(reading):
            found.update({"first": instants[:1], "last": instants[-1:], "both": instants}[fold])
    return sorted(due for due in found if begin <= due < end)


def days_with_changes(zone: str, first_year: int, last_year: int) -> list[datetime]:
    """The UTC midnights before each change of the zone's offset."""
    info = ZoneInfo(zone)
    at, end = datetime(first_year, 1, 1, tzinfo=UTC), datetime(last_year + 1, 1, 1, tzinfo=UTC)
    found = []
    while at < end:
        following = at + timedelta(days=1)
        if at.astimezone(info).utcoffset() != following.astimezone(info).utcoffset():
            found.append(at)
        at = following
    return found


def weekday(day: date) -> int:
    """0 is Sunday."""
    return day.isoweekday() % 7


def month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def any_day(_day: date) -> bool:
    return True
