"""Run-now with real processes: who asks, beats, workers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from celery_parrot import AlreadyRunning
from tests.integration.demands.conftest import World
from tests.support.waiting import wait_until


def _crowd(world: World, name: str = "job") -> list[tuple[str, str]]:
    """What four processes with five threads each are answered, all asking at once."""
    askers = [world.asker(name, "5") for _ in range(4)]
    for each in askers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in askers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    return [(what, fire) for each in askers for what, fire in json.loads(each.communicate(timeout=90)[0])]


def test_a_crowd_asks(world: World) -> None:
    """Twenty at once: one runs, nineteen are told its id. The guard is free after a success, a failure, and the death
    of the worker, when the reaper has found it."""
    world.create()
    world.state.set("do", "hold")
    world.beat()
    worker = world.worker()
    answers = _crowd(world)
    assert Counter(what for what, _ in answers) == {"asked": 1, "refused": 19}
    (first,) = {fire for _, fire in answers}
    world.wait_ran(1)
    with pytest.raises(AlreadyRunning):
        world.schedules.run_now("job")
    world.state.set("go", "1")
    assert world.ended(first).status == "success"

    world.state.set("do", "fail")
    second = world.schedules.run_now("job").fire_id
    assert world.ended(second).status == "error"

    world.state.delete("go")
    third = world.schedules.run_now("job", kwargs={"what": "hold"}).fire_id
    world.wait_ran(3)
    worker.kill_group()
    assert world.ended(third).reason == "worker lost"
    world.state.delete("do")
    last = world.schedules.run_now("job").fire_id
    world.worker()
    assert world.ended(last).status == "success"
    assert [run["fire"] for run in world.ran()] == [first, second, third, last]
    counted = wait_until(lambda: world.schedules.get("job").run_state.run_count >= 4, "four fires to be counted")
    assert counted
    state = world.schedules.get("job").run_state
    assert (state.run_count, state.auto_count) == (4, 0)


def test_who_asks_may_die_and_a_task_may_outlive_its_guard(world: World) -> None:
    """Trace 27: nobody beats, and the asker is gone as soon as it has asked. Guard and outbox entry are one step: the
    fire runs when a beat comes, and frees the guard. Trace 28: that is renewed with the run lease."""
    guard = 2
    world.settings["parrot_run_now_lock_ttl"] = world.parrot.app.conf.parrot_run_now_lock_ttl = guard
    world.create()
    asker = world.asker("job", "die")
    first = asker.communicate(timeout=90)[0].strip()
    assert asker.returncode == 9
    with pytest.raises(AlreadyRunning) as told:
        world.schedules.run_now("job")
    assert told.value.held_by == first
    assert world.schedules.run_now("job", key="last words").fire_id == first
    world.worker()
    world.beat()
    assert world.ended(first).status == "success"

    second = world.schedules.run_now("job", kwargs={"what": "hold"}).fire_id
    world.wait_ran(2)
    wait_until(lambda: (found := world.record(second)) and found.started_at, "it to be told")
    started = getattr(world.record(second), "started_at", None)
    assert started is not None
    coordination = world.schedules._coordination
    wait_until(lambda: (coordination.now() - started).total_seconds() > 1.5 * guard, "its first guard to be over")
    with pytest.raises(AlreadyRunning):
        world.schedules.run_now("job")
    world.state.set("go", "1")
    assert world.ended(second).status == "success"
    assert world.schedules.run_now("job").fire_id != second
