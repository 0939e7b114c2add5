"""django-celery-beat and sqlalchemy-celery-beat: one table of tasks, one for each kind of schedule.

Neither package is needed. Their tables differ in how a task names its schedule, and in a few rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from celery_parrot.errors import ParrotError
from celery_parrot.importers.celery_when import CRON_FIELDS, When, crontab_when, interval_when, once_when, solar_when
from celery_parrot.importers.items import CannotMap, Found, Item, guarded
from celery_parrot.importers.values import call_of, instant, json_of, options_of

if TYPE_CHECKING:
    from celery_parrot.stores.sql.foreign import ForeignTables, Row

EARLY: Final = (
    "a crontab with a start there may run once right at the start, before it is due; here its first due time is the "
    "first that it names"
)
FROM_ITS_START: Final = "an interval that has not run yet counts there from each start of its beat"
_KINDS: Final = ("interval", "crontab", "solar", "clocked")
_PERIODS: Final = ("days", "hours", "minutes", "seconds", "microseconds")
_MICRO: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Family:
    """One of the two.

    :ivar prefix: of its tables. :ivar name: for people.
    """

    name: str
    prefix: str

    def table(self, kind: str) -> str:
        """The table of schedules of a kind."""
        return f"{self.prefix}_{kind}schedule"

    @property
    def tasks(self) -> str:
        """The table of tasks."""
        return f"{self.prefix}_periodictask"


DJANGO: Final = Family("django-celery-beat", "django_celery_beat")
SQLALCHEMY: Final = Family("sqlalchemy-celery-beat", "celery")


def read(tables: ForeignTables, family: Family) -> Found:
    """Every task.

    :raises ParrotError: if there is no such table.
    """
    names = tables.names()
    if family.tasks not in names:
        raise ParrotError(f"{tables.where} has no table {family.tasks}; a schema is named with --schema")
    schedules: dict[str, dict[Any, Row]] = {
        kind: {row["id"]: row for row in tables.rows(family.table(kind))} if family.table(kind) in names else {}
        for kind in _KINDS
    }
    rows = sorted(tables.rows(family.tasks), key=lambda row: str(row.get("name")))
    return Found(where=tables.where, items=tuple(_item(row, schedules, family) for row in rows))


def _item(row: Row, schedules: Mapping[str, Mapping[Any, Row]], family: Family) -> Item:
    return guarded(str(row.get("name")), lambda: _mapped(row, schedules, family))


def _mapped(row: Row, schedules: Mapping[str, Mapping[Any, Row]], family: Family) -> Item:
    kind, schedule = _schedule_of(row, schedules, family)
    last_run, start, runs = instant(row["last_run_at"]), instant(row.get("start_time")), row["total_run_count"] or 0
    enabled, one_off = bool(row["enabled"]), bool(row.get("one_off"))
    if one_off and enabled and runs:
        raise CannotMap("it was to run once and has", "Nothing is left to do; delete it there")
    when = _when(kind, schedule, row, last_run, start)
    if family is SQLALCHEMY and kind == "interval" and last_run is None and start is None:
        when = replace(when, faults=(*when.faults, FROM_ITS_START))
    notes = list(when.notes)
    fields: dict[str, Any] = {
        "name": row["name"], "target": row["task"],
        "schedule_type": when.schedule_type, "schedule_config": when.config,
        **call_of(json_of("args", row["args"], list), json_of("kwargs", row["kwargs"], dict)),
        "options": options_of(_options(row), notes),
    }  # fmt: skip
    if start is not None and kind != "clocked":
        fields["start_at"] = start
    if (expires := instant(row.get("expires"))) is not None:
        fields["end_at"] = expires - _MICRO
        notes.append("expires: nothing is due from that instant on; its messages have no expiry of their own")
    if one_off and kind != "clocked":
        fields["max_fires"] = 1
    if row.get("description"):
        notes.append(f"its description has no place here: {row['description']}")
    return Item(
        source_name=row["name"],
        fields=fields,
        paused=None if enabled else f"disabled in {family.name}",
        notes=tuple(notes),
        faults=when.faults,
        past={"last_run": last_run, "run_count": runs},
    )


def _schedule_of(row: Row, schedules: Mapping[str, Mapping[Any, Row]], family: Family) -> tuple[str, Row]:
    if family is SQLALCHEMY:
        kind = str(row["discriminator"]).removesuffix("schedule")
        chosen = {kind: row["schedule_id"]}
    else:
        chosen = {kind: row[f"{kind}_id"] for kind in _KINDS if row.get(f"{kind}_id") is not None}
    if not chosen:
        raise CannotMap("it has no schedule", "Give it one in the source, or delete it")
    kind = next(iter(chosen))  # the order in which django-celery-beat looks
    found = schedules.get(kind, {}).get(chosen[kind])
    if found is None:
        raise CannotMap(f"its {kind} schedule {chosen[kind]} is not there", "Give it one in the source, or delete it")
    return kind, found


def _when(kind: str, schedule: Row, row: Row, last_run: datetime | None, start: datetime | None) -> When:
    if kind == "crontab":
        fields = {name: schedule.get(name) for name in CRON_FIELDS}
        found = crontab_when(fields, str(schedule.get("timezone") or "UTC"))
        return replace(found, faults=(*found.faults, EARLY)) if start is not None else found
    if kind == "interval":
        if schedule["period"] not in _PERIODS:
            raise CannotMap(f"its period {schedule['period']!r} is unknown", "Correct it in the source")
        every = timedelta(**{schedule["period"]: schedule["every"]})
        # One that has not run yet runs at its start, else one step after it was made.
        return interval_when(every, last_run or start or instant(row.get("date_changed")))
    if kind == "solar":
        return solar_when(schedule["event"], schedule["latitude"], schedule["longitude"])
    at = instant(schedule["clocked_time"])
    if at is None:
        raise CannotMap("its clocked time is empty", "Give it one in the source, or delete it")
    return once_when(at)


def _options(row: Row) -> dict[str, Any]:
    options = {name: row.get(name) or None for name in ("queue", "exchange", "routing_key")}
    headers = json_of("headers", row.get("headers"), dict)
    return {
        **options,
        "priority": row.get("priority"),
        "expires": row.get("expire_seconds") or None,
        "headers": headers,
    }
