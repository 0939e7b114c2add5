"""The instant that somebody asks about, and what clock changes made of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime, time, timedelta, tzinfo
from typing import Final

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Bounded, Trigger
from celery_parrot.triggers.clocked import ClockTrigger
from celery_parrot.triggers.instants import EPOCH, instant, seconds_of

_TIME: Final = re.compile(r"(?:(today|yesterday|tomorrow)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}|\d{8}")
_DAYS: Final = {"today": 0, "yesterday": -1, "tomorrow": 1}
_NO_SECONDS: Final = re.compile(r"[T ]\d{2}(:?\d{2})?(Z|[+-]\d{2}(:?\d{2})?)?$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What ``at`` means, as exact as it was given: a day, a minute, a second or an instant.

    :ivar starts: UTC; two where the clock showed that reading twice and nobody said which time.
    :ivar size: how long it lasts from there.
    :ivar reading: as a clock in the schedule's zone shows it, naive.
    :ivar absent: no clock of that zone ever showed it.
    """

    starts: tuple[datetime, ...]
    size: timedelta
    reading: datetime
    absent: bool = False

    @property
    def first(self) -> datetime:
        return self.starts[0]

    def covers(self, at: datetime) -> bool:
        return any(start <= at < start + self.size for start in self.starts)

    @property
    def end(self) -> datetime:
        """The first instant after it."""
        return max(self.starts) + self.size


def moment_of(at: datetime | str, now: datetime, zone: tzinfo) -> Moment:
    """:param at: an instant, or a text: ISO 8601, a time of day (today, in ``zone``), or that after ``yesterday``,
        ``today`` or ``tomorrow``. Naive ones are read in ``zone``.
    :raises InvalidSchedule: for anything else; its field is ``at``.
    """
    try:
        if isinstance(at, datetime):
            return _moment(at, timedelta(microseconds=1) if at.microsecond else timedelta(seconds=1), zone)
        text = at.strip()
        if match := _TIME.fullmatch(text):
            day, hour, minute, second = match.groups()
            today = now.astimezone(zone).date() + timedelta(days=_DAYS[(day or "today").lower()])
            reading = datetime.combine(today, time(int(hour), int(minute), int(second or 0)))
            return _moment(reading, timedelta(minutes=1) if second is None else timedelta(seconds=1), zone)
        if _DATE.fullmatch(text):
            return _moment(datetime.combine(date.fromisoformat(text), time()), timedelta(days=1), zone)
        found = datetime.fromisoformat(text)
        size = timedelta(minutes=1) if _NO_SECONDS.search(text) else timedelta(seconds=1)
        return _moment(found, timedelta(microseconds=1) if found.microsecond else size, zone)
    except (ValueError, OverflowError):
        raise InvalidSchedule(
            "at", at, "must be an instant such as 2026-03-02T03:00, with or without an offset, a time of day such as "
            "03:00 (today), or 'yesterday 03:00'"
        ) from None  # fmt: skip


def _moment(at: datetime, size: timedelta, zone: tzinfo) -> Moment:
    if not MINYEAR < at.year < MAXYEAR:  # what lies beside it is computed, too
        raise ValueError
    if at.tzinfo is not None:
        return Moment(starts=(at.astimezone(UTC),), size=size, reading=at.astimezone(zone).replace(tzinfo=None))
    passes = [at.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
    absent = passes[0].astimezone(zone).replace(tzinfo=None) != at
    starts = tuple(dict.fromkeys(passes[:1] if absent else passes))
    return Moment(starts=starts, size=size, reading=at, absent=absent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The clock change that took a due time away from its reading.

    :ivar reading: what the clock was meant to show. ``at``: the instant of the change, UTC.
    :ivar forward: whether it left readings out; else it showed them twice.
    :ivar moved: it is made up for, at ``at``. ``continuous``: real time counts, not the clock.
    :ivar counts: of a repeated one, the pass that counts.
    """

    reading: datetime
    at: datetime
    forward: bool
    moved: bool
    continuous: bool = False
    counts: str = ""


def changed_by_clock(trigger: Trigger, moment: Moment) -> Changed | None:
    """Why nothing is due at ``moment`` though the schedule names that reading; None if no clock change is at fault."""
    inner = trigger.trigger if isinstance(trigger, Bounded) else trigger
    if not isinstance(inner, ClockTrigger):
        return None
    clock = inner.clock
    asked = int((moment.reading - EPOCH.replace(tzinfo=None)).total_seconds())
    named = clock.readings.next(asked)
    if named is None or named >= asked + moment.size.total_seconds():
        return None
    exact = moment if named == asked else _moment(_naive(named), timedelta(seconds=1), clock.zone.info)
    stretch = clock.zone.stretch(seconds_of(exact.first))
    if exact.absent and (at := instant(stretch.start)) is not None:
        moved, going = clock.moved(stretch), clock.continuous
        return Changed(reading=_naive(named), at=at, forward=True, moved=moved, continuous=going)
    if stretch.before > stretch.offset and named < stretch.start + stretch.before:
        at, counts = instant(stretch.start), "first"  # asked for is the second pass
    elif stretch.after < stretch.offset and named >= stretch.end + stretch.after:
        at, counts = instant(stretch.end), "second"
    else:
        return None
    return None if at is None else Changed(reading=_naive(named), at=at, forward=False, moved=False, counts=counts)


def _naive(reading: int) -> datetime:
    return EPOCH.replace(tzinfo=None) + timedelta(seconds=reading)
