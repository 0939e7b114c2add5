"""100,000 schedules, asked for over HTTP.

All is answered within 300 ms but what has to look at all definitions in Redis: that by how long it takes to look at all
of their names.
"""

from __future__ import annotations

import http.client
import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any

import psycopg
import pytest

from tests.benchmarks.test_stores import fill_redis, filled, show
from tests.integration.flower.asking import API, Api, api_of, shop
from tests.support.redis_server import PrivateRedis

__all__ = ["filled", "show"]  # fixtures

REQUESTS = 20
MOST = 0.300
NAMES = "none of that name"
LOOKING_AT_ALL = ("search, one", "search, none", "filter by state")
TIMES_THE_NAMES = 10
SLOWEST = 120.0
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test"),
]

Show = Callable[[str], None]


@pytest.fixture(autouse=True)
def _open_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "1")


def test_postgresql(
    filled: psycopg.Connection[Any], postgresql_url: str, private_redis: PrivateRedis, show: Show
) -> None:
    with api_of(shop(private_redis.url(), postgresql_url)) as api:
        least = answers(api, "s54321", "PostgreSQL", show)
    assert beyond(MOST, least) == {}


def test_redis(private_redis: PrivateRedis, show: Show) -> None:
    fill_redis(private_redis)
    with api_of(shop(private_redis.url(), None)) as api:
        least = answers(api, "s054321", "Redis", show)
    looked = {what: least.pop(what) for what in LOOKING_AT_ALL}
    assert beyond(MOST, least) == {}
    assert beyond(TIMES_THE_NAMES * least[NAMES], looked) == {}


def answers(api: Api, name: str, where: str, show: Show) -> dict[str, float]:
    """Each question several times, by one who keeps the connection: the quickest, so that a busy neighbour does not
    decide."""
    for number in range(0, 100, 2):
        api.client.pause(f"{name[:-2]}{number:02}")
    least: dict[str, float] = {}
    for what, path in questions(name).items():
        took = times(api, path)
        least[what] = min(took)
        show(
            f"{where}: {what:<22} least {min(took) * 1000:6.1f} ms, p50 {statistics.median(took) * 1000:6.1f} ms, "
            f"max {max(took) * 1000:6.1f} ms"
        )
    return least


def beyond(most: float, least: dict[str, float]) -> dict[str, float]:
    """Those that took longer."""
    return {what: seconds for what, seconds in least.items() if seconds > most}


def questions(name: str) -> dict[str, str]:
    """What a page asks for."""
    return {
        "first page": "/schedules?limit=100",
        "a page in the middle": f"/schedules?limit=100&after={name}",
        "search, many": "/schedules?limit=100&text=S0",
        "search, one": f"/schedules?limit=100&text={name.upper()}",
        "search, none": "/schedules?limit=100&text=nowhere",
        "filter by kind": "/schedules?limit=100&kind=task",
        "filter by state": "/schedules?limit=100&state=paused",
        "all filters": "/schedules?limit=100&kind=task&state=active&text=77",
        "one schedule": f"/schedules/{name}",
        "its next 20": f"/schedules/{name}/next?count=20",
        "its fires": f"/schedules/{name}/fires",
        NAMES: f"/schedules/x{name}",
    }


def times(api: Api, path: str) -> list[float]:
    """Seconds of each request."""
    connection = api.served.connect(SLOWEST)
    try:
        timed(connection, path)  # connections, and what is imported at first use
        return [timed(connection, path) for _ in range(REQUESTS)]
    finally:
        connection.close()


def timed(connection: http.client.HTTPConnection, path: str) -> float:
    """Until the last byte of the answer."""
    began = perf_counter()
    connection.request("GET", API + path)
    response = connection.getresponse()
    response.read()
    assert response.status in (200, 404)
    return perf_counter() - began
