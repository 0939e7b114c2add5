"""Stores filled by the packages that they belong to, and a client that imports from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_parrot import Parrot
from celery_parrot.client import Schedules
from celery_parrot.importers.items import Found
from celery_parrot.importers.transfer import Step, carry_out, plan
from celery_parrot.stores.sql import upgrade
from tests.support.peers import fetched
from tests.support.redis_server import PrivateRedis

HERE = Path(__file__).parent
NOW = datetime.fromisoformat("2027-01-10T12:00:00+00:00")
"""The now of these tests; what the sources say is due counts from it."""

#: Without what they depend on and the environment has: Celery, SQLAlchemy, redis, ephem.
PACKAGES = (
    *("celery-redbeat==2.4.2", "tenacity==9.2.1"),
    *("django-celery-beat==2.9.0", "Django==5.2.19", "django-timezone-field==7.2.2", "python-crontab==3.4.0"),
    *("asgiref==3.13.0", "sqlparse==0.6.1", "cron-descriptor==1.4.5"),
    *("sqlalchemy-celery-beat==0.9.1", "APScheduler==3.11.3", "tzlocal"),
)

Peer = Callable[..., dict[str, list[str]]]


@pytest.fixture(scope="session")
def packages() -> Path:
    """A folder with the packages, outside the repository, kept from run to run. See docs/decisions/0060."""
    return fetched("peers", *PACKAGES)


@pytest.fixture
def peer(packages: Path) -> Peer:
    """``peer("redbeat", url)``: run ``peers/fill_redbeat.py``; the due times that it prints, by name."""

    def run(name: str, *arguments: object) -> dict[str, list[str]]:
        done = subprocess.run(
            [sys.executable, str(HERE / "peers" / f"fill_{name}.py"), *map(str, arguments), NOW.isoformat()],
            env={**os.environ, "PYTHONPATH": str(packages), "PYTHONWARNINGS": "ignore"},
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        due: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
        return due

    return run


class Importing:
    """One app with a database and a Redis, and what imports do to it."""

    def __init__(self, redis: str, database: str) -> None:
        self.redis, self.database = redis, database
        upgrade(database)
        app = Celery("importing", broker=redis, set_as_current=False)
        app.conf.update(timezone="Europe/Madrid", result_expires=None, parrot_database_url=database)
        self.parrot = Parrot(app)

    @property
    def client(self) -> Schedules:
        return self.parrot.schedules

    def run(self, found: Found, **said: Any) -> dict[str, Step]:
        """Plan and carry out, by the names in the source."""
        steps = carry_out(plan(found, self.client, NOW, **said), self.client)
        return {step.item.source_name: step for step in steps}

    def due(self, name: str, count: int = 10) -> list[str]:
        """The due times of a schedule here, after the tests' now."""
        trigger, at = self.client.trigger(name), NOW
        found: list[str] = []
        while len(found) < count and (following := trigger.next_after(at)) is not None:
            found.append(following.isoformat())
            at = following
        return found


@pytest.fixture
def importing(private_redis: PrivateRedis, tmp_path: Path) -> Iterator[Importing]:
    made = Importing(private_redis.url(), f"sqlite:///{tmp_path}/parrot.db")
    yield made
    made.parrot.close()


def same(theirs: Sequence[str], ours: Sequence[str], within: float = 0.0) -> bool:
    """Whether both name the same instants. ``within``: seconds, where one of them rounds."""
    return len(theirs) == len(ours) and all(
        abs(datetime.fromisoformat(a) - datetime.fromisoformat(b)) <= timedelta(seconds=within)
        for a, b in zip(theirs, ours, strict=True)
    )
