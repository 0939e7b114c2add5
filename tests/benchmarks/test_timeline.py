"""The next 24 hours of 100,000 schedules, counted by a real Flower while somebody goes on using its other pages."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from itertools import cycle
from typing import Any

import psutil
import psycopg
import pytest

from tests.benchmarks.test_stores import APP, DUE, ROWS, environment, fill_redis, filled, show
from tests.support.procs import Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import wait_until

__all__ = ["filled", "show"]  # fixtures

AT_MOST = 240.0
"""Seconds for the whole count on a machine of two cores."""
PAGE_AT_MOST = 0.3
EVERY = 0.25
"""Seconds between two requests: somebody who hurries."""
OTHERS = ("schedules?limit=50", "schedules?after=s5&limit=50", "groups", "beats", "fires", "kinds")
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test"),
]


def count(store: str, procs: Procs, env: Mapping[str, str], show: Callable[[str], None]) -> None:
    """Start Flower, have it count, ask for everything else meanwhile; show the figures, and check them."""
    port = free_port()
    flower = procs.celery("flower", APP, "parrot", "flower", f"--port={port}", "--address=127.0.0.1", env=env)

    def ask(path: str) -> tuple[float, Any]:
        began = time.monotonic()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/parrot/api/{path}", timeout=30) as answer:
            found = json.load(answer)
        return time.monotonic() - began, found

    def answers() -> bool:
        try:
            ask("kinds")
        except (urllib.error.URLError, ConnectionError):
            return False
        return True

    wait_until(answers, "Flower to answer", 30, interval=0.1, explain=flower.tail)
    before = {path: max(ask(path)[0] for _ in range(3)) for path in OTHERS}
    resident = _resident(flower)
    spent = _spent(flower)
    began, most, slowest, turns = time.monotonic(), resident, dict.fromkeys(OTHERS, 0.0), cycle(OTHERS)

    def complete() -> Any:
        nonlocal most
        path = next(turns)
        slowest[path] = max(slowest[path], ask(path)[0])
        most = max(most, _resident(flower))
        found = ask("timeline")[1]
        assert not found["failed"], found["failed"]
        return found if found["complete"] else None

    timeline = wait_until(complete, "the whole count", AT_MOST, interval=EVERY)
    took, spent = time.monotonic() - began, _spent(flower) - spent
    worst = max(slowest, key=lambda path: slowest[path])
    assert timeline["counted"] >= ROWS
    # Those due each minute, and each other one once a day; up to ten minutes of the day lie behind.
    assert sum(sum(counts) for counts in timeline["kinds"].values()) >= DUE * 1429 + 0.99 * (ROWS - DUE)
    show(
        f"{store}: {timeline['counted']} schedules counted in {took:.1f} s, {spent:.1f} s of processor; "
        f"slowest other answer meanwhile {1000 * slowest[worst]:.0f} ms ({worst}), "
        f"before {1000 * max(before.values()):.0f} ms; "
        f"memory {resident:.0f} MiB before, at most {most:.0f} MiB"
    )
    assert slowest[worst] < PAGE_AT_MOST, slowest


def _spent(proc: Proc) -> float:
    times = psutil.Process(proc.pid).cpu_times()
    return float(times.user + times.system)


def _resident(proc: Proc) -> float:
    return float(psutil.Process(proc.pid).memory_info().rss) / 2**20


def test_postgresql(
    filled: psycopg.Connection[Any],
    postgresql_url: str,
    private_redis: PrivateRedis,
    procs: Procs,
    show: Callable[[str], None],
) -> None:
    """All are counted, no page waits for that, and they are never all in memory."""
    count("PostgreSQL", procs, environment(private_redis, parrot_database_url=postgresql_url), show)


def test_redis(make_redis: Callable[..., PrivateRedis], procs: Procs, show: Callable[[str], None]) -> None:
    """The same."""
    server, broker = make_redis(), make_redis()
    fill_redis(server)
    count("Redis", procs, environment(broker, parrot_redis_url=server.url()), show)
