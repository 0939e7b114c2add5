"""APScheduler 3's trigger objects, from what their pickles hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final

from celery_parrot.errors import InvalidSchedule
from celery_parrot.importers.ap_cron import FIELDS, cron
from celery_parrot.importers.celery_when import interval_when, once_when
from celery_parrot.importers.items import CannotMap
from celery_parrot.importers.pickles import Record
from celery_parrot.importers.values import instant
from celery_parrot.runtime.celery_schedules import zone_name
from celery_parrot.triggers.zones import zone as zone_named

CLOCK_CHANGES: Final = (
    "around a clock change APScheduler 3 repeats, skips or gets stuck at crontabs, by its release; here the rules of "
    "dst_gap and dst_fold apply"
)
RENUMBERED: Final = (
    "APScheduler counts weekdays from Monday = 0, crontab from Sunday = 0: written here by name, due on the same days "
    "as there. Look whether those are the days that were meant"
)
_MICRO: Final = timedelta(microseconds=1)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_PLACES: Final = ("1st", "2nd", "3rd", "4th", "5th", "last")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """:ivar fields: ``schedule_type``, ``schedule_config``, ``timezone``, bounds and jitter, as the client takes
    them.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def timing_of(trigger: object, next_run: datetime | None) -> Timing:
    """What a trigger comes to here.

    :param next_run: what the job store says is next, which intervals go on from.
    :raises CannotMap: for one that has no counterpart.
    """
    if not isinstance(trigger, Record):
        raise CannotMap(f"its trigger is a {type(trigger).__name__}", "Create it by hand: parrot create")
    name = trigger.class_name.removeprefix("apscheduler.triggers.")
    state = trigger.state
    try:
        match name:
            case "date.DateTrigger":
                at = instant(state["run_date"])
                assert at is not None
                when = once_when(at)
                return Timing(fields={"schedule_type": when.schedule_type, "schedule_config": when.config})
            case "interval.IntervalTrigger":
                return _interval(state, next_run)
            case "cron.CronTrigger":
                return cron_timing(_texts(state["fields"]), state)
            case "calendarinterval.CalendarIntervalTrigger":
                return _calendar(state)
            case "combining.AndTrigger" | "combining.OrTrigger":
                raise CannotMap(
                    f"its trigger joins several ({name.removeprefix('combining.')})",
                    "Make one schedule of each of them, or write an rrule",
                )
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, IndexError, OverflowError) as error:
        raise CannotMap(
            f"its {name} cannot be read: {type(error).__name__}: {error}", "Create it by hand: parrot create"
        ) from None
    raise CannotMap(f"only the code of {trigger.class_name} knows when it is due", "Create it by hand: parrot create")


def cron_timing(texts: Mapping[str, object], bounds: Mapping[str, Any]) -> Timing:
    """Of a cron trigger. ``bounds``: its ``timezone`` (an object or a name), ``start_date``, ``end_date``, ``jitter``.

    :raises CannotMap: for what a cron expression cannot say.
    """
    found = cron(texts)
    zone = _zone(bounds.get("timezone"))
    fields = {
        "schedule_type": "cron", "schedule_config": {**found.config, "tz": zone}, "timezone": zone, **_bounds(bounds),
    }  # fmt: skip
    if found.years is not None:
        where = bounds.get("timezone")
        here = where if isinstance(where, tzinfo) else zone_named(zone).info
        first, last = datetime(found.years[0], 1, 1, tzinfo=here), datetime(found.years[1] + 1, 1, 1, tzinfo=here)
        fields["start_at"] = max(first.astimezone(UTC), fields.get("start_at", first.astimezone(UTC)))
        fields["end_at"] = min(last.astimezone(UTC) - _MICRO, fields.get("end_at", last.astimezone(UTC)))
    return Timing(
        fields=fields,
        notes=(RENUMBERED,) if found.renumbered else (),
        faults=() if zone == "UTC" else (CLOCK_CHANGES,),
    )


