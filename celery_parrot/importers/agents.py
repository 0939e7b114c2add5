"""The older table ``agents_scheduler``, whose rows become rows of ``service_scheduler`` under their own ids."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from celery_parrot.errors import ParrotError
from celery_parrot.importers.ap_cron import crontab_fields
from celery_parrot.importers.ap_triggers import RENUMBERED, Timing, cron_timing
from celery_parrot.importers.celery_when import interval_when
from celery_parrot.importers.items import CannotMap, Found, Item, guarded
from celery_parrot.importers.keys import ForeignKeys
from celery_parrot.importers.values import instant, json_of, plain_json
from celery_parrot.model.schedule import as_uuid
from celery_parrot.triggers.zones import zone as zone_named

if TYPE_CHECKING:
    from celery_parrot.stores.sql.foreign import ForeignTables, Row

TABLE: Final = "agents_scheduler"
SCHEMA: Final = "navigator"
NOT_KWARGS: Final = ("send_result", "success_callback", "is_crew", "last_error", "last_error_time")
AGENT: Final = "agent"
CREW: Final = "crew"
_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds")
_ORDER: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def read(tables: ForeignTables, *, zone: str, reminders: ForeignKeys | None = None, jobs_key: str = "") -> Found:
    """Every row; and the reminders of the old key namespace, by name and time only.

    :param zone: in which the old scheduler read the clock, its host's; crontabs were UTC always.
    :param reminders: where the old one kept them. :param jobs_key: the hash they are in.
    :raises ParrotError: if there is no such table.
    """
    if TABLE not in tables.names():
        raise ParrotError(f"{tables.where} has no table {TABLE}; its schema is named with --schema")
    rows = sorted(tables.rows(TABLE), key=lambda row: str(row["schedule_id"]))
    items = tuple(_item(row, zone) for row in rows)
    known = {str(as_uuid(str(row["schedule_id"]))) for row in rows}
    aside = () if reminders is None else _reminders(reminders, jobs_key, known)
    return Found(where=f"{tables.where}, table {TABLE}", items=items, aside=aside)


def _reminders(keys: ForeignKeys, jobs_key: str, known: set[str]) -> tuple[str, ...]:
    """What is to be armed again. Their pickles are not read: the names and times stand beside them."""
    times = keys.scores(f"{jobs_key.rpartition('.')[0] or jobs_key}.run_times")
    names = sorted(name.decode("utf-8", "replace") for name in keys.hash(jobs_key))
    return tuple(
        f"reminder {name} of key {jobs_key}, "
        + (f"due {datetime.fromtimestamp(times[name], UTC):%Y-%m-%d %H:%M:%S} UTC" if name in times else "paused")
        + ": not moved. Arm it again where it was made, or create a schedule of type once"
        for name in names
        if str(as_uuid(name)) not in known
    )


def _item(row: Row, zone: str) -> Item:
    schedule_id = str(row["schedule_id"])
    return guarded(f"{row.get('agent_name')} {schedule_id}", lambda: _mapped(row, zone))


def _mapped(row: Row, zone: str) -> Item:
    notes: list[str] = []
    metadata = plain_json("metadata", json_of("metadata", row.get("metadata"), dict))
    aside = {key: metadata.pop(key) for key in NOT_KWARGS if key in metadata}
    schedule_id = as_uuid(str(row["schedule_id"]))
    if schedule_id is None:
        raise CannotMap(f"its id {row['schedule_id']!r} is no UUID", "Give it one in the old table")
    timing = timing_of(row, zone)
    fields: dict[str, Any] = {
        "name": f"{row['agent_name']} {schedule_id[:8]}",
        "kind": CREW if row.get("is_crew") or aside.get("is_crew") else AGENT,
        "target": row["agent_name"], "target_id": row.get("agent_id"),
        "prompt": row.get("prompt"), "method_name": row.get("method_name"),
        "kwargs": metadata, **timing.fields, **_told(row, aside, notes),
    }  # fmt: skip
    in_redis = row.get("scheduler_type") == "redis"
    error_at = _error_time(aside.get("last_error_time"), zone)
    past = {
        "last_run": instant(row.get("last_run")), "run_count": row.get("run_count"),
        "created_by": row.get("created_by"), "created_email": row.get("created_email"),
        "last_error": aside.get("last_error"), "last_error_at": error_at,
    }  # fmt: skip
    if in_redis and aside.get("last_error"):
        notes.append(f"its last error is not carried into Redis: {aside['last_error']}")
    return Item(
        source_name=f"{row['agent_name']} {schedule_id}",
        fields={key: value for key, value in fields.items() if value is not None},
        store="redis" if in_redis else None,
        schedule_id=schedule_id,
        paused=None if row.get("enabled", True) in (True, 1, None) else f"disabled in {TABLE}",
        notes=(*notes, *timing.notes),
        faults=timing.faults,
        past=past,
    )


def _told(row: Row, aside: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """Who is told of the result: the columns, or what older rows kept in the metadata."""
    found: dict[str, Any] = {}
    result = json_of("send_result", row.get("send_result"), dict) or aside.get("send_result")
    callbacks = list(json_of("callbacks", row.get("callbacks"), list))
    if (one := aside.get("success_callback")) is not None:
        callbacks.append(one)
    if result:
        found["send_result"] = result
    if callbacks:
        found["callbacks"] = callbacks
    return found


def _error_time(value: object, zone: str) -> datetime | None:
    """It was written without a zone, off the old scheduler's clock."""
    try:
        return instant(value, zone_named(zone).info)
    except CannotMap:
        return None


