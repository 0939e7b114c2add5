"""Fires that hold limits in real workers: what becomes of the limits, and of those that wait, however a fire ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator

import pytest

from celery_parrot.model.fire import Status
from tests.integration.worker.world import World, falls_silent, gpu, hands_over, holders, reaped, status
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import stays, wait_until


@pytest.fixture(scope="module")
def holding(tmp_path_factory: pytest.TempPathFactory, broker_server: PrivateRedis) -> Iterator[World]:
    """One worker; the coordinator is in Redis."""
    world = World(tmp_path_factory.mktemp("limits"), broker_server, in_redis=True)
    try:
        world.worker("prefork", concurrency=2)
        yield world
    finally:
        world.close()


# --- ends hand over ---


@pytest.mark.parametrize(
    ("task", "ends", "reason"),
    [
        ("note", Status.SUCCESS, ""),
        ("over_hard", Status.ERROR, "time limit"),
        ("die", Status.ABANDONED, "worker lost"),
    ],
)
def test_every_end_names_the_next_at_once(holding: World, task: str, ends: Status, reason: str) -> None:
    """Also of a process that cannot say anything any more."""
    hands_over(holding, task, ends, reason)


def test_a_retry_keeps_its_limits_and_gets_a_deadline_of_its_own(holding: World) -> None:
    """It comes back after its first deadline, and runs."""
    first = holding.fire("again_later", 2.0, limits=gpu(holding), deadline=1.5)
    first.until_ran()
    second = holding.fire("note", limits=gpu(holding))
    record = first.until(timeout=20)
    assert (record.status, record.output, record.attempt) == (Status.SUCCESS, "second time", 2)
    assert first.ran() == ["1", "2"]
    second.go()
    second.until(Status.SUCCESS)


def test_progress_keeps_it_and_silence_ends_it(holding: World) -> None:
    falls_silent(holding)


# --- workers that die, sleep or stop ---


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(in_redis=True)


def test_a_message_in_the_hands_of_a_dead_worker_is_sent_again(world: World) -> None:
    victim = world.worker("prefork", name="victim", concurrency=1)
    busy = world.fire("gated")
    busy.until_ran()
    fire = world.fire("note", limits=gpu(world))
    victim.wait_for_log(f"Task .*{fire.id}.* received")
    stays(lambda: not [one for one in world.coordinator.reap() if one.fire.key == fire.key], "kept", 1.3 * world.lease)
    victim.kill_group()
    assert reaped(world, fire).again
    claim = fire.claim()
    assert claim is not None
    assert (claim.status, claim.attempt) == (Status.PENDING, 2)
    assert holders(world) == [fire.key], "its limits are its own all the time"


def test_a_worker_that_shuts_down_keeps_nothing_that_it_has_not_begun(world: World) -> None:
    """It waits for what runs, however long that takes; a message that it gave back is the broker's."""
    leaver = world.worker("prefork", name="leaver", concurrency=1)
    busy = world.fire("gated")
    busy.until_ran()
    fire = world.fire("note", limits=gpu(world))
    leaver.wait_for_log(f"Task .*{fire.id}.* received")
    stays(lambda: status(fire) is Status.SENT, "sent", 0.5 * world.lease)  # it is noted a moment after it came
    leaver.send(signal.SIGTERM)
    assert reaped(world, fire).again
    busy.pass_gate()
    leaver.wait(15)
    assert busy.record().status is Status.SUCCESS


def test_the_late_twin_of_a_reaped_fire_frees_nothing(world: World) -> None:
    """A worker that slept through its lease: its successor holds the limit and runs; what the sleeper says when it
    wakes is a note."""
    sleeper = world.worker("threads", name="sleeper", concurrency=1)
    first = world.fire("gated", limits=gpu(world))
    first.until_ran()
    second = world.fire("gated", limits=gpu(world))
    sleeper.pause()
    found = reaped(world, first)
    assert (found.fire.reason, found.named) == ("worker lost", (second.key,))
    world.worker("prefork", name="heir", concurrency=1)
    second.go()
    second.until_ran()
    third = world.fire("note", limits=gpu(world))
    sleeper.resume()
    first.pass_gate()
    late = wait_until(lambda: first.record().late_result, "the late result")
    assert late == "success: passed"
    assert first.record().status is Status.ABANDONED
    assert (holders(world), status(third)) == ([second.key], Status.WAITING)
    second.pass_gate()
    assert second.until(Status.SUCCESS).attempt == 1
    assert status(third) is Status.PENDING
