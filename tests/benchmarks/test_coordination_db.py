"""Coordination in PostgreSQL beside coordination in Redis, on one machine in one run: commits, starts and finishes.

Fires a second. ``batch`` is what a beat does whose tick finds 100 due schedules, ``single`` what a worker does: a call
for each start and each finish, and a commit of one. ``four`` is the same by four threads at once, whose calls wait for
each other on the row of the registered name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, cast

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.coordination.sql import SqlCoordinator
from celery_parrot.model.fire import FireKey, Namespace, Status
from celery_parrot.protocols import Coordinator, Hold, Outcome, Registration
from celery_parrot.protocols.runs import Lease
from celery_parrot.stores.sql import upgrade
from celery_parrot.testing.conformance import Backend, Scene
from tests.support.databases import own_postgresql

T = TypeVar("T")

NAME = Namespace("benchmark")
BATCH, BATCHES, SINGLES = 100, 5, 100


@pytest.fixture
def postgresql() -> Iterator[SqlCoordinator]:
    with own_postgresql() as url:
        upgrade(url)
        coordinator = SqlCoordinator(url, NAME)
        yield coordinator
        coordinator.close()


@pytest.mark.keeps_keys("the claims are what is measured")
def test_postgresql_beside_redis(postgresql: SqlCoordinator, redis_url: str, redis_client: Any) -> None:
    """Printed as a table: fires a second of each, and how many times Redis is faster."""
    redis = RedisCoordinator(redis_url, NAME)
    ours, theirs = _measure(postgresql), _measure(redis)
    redis.close()
    print()
    for what, rate in ours.items():
        print(f"{what:28} postgresql {rate:8.0f}/s   redis {theirs[what]:8.0f}/s   ratio {theirs[what] / rate:5.1f}")
    assert all(rate > 10 for rate in ours.values())


def _measure(coordinator: Coordinator) -> dict[str, float]:
    scene = Scene(coordinator, cast(Backend, None))
    ids = [f"s{n}" for n in range(BATCH)]
    coordinator.register([Registration(schedule_id=i, when="w", initial=scene.due(0)) for i in ids])

    def commit(n: int, names: list[str]) -> None:
        plans = [scene.plan(n, schedule_id=i, mark=n - 1) for i in names]
        assert all(reply.fires for reply in coordinator.commit(plans, "b1")[1])
        coordinator.confirm([Hold(FireKey(i, scene.due(n)), "b1") for i in names])

    def run(key: FireKey) -> None:
        token = f"t-{key.text}"
        n = round((key.due_at - scene.base).total_seconds() / 60)
        coordinator.start([scene.delivery(n, token, key.schedule_id)])
        coordinator.finish([Outcome(lease=Lease(key, token), status=Status.SUCCESS, output="1")])

    first = [FireKey(i, scene.due(1)) for i in ids[:SINGLES]]
    second = [FireKey(i, scene.due(2)) for i in ids[:SINGLES]]
    return {
        "commit+confirm, batch": _rate(BATCH * BATCHES, lambda: _each(lambda n: commit(n, ids), range(1, BATCHES + 1))),
        "start+finish, single": _rate(SINGLES, lambda: _each(run, first)),
        "start+finish, four": _rate(SINGLES, lambda: _by_four(run, second)),
        "commit+confirm, single": _rate(SINGLES, lambda: _each(lambda i: commit(BATCHES + 1, [i]), ids[:SINGLES])),
    }


def _each(work: Callable[[T], None], items: Iterable[T]) -> None:
    for item in items:
        work(item)


def _by_four(work: Callable[[FireKey], None], keys: list[FireKey]) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, keys))


def _rate(count: int, work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return count / (time.perf_counter() - begun)
