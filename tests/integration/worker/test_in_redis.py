"""The same worker with its coordinator in Redis, across forks and greenlets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_parrot.model.fire import Status
from tests.integration.worker.app import SILENT_AFTER, WATCHED
from tests.integration.worker.world import World, gpu, holders, status
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=["prefork", "gevent"])
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with PrivateRedis(tmp_path_factory.mktemp("redis")) as server:
        world = World(tmp_path_factory.mktemp("world-redis"), server, in_redis=True)
        try:
            world.worker(str(request.param), concurrency=3)
            yield world
        finally:
            world.close()


def test_once_and_recorded(shared: World) -> None:
    fire = shared.fire("note")
    assert fire.until(Status.SUCCESS).output == f"noted {fire.mark}"
    fire.send()
    shared.procs["worker-1"].wait_for_log(f"fire {fire.id} .*is a duplicate")
    assert fire.ran() == ["1"]


def test_retries(shared: World) -> None:
    fire = shared.fire("again")
    assert fire.until(Status.SUCCESS).attempt == 3


def test_outage_at_start_and_finish(shared: World) -> None:
    running = shared.fire("gated")
    running.until_ran()
    shared.network.cut()
    held = shared.fire("note")
    shared.procs["worker-1"].wait_for_log(f"fire {held.id} .*cannot be opened", 30)
    running.pass_gate()
    assert running.result().get(timeout=10) == "passed"
    shared.network.restore()
    assert running.until(Status.SUCCESS).output == "passed"
    assert held.until(Status.SUCCESS).attempt == 1
    assert (running.ran(), held.ran()) == (["1"], ["1"])


def test_memory_lost_while_it_runs(shared: World) -> None:
    """The worker tells what runs there, what that holds, and how long it may be silent: nobody else gets its limits."""
    fire = shared.fire("gated", kind=WATCHED, limits=gpu(shared))
    fire.until_ran()
    shared.redis.flush(2)
    shared.coordinator.attach()
    wait_until(lambda: status(fire) is Status.RUNNING, "the fire to be known again")
    claim = fire.claim()
    assert claim is not None
    assert (claim.silent_after, holders(shared)) == (SILENT_AFTER, [fire.key])
    second = shared.fire("note", limits=gpu(shared))
    assert status(second) is Status.WAITING
    fire.pass_gate()
    assert fire.until(Status.SUCCESS).attempt == 1
    assert (status(second), holders(shared)) == (Status.PENDING, [second.key])
