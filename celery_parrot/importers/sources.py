"""The sources by name, and what each is asked with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from celery_parrot.errors import ParrotError
from celery_parrot.importers import agents, apscheduler, beat_tables, redbeat, shelf
from celery_parrot.importers.apscheduler import Tasks
from celery_parrot.importers.items import Found
from celery_parrot.importers.keys import ForeignKeys
from celery_parrot.importers.pickles import WHY

REDIS_SCHEMES: Final = ("redis", "rediss", "unix", "valkey", "valkeys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a person said.

    :ivar location: URL or path. :ivar zone: of readings for which the source names no time zone.
    :ivar prefix: RedBeat's key prefix. :ivar reminders: URL of the Redis with the old table's reminders.
    """

    location: str
    zone: str = "UTC"
    schema: str | None = None
    table: str = apscheduler.TABLE
    prefix: str = redbeat.PREFIX
    jobs_key: str = apscheduler.JOBS_KEY
    reminders: str | None = None
    trust_pickles: bool = False
    tasks: Tasks = field(default_factory=Tasks)


def read(source: str, asked: Asked) -> Found:
    """Everything in a source.

    :raises ParrotError: if it cannot be read, or holds pickles and nobody said that they are trusted.
    """
    return SOURCES[source](asked)


def _redbeat(asked: Asked) -> Found:
    keys = ForeignKeys(asked.location)
    try:
        return redbeat.read(keys, prefix=asked.prefix, zone=asked.zone)
    finally:
        keys.close()


def _django(asked: Asked) -> Found:
    return _beat_tables(asked, beat_tables.DJANGO)


def _sqlalchemy(asked: Asked) -> Found:
    return _beat_tables(asked, beat_tables.SQLALCHEMY)


def _beat_tables(asked: Asked, family: beat_tables.Family) -> Found:
    from celery_parrot.stores.sql.foreign import ForeignTables

    tables = ForeignTables(asked.location, asked.schema)
    try:
        return beat_tables.read(tables, family)
    finally:
        tables.close()


def _shelf(asked: Asked) -> Found:
    _must_trust(asked, asked.location)
    return shelf.read(asked.location, zone=asked.zone)


def _apscheduler(asked: Asked) -> Found:
    _must_trust(asked, "the job store")
    if asked.location.partition("://")[0] in REDIS_SCHEMES:
        keys = ForeignKeys(asked.location)
        try:
            return apscheduler.read_redis(keys, asked.tasks, jobs_key=asked.jobs_key)
        finally:
            keys.close()
    from celery_parrot.stores.sql.foreign import ForeignTables

    tables = ForeignTables(asked.location, asked.schema)
    try:
        return apscheduler.read_sql(tables, asked.tasks, table=asked.table)
    finally:
        tables.close()


def _agents(asked: Asked) -> Found:
    from celery_parrot.stores.sql.foreign import ForeignTables

    tables = ForeignTables(asked.location, agents.SCHEMA if asked.schema is None else asked.schema or None)
    keys = None if asked.reminders is None else ForeignKeys(asked.reminders)
    try:
        return agents.read(tables, zone=asked.zone, reminders=keys, jobs_key=asked.jobs_key)
    finally:
        tables.close()
        if keys is not None:
            keys.close()


def _must_trust(asked: Asked, what: str) -> None:
    if not asked.trust_pickles:
        raise ParrotError(f"{what} is not read: {WHY}")


SOURCES: Final[Mapping[str, Callable[[Asked], Found]]] = {
    "redbeat": _redbeat,
    "django-celery-beat": _django,
    "sqlalchemy-celery-beat": _sqlalchemy,
    "shelve": _shelf,
    "apscheduler": _apscheduler,
    "agents-scheduler": _agents,
}