def _interval(state: Mapping[str, Any], next_run: datetime | None) -> Timing:
    notes = []
    anchor = instant(state["start_date"])
    if next_run is not None and not state.get("jitter"):
        anchor = next_run  # after a restart they go on from there, wherever the start was
    when = interval_when(state["interval"], anchor)
    start = instant(state["start_date"])
    fields: dict[str, Any] = {"schedule_type": when.schedule_type, "schedule_config": when.config, **_bounds(state)}
    if start is None:
        fields.pop("start_at", None)
    if state.get("jitter"):
        notes.append("jitter there is added to each due time and moves all later ones; here none is moved")
    return Timing(fields=fields, notes=tuple(notes))


def _calendar(state: Mapping[str, Any]) -> Timing:
    """Months or days between readings of a clock, as a recurrence rule."""
    years, months, weeks, days = state["interval"]
    months, days = months + 12 * years, days + 7 * weeks
    if months and days:
        raise CannotMap("its steps mix months and days", "Make it months or days, or create it by hand")
    hour, minute, second = state["time"]
    start: date = state["start_date"]
    zone = _zone(state.get("timezone"))
    rule = f"FREQ=MONTHLY;INTERVAL={months}" if months else f"FREQ=DAILY;INTERVAL={days}"
    config = {
        "rule": rule, "tz": zone, "dst_gap": "skip",
        "dtstart": f"{start.isoformat()}T{hour:02d}:{minute:02d}:{second:02d}",
    }  # fmt: skip
    fields: dict[str, Any] = {"schedule_type": "rrule", "schedule_config": config, "timezone": zone}
    if state.get("jitter"):
        fields["jitter"] = float(state["jitter"])
    if (end := state.get("end_date")) is not None:
        where = state.get("timezone")
        following = datetime(end.year, end.month, end.day, tzinfo=where if isinstance(where, tzinfo) else UTC)
        fields["end_at"] = (following + timedelta(days=1)).astimezone(UTC) - _MICRO
    return Timing(fields=fields)


def _bounds(state: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if (start := instant(state.get("start_date"))) is not None:
        fields["start_at"] = start
    if (end := instant(state.get("end_date"))) is not None:
        fields["end_at"] = end
    if state.get("jitter"):
        fields["jitter"] = float(state["jitter"])
    return fields


def _zone(where: object) -> str:
    if where is None:
        return "UTC"
    try:
        return zone_name(where if isinstance(where, str | tzinfo) else str(where))
    except InvalidSchedule:
        raise CannotMap(f"its time zone {where!r} has no name", "Give it an IANA name in the source") from None


def _texts(fields: Any) -> dict[str, str]:
    """The fields of a cron trigger as text again."""
    found: dict[str, str] = {}
    for each in fields:
        name, items = each.state["name"], each.state["expressions"]
        if name not in FIELDS:
            raise CannotMap(f"its cron trigger has a field {name!r}", "Create it by hand: parrot create")
        found[name] = ",".join(_text(name, item) for item in items)
    return found


def _text(name: str, item: Any) -> str:
    kind, state = item.class_name.rpartition(".")[2], item.state
    step = f"/{state['step']}" if state.get("step") else ""
    if kind == "AllExpression":
        return f"*{step}"
    if kind == "LastDayOfMonthExpression":
        return "last"
    if kind == "WeekdayPositionExpression":
        return f"{_PLACES[state['option_num']]} {_WEEKDAYS[state['weekday']]}"
    if kind not in ("RangeExpression", "MonthRangeExpression", "WeekdayRangeExpression"):
        raise CannotMap(f"its cron trigger has an expression {item.class_name}", "Create it by hand: parrot create")
    first, last = state["first"], state["last"]
    if kind == "WeekdayRangeExpression":
        names = [_WEEKDAYS[number] for number in (first, first if last is None else last)]
    elif kind == "MonthRangeExpression":
        names = [_MONTHS[number - 1] for number in (first, first if last is None else last)]
    else:
        names = [str(number) for number in (first, first if last is None else last)]
        if last is None and step:
            return f"{first}{step}"
    return (names[0] if names[0] == names[1] else "-".join(names)) + step
