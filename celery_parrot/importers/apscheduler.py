"""APScheduler 3's job stores in SQL and Redis: one pickle a job."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from celery_parrot.errors import ParrotError
from celery_parrot.importers.ap_triggers import timing_of
from celery_parrot.importers.items import CannotMap, Found, Item, guarded
from celery_parrot.importers.keys import ForeignKeys
from celery_parrot.importers.pickles import loads
from celery_parrot.importers.values import call_of, instant

if TYPE_CHECKING:
    from celery_parrot.stores.sql.foreign import ForeignTables

TABLE: Final = "apscheduler_jobs"
JOBS_KEY: Final = "apscheduler.jobs"
_JOB: Final = frozenset({"id", "func", "trigger", "args", "kwargs", "next_run_time"})


@dataclass(frozen=True, slots=True)
class Tasks:
    """Which Celery task does what a function did.

    :ivar named: by ``module:function``, as a person said. :ivar known: whether the app has a task of a name.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    known: Callable[[str], bool] = lambda _name: False

    def of(self, reference: str) -> str:
        """The task for a function. Raises CannotMap if nobody knows one."""
        if (named := self.named.get(reference)) is not None:
            return named
        same = reference.replace(":", ".")
        if self.known(same):
            return same
        raise CannotMap(
            f"it calls the function {reference}, and only Celery tasks can be scheduled",
            f"Make the function a task and name it: --task-map {reference}=TASK",
        )


def read_sql(tables: ForeignTables, tasks: Tasks, *, table: str = TABLE) -> Found:
    """Every job of an ``SQLAlchemyJobStore``. Raises ParrotError if there is no such table."""
    if table not in tables.names():
        raise ParrotError(f"{tables.where} has no table {table}; name it with --table, a schema with --schema")
    rows = {str(row["id"]): bytes(row["job_state"]) for row in tables.rows(table)}
    return Found(where=f"{tables.where}, table {table}", items=tuple(_items(rows.items(), tasks)))


def read_redis(keys: ForeignKeys, tasks: Tasks, *, jobs_key: str = JOBS_KEY) -> Found:
    """Every job of a ``RedisJobStore``."""
    jobs = {name.decode("utf-8", "replace"): state for name, state in keys.hash(jobs_key).items()}
    return Found(where=f"{keys.where}, key {jobs_key}", items=tuple(_items(jobs.items(), tasks)))


def _items(jobs: Iterable[tuple[str, bytes]], tasks: Tasks) -> Iterable[Item]:
    for name, state in sorted(jobs):
        yield guarded(name, partial(_mapped, name, state, tasks))


def _mapped(name: str, state: bytes, tasks: Tasks) -> Item:
    job = loads("job", state)
    if not isinstance(job, dict) or not job.keys() >= _JOB:
        raise CannotMap("it is no job of APScheduler 3", "Create it by hand: parrot create")
    notes: list[str] = []
    next_run: datetime | None = instant(job["next_run_time"], UTC)
    timing = timing_of(job["trigger"], next_run)
    call = call_of(job["args"], job["kwargs"])
    fields: dict[str, Any] = {"name": name, "target": tasks.of(str(job["func"])), **timing.fields, **call}
    fields["missed"] = "coalesce" if job.get("coalesce", True) else "catch_up"
    fields["misfire_grace"] = job.get("misfire_grace_time")
    most = job.get("max_instances", 1)
    if most == 1:
        fields["overlap"] = "skip"
    else:
        fields["overlap"] = "allow"
        notes.append(f"max_instances {most}: here as many as become due run at once (overlap: allow)")
    if job.get("executor", "default") != "default":
        notes.append(f"executor {job['executor']!r}: say where it runs with a queue instead")
    if job.get("name") and job["name"] not in (name, str(job["func"]).rpartition(":")[2]):
        notes.append(f"its description has no place here: {job['name']}")
    return Item(
        source_name=name,
        fields=fields,
        paused="paused in APScheduler" if next_run is None else None,
        notes=(*notes, *timing.notes),
        faults=timing.faults,
    )
