"""celery-redbeat: one hash an entry, its definition as JSON with types written in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

from celery_parrot.importers.celery_when import When, crontab_when, interval_when
from celery_parrot.importers.items import CannotMap, Found, Item, guarded
from celery_parrot.importers.keys import ForeignKeys
from celery_parrot.importers.values import call_of, instant, options_of

PREFIX: Final = "redbeat:"
OFFSET_ONLY: Final = (
    "RedBeat keeps the UTC offset of an rrule's start and forgets its zone, so the times do not follow clock changes; "
    "kept so"
)
NO_NUMBERS: Final = "RedBeat forgets which weekday of the month an rrule names (the 2 of 2MO); kept as it reads it"
NO_ZONE: Final = "RedBeat forgets the time zone of a crontab and reads all of them in the app's"
_FREQUENCIES: Final = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_DAYS: Final = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_LISTS: Final = (
    *("bysetpos", "bymonth", "bymonthday", "byyearday", "byweekno", "byhour", "byminute", "bysecond", "byeaster"),
)


@dataclass(frozen=True, slots=True)
class Typed:
    """A JSON object that says what it stands for."""

    name: str
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        return self.name


def read(keys: ForeignKeys, *, prefix: str = PREFIX, zone: str = "UTC") -> Found:
    """Every entry of RedBeat.

    :param prefix: ``redbeat_key_prefix``. :param zone: the app's, which crontabs are read in.
    """
    names = keys.starting_with(prefix)
    static = keys.members(f"{prefix}:statics")
    items = []
    for key, hashed in zip(names, keys.fields(names, ("definition", "meta")), strict=True):
        if hashed is not None and hashed[0] is not None:
            items.append(_item(key.removeprefix(prefix), hashed[0], hashed[1], static, zone))
    return Found(where=f"{keys.where}, keys {prefix}*", items=tuple(items))


def _item(name: str, definition: bytes, meta: bytes | None, static: set[str], zone: str) -> Item:
    return guarded(
        name,
        lambda: _mapped(_decoded("definition", definition), _decoded("meta", meta or b"{}"), static, zone),
    )


def _mapped(given: Mapping[str, Any], meta: Mapping[str, Any], static: set[str], zone: str) -> Item:
    notes: list[str] = []
    last_run = instant(meta.get("last_run_at"))
    when = _when(given.get("schedule"), last_run, zone)
    name, task = given.get("name"), given.get("task")
    if not isinstance(name, str) or not isinstance(task, str):
        raise CannotMap("its definition has no name or no task", "Delete it from Redis, or write it anew")
    if name in static:
        notes.append("comes from the beat_schedule of the source's code: if that stays, no import is needed")
    enabled = given.get("enabled", True)
    fields = {
        "name": name, "target": task,
        "schedule_type": when.schedule_type, "schedule_config": when.config, "timezone": zone,
        **call_of(given.get("args"), given.get("kwargs")),
        "options": options_of(given.get("options") or {}, notes),
    }  # fmt: skip
    return Item(
        source_name=name,
        fields=fields,
        paused=None if enabled else "disabled in RedBeat",
        notes=(*notes, *when.notes),
        faults=when.faults,
        past={"last_run": last_run, "run_count": meta.get("total_run_count")},
    )


def _when(given: object, last_run: datetime | None, zone: str) -> When:
    if not isinstance(given, Typed) or given.name not in ("interval", "crontab", "rrule"):
        kind = given.name if isinstance(given, Typed) else type(given).__name__
        raise CannotMap(f"a schedule of type {kind} is not RedBeat's own", "Create it by hand: parrot create")
    if given.name == "crontab":
        found = crontab_when(given.fields, zone)
        return When(
            schedule_type=found.schedule_type, config=found.config, notes=found.notes, faults=(*found.faults, NO_ZONE)
        )  # fmt: skip
    if given.name == "rrule":
        return _rrule(given.fields)
    try:
        every = timedelta(seconds=float(given.fields["every"]))
    except (KeyError, TypeError, ValueError, OverflowError):
        raise CannotMap(f"its interval {given.fields.get('every')!r} is no number", "Correct it in Redis") from None
    return interval_when(every, last_run, relative=bool(given.fields.get("relative")), timezone=zone)


def _rrule(given: Mapping[str, Any]) -> When:
    """As an RFC 5545 rule in the fixed offset that RedBeat keeps."""
    faults = []
    try:
        freq = given["freq"]
        parts = {"FREQ": _FREQUENCIES[freq] if isinstance(freq, int) else str(freq).upper()}
        if (given.get("interval") or 1) != 1:
            parts["INTERVAL"] = str(given["interval"])
        if given.get("wkst") is not None:
            parts["WKST"] = _day(given["wkst"])
        if given.get("count") is not None:
            parts["COUNT"] = str(given["count"])
        if given.get("until") is not None:
            parts["UNTIL"] = f"{datetime.fromtimestamp(given['until'], UTC):%Y%m%dT%H%M%SZ}"
        for name in _LISTS:
            if given.get(name) is not None:
                parts[name.upper()] = ",".join(str(each) for each in _listed(given[name]))
        if given.get("byweekday") is not None:
            days = _listed(given["byweekday"])
            parts["BYDAY"] = ",".join(_day(each) for each in days)
            if parts["FREQ"] in ("YEARLY", "MONTHLY") and any(isinstance(each, Typed) for each in days):
                faults.append(NO_NUMBERS)
        minutes = int(given.get("dtstart_tz") or 0)
        start = datetime.fromtimestamp(given["dtstart"], timezone(timedelta(minutes=minutes)))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise CannotMap(f"its rrule cannot be read: {type(error).__name__} {error}", "Correct it in Redis") from None
    if minutes:
        faults.append(OFFSET_ONLY)
    config = {
        "rule": ";".join(f"{key}={value}" for key, value in parts.items()),
        "dtstart": start.isoformat(),
        "tz": f"UTC{'+' if minutes >= 0 else '-'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"
        if minutes
        else "UTC",
    }
    return When(schedule_type="rrule", config=config, faults=tuple(faults))


def _listed(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _day(value: object) -> str:
    number = value.fields["wkday"] if isinstance(value, Typed) else value
    return _DAYS[number]  # type: ignore[index]


def _decoded(what: str, text: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(text, object_hook=_typed)
    except (ValueError, RecursionError, LookupError, TypeError, OSError) as error:
        raise CannotMap(f"its {what} is not what RedBeat writes: {error}", "Delete it, or write it anew") from None
    if not isinstance(found, dict):
        raise CannotMap(f"its {what} is no JSON object", "Delete it from Redis, or write it anew")
    return found


def _typed(given: dict[str, Any]) -> object:
    if "__type__" not in given:
        return given
    name = given.pop("__type__")
    if name != "datetime":
        return Typed(str(name), given)
    where = given.pop("timezone", "UTC")
    fixed = timezone(timedelta(seconds=where)) if isinstance(where, int | float) else ZoneInfo(where)
    return datetime(tzinfo=fixed, **given)
