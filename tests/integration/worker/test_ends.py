"""Ends that only the main process of a worker sees. One prefork worker for all of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from celery_parrot.model.fire import Status
from tests.integration.worker.world import World
from tests.support.redis_server import PrivateRedis


@pytest.fixture(scope="module")
def prefork(tmp_path_factory: pytest.TempPathFactory, broker_server: PrivateRedis) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("world-ends"), broker_server)
    try:
        world.worker("prefork", concurrency=3)
        yield world
    finally:
        world.close()


def failures(world: World, schedule_id: str) -> int:
    return world.coordinator.run_states([schedule_id])[schedule_id].consecutive_failures


def test_soft_time_limit(prefork: World) -> None:
    record = prefork.fire("over_soft").until(Status.ERROR)
    assert record.error is not None
    assert record.error.startswith("SoftTimeLimitExceeded")


def test_hard_time_limit(prefork: World) -> None:
    fire = prefork.fire("over_hard")
    record = fire.until(Status.ERROR)
    assert record.reason == "time limit"
    assert record.error is not None
    assert record.error.startswith("TimeLimitExceeded")
    assert failures(prefork, fire.key.schedule_id) == 1


def test_worker_process_lost(prefork: World) -> None:
    fire = prefork.fire("die")
    record = fire.until(Status.ABANDONED)
    assert record.reason == "worker lost"
    assert record.error is not None
    assert record.error.startswith("WorkerLostError")
    assert failures(prefork, fire.key.schedule_id) == 1


def test_sys_exit_counts_as_lost(prefork: World) -> None:
    assert prefork.fire("leave").until(Status.ABANDONED).reason == "worker lost"


def test_requeued_after_loss_is_the_next_attempt(prefork: World) -> None:
    fire = prefork.fire("die_once")
    record = fire.until(Status.SUCCESS)
    assert fire.ran() == ["1", "2"]
    assert (record.output, record.attempt) == ("survived", 2)


def test_revoked_in_the_queue(prefork: World) -> None:
    first = prefork.fire("note")
    first.until(Status.SUCCESS)
    fire = prefork.fire("note", countdown=3)
    prefork.procs["worker-1"].wait_for_log(f"Task .*{fire.id}.* received")
    fire.result().revoke()
    record = fire.until(Status.ERROR)
    assert record.reason == "revoked"
    assert record.error == "TaskRevokedError: revoked"
    assert fire.ran() == []
    assert failures(prefork, fire.key.schedule_id) == 0


def test_revoked_while_it_runs(prefork: World) -> None:
    fire = prefork.fire("gated")
    fire.until_ran()
    fire.result().revoke(terminate=True)
    record = fire.until(Status.ERROR)
    assert record.reason == "revoked"
    assert failures(prefork, fire.key.schedule_id) == 0


def test_revoked_greenlet(world: World) -> None:
    world.worker("gevent")
    fire = world.fire("gated")
    fire.until_ran()
    fire.result().revoke(terminate=True)
    assert fire.until(Status.ERROR).reason == "revoked"


def test_hard_time_limit_of_a_greenlet(world: World) -> None:
    world.worker("gevent")
    fire = world.fire("over_hard")
    assert fire.until(Status.ERROR).reason == "time limit"


def test_cold_shutdown_says_what_it_cancels(world: World) -> None:
    worker = world.worker("prefork")
    fire, late = world.fire("gated"), world.fire("gated_late")
    fire.until_ran()
    late.until_ran()
    worker.send(signal.SIGQUIT)
    assert fire.until(Status.ERROR).reason == "cancelled"
    worker.wait(15)
    # Its message was not acknowledged: it comes again, and is the next attempt.
    world.worker("prefork", name="successor")
    late.until_ran(2)
    late.pass_gate()
    assert late.until(Status.SUCCESS).attempt == 2


def test_warm_shutdown_waits_and_records(world: World) -> None:
    worker = world.worker("prefork")
    fire = world.fire("gated")
    fire.until_ran()
    worker.send(signal.SIGTERM)
    worker.wait_for_log("Warm shutdown")
    fire.pass_gate()
    worker.wait(15)
    assert fire.record().status is Status.SUCCESS
