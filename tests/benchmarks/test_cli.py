"""The command line over 100,000 schedules: whole processes, from start to exit code, beside one that does nothing."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest
from celery import Celery

from celery_parrot.client import Schedules
from celery_parrot.clock import SystemClock
from celery_parrot.runtime.clients import of_app
from tests.benchmarks.test_stores import APP, environment, fill_redis, filled, show
from tests.support.procs import ROOT
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic

__all__ = ["filled", "show"]
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test"),
]

ASKED = (
    ("list", "--kind", "x"),
    ("list",),
    ("show", "s050000"),
    ("next", "s050000"),
    ("fires", "s050000"),
)
TYPO = ("show", "s05000o")


class Took(NamedTuple):
    """Seconds. ``busy``: of this process on a processor, which a busy neighbour does not change much."""

    busy: float
    whole: float


def best(environ: Mapping[str, str], *arguments: str, tries: int = 3) -> Took:
    """The quickest of some runs."""
    took: list[Took] = []
    for _ in range(tries):
        began, before = monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [sys.executable, "-m", "celery", *arguments], env={**os.environ, **environ, "PYTHONPATH": str(ROOT)},
            cwd=Path(ROOT), capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        took.append(Took(busy, monotonic() - began))
        assert "Traceback" not in done.stderr, done.stderr[-2000:]
        assert done.returncode == 0 or TYPO[1] in arguments, done.stderr[-2000:]
    return min(took)


def measure(environ: Mapping[str, str], where: str, show: Callable[[str], None], typo: float) -> None:
    nothing = best(environ, "--version")
    show(f"{where}: celery --version, {nothing.whole:.2f} s, {nothing.busy:.2f} s busy")
    for arguments in ASKED:
        took = best(environ, "-A", APP, "parrot", *arguments)
        show(f"{where}: {' '.join(arguments)}, {took.whole:.2f} s, {took.busy:.2f} s busy")
        assert took.busy - nothing.busy < 1.0, arguments
    took = best(environ, "-A", APP, "parrot", *TYPO, tries=1)
    show(f"{where}: {' '.join(TYPO)}, {took.whole:.2f} s, {took.busy:.2f} s busy; there is no such name")
    assert took.whole - nothing.whole < typo


def ask(client: Schedules, where: str, show: Callable[[str], None]) -> None:
    """What of that the stores take, without Python and Celery starting: the quickest of some."""
    calls: Mapping[str, Callable[[], object]] = {
        "find(kind='x')": lambda: client.find(kind="x"),
        "find()": client.find,
        "get('s050000')": lambda: client.get("s050000"),
        "next('s050000')": lambda: client.next("s050000"),
    }
    for what, call in calls.items():
        took: list[float] = []
        for _ in range(5):
            began = monotonic()
            call()
            took.append(monotonic() - began)
        show(f"{where}: {what}, {min(took) * 1000:.1f} ms")
        assert min(took) < 0.5, what
    client.close()


def test_redis(private_redis: PrivateRedis, show: Callable[[str], None]) -> None:
    """Pages and single schedules are found by their index; only the search for a like name reads many."""
    fill_redis(private_redis)
    client = _client(private_redis)
    client.create_many([_fields(f"x{n}") for n in range(150)])
    ask(client, "Redis", show)
    measure(environment(private_redis), "Redis", show, typo=20)


def test_postgresql(
    filled: psycopg.Connection[Any], postgresql_url: str, private_redis: PrivateRedis, show: Callable[[str], None]
) -> None:
    """The same."""
    filled.execute("UPDATE service_scheduler SET name = 's' || lpad(substr(name, 2), 6, '0')")
    filled.execute("UPDATE service_scheduler SET target_kind = 'x' WHERE name LIKE 's0001%'")
    filled.execute("VACUUM ANALYZE service_scheduler")
    ask(_client(private_redis, parrot_database_url=postgresql_url), "PostgreSQL", show)
    measure(environment(private_redis, parrot_database_url=postgresql_url), "PostgreSQL", show, typo=3)


def _client(server: PrivateRedis, **settings: Any) -> Schedules:
    app = Celery("bench", broker=server.url())
    app.conf.update(settings)
    return of_app(app, SystemClock())


def _fields(name: str) -> dict[str, Any]:
    return {
        "name": name, "kind": "x", "target": "app.task", "schedule_type": "interval", "schedule_config": {"hours": 1},
        "store": "redis",
    }  # fmt: skip
