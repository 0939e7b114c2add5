"""A beat, a worker, and people who ask, on each coordinator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.client import Schedules
from celery_parrot.model.fire import FireRecord
from celery_parrot.stores.sql import upgrade
from tests.support.databases import own_postgresql
from tests.support.procs import ROOT, Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.integration.demands.app"
FAST = {"parrot_lease_ttl": 1.5, "parrot_reap_interval": 0.3}


@dataclass
class World:
    """One app.

    :ivar store: where its schedules live. ``state``: where its task looks for what to do, and says that it runs.
    """

    broker: str
    store: str
    settings: dict[str, Any]
    procs: Procs
    state: redis.Redis
    parrot: Parrot

    @property
    def env(self) -> dict[str, str]:
        return {"TEST_BROKER": self.broker, "TEST_SETTINGS": json.dumps(self.settings)}

    @property
    def schedules(self) -> Schedules:
        return self.parrot.schedules

    def create(self, name: str = "job", **fields: Any) -> Any:
        """A schedule that will not be due by itself."""
        given = {"target": "t.do", "schedule_type": "daily", "schedule_config": {"hour": 0}, **fields}
        return self.schedules.create(name=name, store=self.store, **given)

    def beat(self) -> Proc:
        beat = self.procs.beat(APP, env=self.env)
        beat.wait_for_log("beat ready")
        return beat

    def worker(self) -> Proc:
        worker = self.procs.worker(APP, "--pool", "solo", "--without-gossip", "--without-mingle", env=self.env)
        worker.wait_for_log(" ready.")
        return worker

    def ran(self) -> list[dict[str, Any]]:
        """What the task said so far, run by run."""
        return [json.loads(raw) for raw in self.state.lrange("ran", 0, -1)]

    def wait_ran(self, count: int) -> list[dict[str, Any]]:
        return wait_until(lambda: self.ran() if len(self.ran()) >= count else None, f"{count} runs", 30) or []

    def record(self, fire_id: str, name: str = "job") -> FireRecord | None:
        return next((one for one in self.schedules.fires(name) if one.fire_id == fire_id), None)

    def ended(self, fire_id: str, name: str = "job") -> FireRecord:
        """Its history entry, once it has ended."""

        def look() -> FireRecord | None:
            found = self.record(fire_id, name)
            return found if found is not None and found.status.terminal else None

        found = wait_until(look, f"fire {fire_id} to end", 30, explain=lambda: self.record(fire_id, name))
        assert found is not None
        return found

    def asker(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.integration.demands.asker", *arguments],
            env={**os.environ, **self.env}, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def command(self, *arguments: str) -> subprocess.Popen[str]:
        """``celery -A app parrot ARGUMENTS``."""
        return subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", APP, "parrot", *arguments], env={**os.environ, **self.env},
            cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


@contextmanager
def _world(kind: str, private_redis: PrivateRedis, procs: Procs) -> Iterator[World]:
    with ExitStack() as stack:
        settings: dict[str, Any] = dict(FAST)
        if kind == "postgresql":
            url = stack.enter_context(own_postgresql())
            upgrade(url)
            settings |= {"parrot_coordination": "db", "parrot_database_url": url}
        broker = private_redis.url()
        app = Celery("web", broker=broker, set_as_current=False)
        app.conf.update(result_expires=None, **settings)
        parrot = Parrot(app)
        state = private_redis.client(0)
        stack.callback(state.close)
        stack.callback(parrot.close)
        store = "db" if kind == "postgresql" else "redis"
        yield World(broker, store, settings, procs, state, parrot)


@pytest.fixture(params=["redis", "postgresql"])
def world(request: pytest.FixtureRequest, private_redis: PrivateRedis, procs: Procs, full: bool) -> Iterator[World]:
    """Coordination and schedules in Redis, or both in PostgreSQL; the broker is a Redis. The suites show both
    already, so the short form has Redis only."""
    if request.param != "redis" and not full:
        pytest.skip("the long form has the database, too (make long)")
    with _world(request.param, private_redis, procs) as world:
        yield world