# --- when ----------------------------------------------------------------------------------------------------------


def timing_of(row: Row, zone: str) -> Timing:
    """When a row is due, by the trigger that the old scheduler made of it.

    :raises CannotMap: if it could not either, or there is no counterpart.
    """
    name, config = str(row["schedule_type"]).lower(), json_of("schedule_config", row["schedule_config"], dict)
    if name == "once" and config.get("run_date"):
        return _plain(name, config, zone)
    if name in ("daily", "weekly", "monthly"):
        return _calendar(name, config, zone)
    if name == "interval":
        return _interval(config, instant(row.get("next_run")))
    if name == "cron":
        bounds = {"timezone": config.get("timezone") or zone, "jitter": config.get("jitter")}
        bounds |= {key: instant(config.get(key)) for key in ("start_date", "end_date")}
        return cron_timing({key: value for key, value in config.items() if key not in bounds}, bounds)
    if name == "crontab" and isinstance(config.get("expr"), str):
        return cron_timing(crontab_fields(config["expr"]), {"timezone": "UTC"})
    raise CannotMap(f"its schedule_type {name!r} with {sorted(config)} was not due there either", "Create it by hand")


def _calendar(name: str, config: Mapping[str, Any], zone: str) -> Timing:
    """As they are where both mean the same; else the cron trigger that the old scheduler made of them."""
    found = {key: config[key] for key in ("hour", "minute") if config.get(key) is not None}
    if name == "daily":
        return _plain(name, found, zone)
    key = "day_of_week" if name == "weekly" else "day"
    value = config.get(key)
    if name == "monthly" and (value is None or isinstance(value, int)):
        short = {"on_short_month": "skip"} if isinstance(value, int) and value > 28 else {}
        return _plain(name, {**found, **({} if value is None else {"day": value}), **short}, zone)
    if name == "weekly" and (value is None or value in _ORDER):
        return _plain(name, {**found, **({} if value is None else {"day_of_week": value})}, zone)
    if name == "weekly" and isinstance(value, int) and 0 <= value <= 6:
        return Timing(
            fields=_plain(name, {**found, "day_of_week": _ORDER[value]}, zone).fields, notes=(RENUMBERED,)
        )  # fmt: skip
    texts = {key: "mon" if value is None else value, "hour": found.get("hour", 0), "minute": found.get("minute", 0)}
    return cron_timing(texts, {"timezone": zone})


def _interval(config: Mapping[str, Any], next_run: datetime | None) -> Timing:
    try:
        every = timedelta(**{unit: config[unit] for unit in _UNITS if config.get(unit) is not None})
    except TypeError:
        raise CannotMap(f"its interval {dict(config)!r} has no length", "Correct it in the old table") from None
    when = interval_when(every, next_run)
    notes = ("it counted from each start of the old scheduler; here it goes on from its next_run",)
    return Timing(
        fields={"schedule_type": when.schedule_type, "schedule_config": when.config},
        notes=notes if next_run is not None else when.notes,
    )


def _plain(name: str, config: Mapping[str, Any], zone: str) -> Timing:
    return Timing(fields={"schedule_type": name, "schedule_config": dict(config), "timezone": zone})
