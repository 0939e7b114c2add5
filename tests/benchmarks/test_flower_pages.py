"""100,000 schedules in a real browser: each page has its first data within 300 ms.

From the request for the page to the last byte of what its module asks the API for at first, as the browser measured it:
shell, style sheets, modules and their execution included. The browser has seen the page once, as people have. What a
search takes is measured by ``test_flower.py``.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Final

import psycopg
import pytest
from playwright.sync_api import Browser, Page

from tests.benchmarks.test_stores import APP, environment, fill_redis, filled, show
from tests.e2e.flower.browser import open_browser
from tests.e2e.flower.pages import settled
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import wait_until

__all__ = ["filled", "show"]  # fixtures

LOADS: Final = 7
MOST_MS: Final = 300.0
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test"),
]

#: When the last answer with data was there, null before the first. Whether and how live news come is asked after that.
_LAST_ANSWER: Final = """() => {
    const asked = performance.getEntriesByType('resource').filter((one) => one.name.includes('/parrot/api/'));
    const data = asked.filter((one) => !/\\/(events|fires\\?limit=1)$/.test(one.name));
    return data.length ? Math.max(...data.map((one) => one.responseEnd)) : null;
}"""


@pytest.fixture
def browser() -> Iterator[Browser]:
    yield from open_browser()


def measure(
    browser: Browser, procs: Procs, env: Mapping[str, str], name: str, where: str, show: Callable[[str], None]
) -> None:
    """Show the median and the quickest of some loads of each page; the quickest is held to the limit, so that a busy
    neighbour does not decide."""
    url = f"http://127.0.0.1:{free_port()}"
    flower = procs.celery("flower", APP, "parrot", "flower", f"--port={url.rpartition(':')[2]}", env=env)
    wait_until(lambda: urllib.request.urlopen(f"{url}/parrot/api/kinds").read(), "Flower", 30, explain=flower.tail)
    page = browser.new_page()
    slow: list[str] = []
    # The timeline last: from then on it is counted beside the rest.
    paths = ("schedules", f"schedules/{name}", "fires", "groups", "beats", "timeline")
    for path in paths:
        took = [_load(page, f"{url}/parrot/{path}") for _ in range(LOADS + 1)][1:]
        line = f"{where}: {path:<24} median {median(took):6.1f} ms, quickest {min(took):6.1f} ms"
        show(line)
        if min(took) > MOST_MS:
            slow.append(line)
    assert not slow, slow


def _load(page: Page, url: str) -> float:
    page.goto(url)
    if not url.endswith("timeline"):  # which is filled when all is counted
        settled(page)
    took: float = wait_until(lambda: page.evaluate(_LAST_ANSWER), "an answer of the API")
    return took


def test_postgresql(
    browser: Browser,
    filled: psycopg.Connection[object],
    postgresql_url: str,
    private_redis: PrivateRedis,
    procs: Procs,
    show: Callable[[str], None],
) -> None:
    env = environment(private_redis, parrot_database_url=postgresql_url)
    measure(browser, procs, env, "s54321", "PostgreSQL", show)


def test_redis(browser: Browser, private_redis: PrivateRedis, procs: Procs, show: Callable[[str], None]) -> None:
    fill_redis(private_redis)
    measure(browser, procs, environment(private_redis), "s054321", "Redis", show)
