"""Celery's own kinds of "when", as its relatives store them: the schedule type and config with the same due times."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery.schedules import ParseException, crontab
from celery.utils.time import delta_resolution

from celery_parrot.errors import InvalidSchedule
from celery_parrot.importers.items import CannotMap
from celery_parrot.runtime.celery_schedules import to_spec
from celery_parrot.triggers.instants import micros_of
from celery_parrot.triggers.zones import zone

CRON_FIELDS: Final = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")

DRIFTS: Final = (
    "an interval there starts anew from the moment of each send, so every delay shifts all later due times; here they "
    "stay where an undelayed source would have them"
)
CLOCK_CHANGES: Final = (
    "around a clock change Celery skips, repeats or shifts crontabs in its own ways; here the rules of dst_gap and "
    "dst_fold apply"
)
NOT_READ: Final = (
    "Celery ignores what follows a weekday in a crontab (mon#5, tue#L); what it makes of the text is what was kept"
)
_VALUE: Final = r"(?:\d+|(?:sun|mon|tue|wed|thu|fri|sat)|(?:sun|mon|tues|wednes|thurs|fri|satur)day)"
_PLAIN: Final = re.compile(rf"(?:\*|{_VALUE}(?:-{_VALUE})?)(?:/\d+)?")
_MICRO: Final = timedelta(microseconds=1)
_MONTH: Final = 2_629_800
_2026: Final = 1_767_225_600


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """A schedule type and its config, and what there is to say about them."""

    schedule_type: str
    config: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def crontab_when(fields: Mapping[str, Any], timezone: str) -> When:
    """A Celery crontab, from its five fields; an absent one is ``*``.

    :raises CannotMap: if Celery cannot read it either, or it is never due.
    """
    texts = {name: _field(fields.get(name)) for name in CRON_FIELDS}
    try:
        spec = to_spec(crontab(**texts), timezone)
        changes = _changes(timezone)
    except (ParseException, ValueError, TypeError) as error:  # InvalidSchedule is a ValueError
        raise CannotMap(f"its crontab cannot be read: {error}", "Correct it in the source") from None
    assert spec is not None
    notes, faults = [], []
    if not (texts["day_of_month"].startswith("*") or texts["day_of_week"].startswith("*")):
        notes.append("day of month and weekday must both match, as in Celery (day_rule: intersection)")
    if changes:
        faults.append(CLOCK_CHANGES)
    if _odd(texts["day_of_week"]) or _odd(texts["day_of_month"]):
        faults.append(NOT_READ)
    return When(schedule_type=spec[0], config=spec[1], notes=tuple(notes), faults=tuple(faults))


def interval_when(every: timedelta, anchor: datetime | None, *, relative: bool = False, timezone: str = "UTC") -> When:
    """Steps of ``every`` from ``anchor``, the last run.

    :param anchor: UTC; None: it is not known, and 1970-01-01T00:00Z is taken.
    :param relative: Celery's: each due time is rounded down to the unit of the interval, in ``timezone``.
    :raises CannotMap: if there are no steps forward.
    """
    notes: list[str] = []
    if every < _MICRO:
        raise CannotMap(f"its interval of {every} does not move forward", "Give it a length in the source")
    if relative and anchor is not None:
        first = _rounded(anchor, every, timezone)
        anchor, every = first, _rounded(first, every, timezone) - first
        notes.append("relative: rounded to the unit of the interval, as Celery does")
    step = every // _MICRO
    config: dict[str, Any] = {"seconds": _seconds(step)}
    if anchor is None:
        notes.append("it has not run yet: here it is due at multiples of its length since 1970-01-01 00:00 UTC")
    elif micros_of(anchor) % step:
        config["offset"] = _seconds(micros_of(anchor) % step)
    return When(schedule_type="interval", config=config, notes=tuple(notes), faults=(DRIFTS,))


def solar_when(event: object, lat: object, lon: object) -> When:
    """An event of the sun at a place. Raises CannotMap if the place is none."""
    try:
        place = {"lat": float(str(lat)), "lon": float(str(lon))}
    except ValueError:
        raise CannotMap(f"{lat!r}, {lon!r} is no place", "Correct it in the source") from None
    return When(schedule_type="solar", config={"event": event, **place}, notes=("to the whole second",))


def once_when(at: datetime) -> When:
    """That instant."""
    return When(schedule_type="once", config={"run_date": at.astimezone(UTC).isoformat()})


def _rounded(last: datetime, every: timedelta, timezone: str) -> datetime:
    ends = last.astimezone(zone(timezone).info) + every
    return delta_resolution(ends, every).replace(microsecond=0).astimezone(UTC)


def _field(value: object) -> str:
    if value is None or value == "":
        return "*"
    if isinstance(value, list | tuple | set):
        return ",".join(str(each) for each in value)
    return str(value).replace(" ", "")


def _odd(text: str) -> bool:
    """Whether there is more in it than names, numbers and their punctuation."""
    return not all(_PLAIN.fullmatch(item) for item in text.lower().split(","))


def _seconds(micros: int) -> float | int:
    return micros / 1_000_000 if micros % 1_000_000 else micros // 1_000_000


def _changes(timezone: str) -> bool:
    """Whether the clocks there change: looked at once a month for two years."""
    try:
        there = zone(timezone)
    except InvalidSchedule as error:
        raise CannotMap(str(error), "Name a time zone of this host with --timezone") from None
    return len({there.offset(_2026 + month * _MONTH) for month in range(24)}) > 1
