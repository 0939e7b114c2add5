"""A database with its tables, a Redis, and the app both are set in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.stores.sql import upgrade
from tests.integration.beat.conftest import Mailbox
from tests.support.procs import ROOT, Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.integration.client.app"
READY = r"beat ready: scheduler_manager, coordination redis"


@dataclass
class World:
    """One app, as its beats, its command line and this process see it.

    :ivar database: the URL that beats use. ``direct``: one past any proxy, which the client in this process uses.
    """

    redis: str
    database: str
    direct: str
    procs: Procs
    settings: dict[str, Any] = field(default_factory=dict)
    _parrot: Parrot | None = None

    @property
    def env(self) -> dict[str, str]:
        settings = {"parrot_database_url": self.database, **self.settings}
        return {"TEST_BROKER": self.redis, "TEST_SETTINGS": json.dumps(settings)}

    def beat(self) -> Proc:
        return self.procs.beat(APP, env=self.env)

    @property
    def parrot(self) -> Parrot:
        """A facade of this process, as a web app would have: the same schedules in code, the same settings."""
        if self._parrot is None:
            app = Celery("web", broker=self.redis, set_as_current=False)
            app.conf.result_expires = None
            app.conf.update({"parrot_database_url": self.direct, **self.settings})
            app.conf.beat_schedule = {
                "in code": {
                    "task": "t.note", "schedule": 1.0, "kwargs": {"word": "code"}, "options": {"queue": "code"},
                },
            }  # fmt: skip
            self._parrot = Parrot(app)
        return self._parrot

    def create(self, name: str, store: str, **fields: Any) -> Any:
        """A schedule that sends every second to a queue of its store's name."""
        given = {
            "target": "t.note", "schedule_type": "interval", "schedule_config": {"seconds": 1},
            "kwargs": {"word": name}, "options": {"queue": store}, **fields,
        }  # fmt: skip
        return self.parrot.schedules.create(name=name, store=store, **given)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``celery -A app parrot ARGUMENTS``."""
        return subprocess.run(
            [sys.executable, "-m", "celery", "-A", APP, "parrot", *arguments],
            env={**os.environ, **self.env, "COLUMNS": "120"},
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def json(self, *arguments: str, code: int = 0) -> Any:
        result = self.ask(*arguments, "--json")
        assert result.returncode == code, result.stdout + result.stderr
        return json.loads(result.stdout)

    def close(self) -> None:
        if self._parrot is not None:
            self._parrot.close()


@pytest.fixture
def make_world(private_redis: PrivateRedis, postgresql_url: str, procs: Procs) -> Iterator[Callable[..., World]]:
    """``make_world(through=proxy, migrated=False, **settings)``."""
    made: list[World] = []

    def make(*, through: Any = None, migrated: bool = True, **settings: Any) -> World:
        if migrated:
            upgrade(postgresql_url, settings.get("parrot_database_schema"))
        database = postgresql_url
        if through is not None:
            database = through.url("postgresql://postgres@{host}:{port}/" + postgresql_url.rpartition("/")[2])
        world = World(private_redis.url(), database, postgresql_url, procs, settings)
        made.append(world)
        return world

    yield make
    for world in made:
        world.close()


@pytest.fixture
def mail(private_redis: PrivateRedis) -> Iterator[Mailbox]:
    """The queues of the broker."""
    box = Mailbox(private_redis.url())
    yield box
    box.close()


def due_times(messages: Sequence[Any]) -> list[datetime]:
    return [datetime.fromisoformat(message.headers["parrot"]["due_at"]) for message in messages]


def next_with(mail: Mailbox, queue: str, **kwargs: Any) -> Any:
    """The next message of ``queue`` with exactly these keyword arguments; earlier ones are taken on the way."""

    def look() -> Any:
        while (message := mail._get(queue)) is not None:
            if message.payload[1] == kwargs:
                return message
        return None

    return wait_until(look, f"a message with {kwargs} in {queue}", 15)
