"""A beat whose loop stands still: everybody can tell, it claims nothing, and the others act for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import celery.beat
import pytest
from celery import Celery

from celery_parrot.client import health
from celery_parrot.clock import SystemClock
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Namespace
from tests.integration.beat.conftest import Mailbox
from tests.support.procs import Proc, Procs
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.e2e.apps.stalling"
ANSWERS = hasattr(celery.beat, "BeatPidbox")  # Celery 5.7: beat answers a ping


class Site:
    """Two beats; the first reaches Redis by a network that can be cut, and can be made to hang."""

    def __init__(self, redis: PrivateRedis, network: TcpProxy, procs: Procs, folder: Path) -> None:
        self.redis, self.network, self.procs = redis, network, procs
        self.hang = folder / "hang"
        self.first = self._beat(network.url("redis://{host}:{port}/0"), self.hang)
        self.second = self._beat(redis.url(), folder / "never")
        self.coordinator = RedisCoordinator(redis.url(), Namespace("scheduler_manager"))

    def _beat(self, url: str, hang: Path) -> Proc:
        return self.procs.beat(APP, env=self.environment(url, hang))

    def environment(self, url: str, hang: Path) -> dict[str, str]:
        settings = json.dumps({"parrot_redis_url": url})
        return {"TEST_BROKER": self.redis.url(1), "TEST_SETTINGS": settings, "TEST_HANG": str(hang)}

    def silent(self) -> set[int]:
        """The processes that ``beats`` shows as silent."""
        found, _ = health.beats(self.coordinator, SystemClock())
        return {beat.pid for beat in found if beat.state == "silent"}

    def until_silent(self, *beats: Proc) -> None:
        wanted = {beat.pid for beat in beats}
        wait_until(lambda: self.silent() == wanted, f"{beats} to be silent, and no other", 15)

    def pings(self) -> int:
        """How many beats answer Celery's own ping."""
        with Celery(broker=self.redis.url(1), set_as_current=False) as app:
            return len(app.control.ping(timeout=1.0) or ())


@pytest.fixture
def site(
    private_redis: PrivateRedis, make_proxy: Callable[..., TcpProxy], procs: Procs, tmp_path: Path
) -> Iterator[Site]:
    made = Site(private_redis, make_proxy("127.0.0.1", private_redis.port), procs, tmp_path)
    with closing(made.coordinator):
        for beat in (made.first, made.second):
            beat.wait_for_log(r"beat ready: ")
        yield made
        made.hang.unlink(missing_ok=True)


@pytest.mark.timeout(120)
def test_a_loop_that_stands_still(site: Site) -> None:
    """In code of the user's, in a coordinator that hangs, by SIGSTOP: it is silent to the others, which go on. No due
    time is sent twice, and afterwards it takes part again."""
    site.until_silent()
    if ANSWERS:
        wait_until(lambda: site.pings() == 2, "both beats to answer a ping", 15)

    site.hang.touch()
    site.first.wait_for_log(
        r"CRITICAL.*loop has stood still for \d+ s and claims nothing.* hang \(.*stalling\.py:\d+\)"
    )
    site.until_silent(site.first)
    if ANSWERS:
        wait_until(lambda: site.pings() == 1, "only the other to answer", 15)
    site.hang.unlink()
    site.first.wait_for_log(r"this beat's loop goes on, after \d+ s")
    site.until_silent()

    site.network.stall()
    site.first.wait_for_log(r"lock_unavailable")
    site.until_silent(site.first)
    site.network.restore()
    site.until_silent()

    site.first.pause()
    site.until_silent(site.first)
    site.second.pause()
    site.until_silent(site.first, site.second)
    env = site.environment(site.redis.url(), site.hang)
    asked = site.procs.celery("health", APP, "parrot", "health", "--timeout", "5", env=env)
    assert asked.wait(30) == 1
    assert "not healthy: no beat of scheduler_manager is alive (2 went silent)" in asked.text()
    site.first.resume()
    site.second.resume()
    site.until_silent()

    with closing(Mailbox(site.redis.url(1))) as mail:
        wait_until(lambda: mail.take("steady"), "a message", 5)
        due = [datetime.fromisoformat(one.headers["parrot"]["due_at"]) for one in mail.drain("steady")]
    assert len(due) > 5
    assert len(due) == len(set(due)), "none twice"
    gaps = {later - earlier for earlier, later in zip(sorted(due), sorted(due)[1:], strict=False)}
    assert max(gaps) < timedelta(seconds=8), "while one of them ran, every second; while none did, the latest only"
