"""celery-parrot for the harness that measures beats side by side: each store with each coordination.

Its modules ``adapters`` and ``harness`` are the harness's own; run from its folder with
``python run.py --scheduler PATH/parrot_adapter.py --variant redis --workload W1 -n 10000``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import celery
import redis
from adapters.base import Adapter  # type: ignore[import-not-found]
from harness.model import TASK_NAME, Launch, Schedule, Site  # type: ignore[import-not-found]

from celery_parrot import Parrot
from celery_parrot.stores.sql import upgrade

if TYPE_CHECKING:
    from celery_parrot.client import Schedules

_VARIANTS = {
    "redis": ("redis", "redis", ""),
    "code": ("code", "redis", ""),
    "code-db": ("code", "db", "postgresql"),
    "code-none": ("code", "none", ""),
    "postgresql": ("db", "redis", "postgresql"),
    "postgresql-db": ("db", "db", "postgresql"),
    "sqlite": ("db", "redis", "sqlite"),
    "sqlite-db": ("db", "db", "sqlite"),
    "sqlite-none": ("db", "none", "sqlite"),
}


class CeleryParrot(Adapter):  # type: ignore[misc] # the harness has no types
    """Variants are ``store-coordination``; coordination is Redis where none is named."""

    title = "celery-parrot"
    needs_postgres = True
    variants: ClassVar[dict[str, dict[str, str]]] = {
        name: {"store": store, "coordination": coordination, "database": database}
        for name, (store, coordination, database) in {**_VARIANTS, "default": _VARIANTS["redis"]}.items()
    }

    def __init__(self, site: Site, variant: str = "default") -> None:
        super().__init__(site, variant)
        self.editable = self.settings["store"] != "code"
        self._entries: dict[str, dict[str, Any]] = {}
        self._client: Schedules | None = None

    def lead(self, n: int) -> float:
        return 3.0 + n / 2000

    def reset(self) -> None:
        """An empty store, and an empty coordinator."""
        if self._client is not None:
            self._client.close()
            self._client = None
        self._entries = {}
        redis.Redis.from_url(self.site.store_url).flushdb()
        if self.settings["database"] == "postgresql":
            _recreate(self.site.postgres_port)
        elif self.settings["database"] == "sqlite":
            for path in self.site.workdir.glob("parrot.sqlite*"):
                path.unlink()
        if self.settings["database"]:
            upgrade(self._database_url())

    def load(self, schedules: Iterable[Schedule]) -> None:
        fields = [self._fields(schedule) for schedule in schedules]
        if self.settings["store"] == "code":
            self._entries |= {entry["name"]: _entry(entry) for entry in fields}
        else:
            self._schedules().create_many(fields)

    def launch(self, instance: str) -> Launch:
        return self.celery_beat(instance, "parrot", {**self._conf(), "beat_schedule": self._entries})

    def add(self, schedule: Schedule) -> None:
        self._schedules().create(**self._fields(schedule))

    def pause(self, schedule: Schedule) -> None:
        self._schedules().pause(schedule.name)

    def change_interval(self, schedule: Schedule, every: int) -> None:
        """Due at once, as with schedulers that count from the last run: the last due time of the shorter interval."""
        self._schedules().update(schedule.name, **_when(schedule.first_due, every, datetime.now(UTC).timestamp() + 0.1))

    def _schedules(self) -> Schedules:
        if self._client is None:
            app = celery.Celery("bench-parrot-admin", set_as_current=False)
            app.conf.update(self._conf())
            self._client = Parrot(app).schedules
        return self._client

    def _conf(self) -> dict[str, Any]:
        own: dict[str, Any] = {"parrot_coordination": self.settings["coordination"], "result_expires": None}
        if self.settings["database"]:
            own["parrot_database_url"] = self._database_url()
        if self.settings["coordination"] == "redis" or self.settings["store"] == "redis":
            own["parrot_redis_url"] = self.site.store_url
        conf: dict[str, Any] = self.celery_conf(**own)
        return conf

    def _database_url(self) -> str:
        if self.settings["database"] == "sqlite":
            return f"sqlite:///{self.site.workdir}/parrot.sqlite"
        return f"postgresql+psycopg://postgres@127.0.0.1:{self.site.postgres_port}/parrot"

    def _fields(self, schedule: Schedule) -> dict[str, Any]:
        now = datetime.now(UTC).timestamp()
        own = {} if self.settings["store"] == "code" else {"store": self.settings["store"]}
        call = {"name": schedule.name, "target": TASK_NAME, "args": [schedule.key]}
        return {**call, **own, **_when(schedule.first_due, schedule.every, now)}


def _when(first_due: float, every: int, now: float) -> dict[str, Any]:
    """An interval stands on a grid of its own and a new schedule owes nothing of the past, so what is due already and
    again long after the run is a one-shot here."""
    if first_due < now and every > 3600:
        moment = datetime.fromtimestamp(first_due, UTC).isoformat()
        return {"schedule_type": "once", "schedule_config": {"run_date": moment}}
    return {"schedule_type": "interval", "schedule_config": {"seconds": every, "offset": round(first_due % every, 6)}}


def _entry(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The same as an entry of ``beat_schedule``."""
    entry = {key: value for key, value in fields.items() if key not in ("name", "target")}
    return {"task": fields["target"], **entry}


def _recreate(port: int) -> None:
    import psycopg

    with psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS parrot WITH (FORCE)")
        connection.execute("CREATE DATABASE parrot")
