"""The file of Celery's own beat, ``celerybeat-schedule``: a shelf of pickled entries."""

from __future__ import annotations

import dbm
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from celery_parrot.errors import ParrotError
from celery_parrot.importers.celery_when import CRON_FIELDS, When, crontab_when, interval_when, solar_when
from celery_parrot.importers.items import CannotMap, Found, Item, guarded
from celery_parrot.importers.pickles import Record, loads
from celery_parrot.importers.values import call_of, instant, options_of

FROM_CODE: Final = "comes from the beat_schedule of the source's code: if that stays, no import is needed"
_ENTRY: Final = ("name", "task", "last_run_at", "total_run_count", "schedule", "args", "kwargs", "options")


def read(path: str, *, zone: str) -> Found:
    """Every entry of the file.

    :param path: with or without the ending that the system adds. :param zone: of crontabs, where the file names none.
    :raises ParrotError: if there is no such file, or it cannot be read.
    """
    stored = _stored(path)
    entries = _part(stored, b"entries", path)
    if not isinstance(entries, dict):
        raise ParrotError(f"{path} holds no entries of Celery's beat")
    named = _part(stored, b"tz", path)
    zone = named if isinstance(named, str) and named else zone
    return Found(where=path, items=tuple(_item(str(name), entries[name], zone) for name in sorted(entries, key=str)))


def _stored(path: str) -> Mapping[bytes, bytes]:
    base = path
    if not dbm.whichdb(base) and Path(path).suffix in (".db", ".dat", ".dir"):
        base = path.removesuffix(Path(path).suffix)
    kind = dbm.whichdb(base)
    if not kind:
        raise ParrotError(f"{path}: " + ("there is no such file" if kind is None else "is no database file of beat's"))
    try:
        with dbm.open(base, "r") as file:
            return {_bytes(key): file[key] for key in file.keys()}  # noqa: SIM118 - not all kinds of file iterate
    except (*dbm.error, OSError, ImportError) as error:
        raise ParrotError(f"{path} cannot be read ({kind}): {error}; stop the beat that has it open") from None


def _bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _part(stored: Mapping[bytes, bytes], key: bytes, path: str) -> Any:
    if key not in stored:
        return None
    try:
        return loads(key.decode(), stored[key])
    except CannotMap as error:
        raise ParrotError(f"{path}: {error.reason}") from None


def _item(name: str, entry: object, zone: str) -> Item:
    return guarded(name, lambda: _mapped(entry, zone))


def _mapped(given: object, zone: str) -> Item:
    if not isinstance(given, Record) or len(given.args) < len(_ENTRY):
        raise CannotMap("it is no entry of Celery's beat", "Create it by hand: parrot create")
    entry = dict(zip(_ENTRY, given.args, strict=False))
    last_run, notes = instant(entry["last_run_at"]), [FROM_CODE]
    when = _when(entry["schedule"], last_run, zone)
    fields = {
        "name": entry["name"], "target": entry["task"],
        "schedule_type": when.schedule_type, "schedule_config": when.config, "timezone": zone,
        **call_of(entry["args"], entry["kwargs"]),
        "options": options_of(entry["options"] or {}, notes),
    }  # fmt: skip
    return Item(
        source_name=entry["name"],
        fields=fields,
        notes=(*notes, *when.notes),
        faults=when.faults,
        past={"last_run": last_run, "run_count": entry["total_run_count"]},
    )


def _when(schedule: object, last_run: Any, zone: str) -> When:
    if isinstance(schedule, Record):
        args = schedule.args
        match schedule.class_name:
            case "celery.schedules.crontab" if len(args) == len(CRON_FIELDS):
                return crontab_when(dict(zip(CRON_FIELDS, args, strict=True)), zone)
            case "celery.schedules.schedule" if args and isinstance(args[0], timedelta):
                return interval_when(args[0], last_run, relative=bool(args[1:2] and args[1]), timezone=zone)
            case "celery.schedules.solar" if len(args) >= 3:
                return solar_when(*args[:3])
        raise CannotMap(
            f"only the code of {schedule.class_name} knows when it is due",
            "Keep it in beat_schedule: a schedule object of the code is asked itself",
        )
    raise CannotMap(f"its schedule is a {type(schedule).__name__}", "Create it by hand: parrot create")
