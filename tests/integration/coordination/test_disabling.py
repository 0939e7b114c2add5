"""Schedules of code that keep failing, with processes that end and begin."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.coordination.redis import PERMANENT_KEYS, RedisCoordinator
from celery_parrot.dispatch.deliveries import TASK
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.model.fire import Status
from celery_parrot.protocols import About, FinishVerdict, Lease, Outcome
from celery_parrot.protocols.holding import Release
from celery_parrot.stores.memory import CodeStore
from celery_parrot.stores.memory.definition import Definition
from celery_parrot.testing import FakeClock, ManualBeat
from celery_parrot.testing.conformance import TIMING
from celery_parrot.testing.conformance.schedule_store import make
from celery_parrot.testing.conformance.telling import TellingScene
from celery_parrot.triggers.registry import build
from tests.integration.coordination.helpers import NAME, NoBackend, connect


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return PERMANENT_KEYS


@pytest.fixture
def scene(redis_url: str) -> Iterator[TellingScene]:
    coordinator = connect(redis_url)
    yield TellingScene(coordinator, NoBackend())
    coordinator.close()


@pytest.mark.parametrize("already", [0, 2], ids=["four of three", "third to sixth"])
def test_workers_that_fail_at_the_same_moment(scene: TellingScene, redis_url: str, already: int) -> None:
    """Four processes, one fire each, let go at once: all count, one of them disables, one alert."""
    scene.started(*range(1, 5 + already))
    for n in range(1, 1 + already):
        scene.finish(n, f"t{n}", Status.ERROR, error="E: e")
    go, ready = os.pipe(), os.pipe()
    children = [_fails(scene, redis_url, n, go, ready) for n in range(1 + already, 5 + already)]
    os.close(go[0])
    assert sum(len(os.read(ready[0], 1)) for _ in children) == 4
    os.close(go[1])
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4
    os.close(ready[0])
    os.close(ready[1])
    state = scene.state()
    assert (scene.held().by, state.consecutive_failures) == ("failures", 4 + already)
    (alert,) = scene.alerts()
    assert (alert.failures, alert.failing_since) == (3, state.failing_since)
    assert (scene.held().note or "").startswith("3 failures in a row since ")
    assert sorted(one.failures for one in scene.queue() if one.about is About.FAILURE) == [*range(1, 5 + already)]


def _fails(scene: TellingScene, url: str, n: int, go: tuple[int, int], ready: tuple[int, int]) -> int:
    """A process that is ready to, and does when the pipe is closed."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.close(go[1])
        coordinator = connect(url)
        coordinator.attach()
        os.write(ready[1], b"r")
        os.read(go[0], 1)
        lease = Lease(scene.key(n), f"t{n}")
        (reply,) = coordinator.finish([Outcome(lease=lease, status=Status.ERROR, error="E: e")])
        code = 0 if reply.verdict is FinishVerdict.RECORDED else 2
    finally:
        os._exit(code)


def test_a_bound_that_was_lowered(scene: TellingScene, redis_client: Any) -> None:
    """Who is beyond it is disabled by the next failure that counts, not by one that does not."""
    scene.failed(1)
    redis_client.hset("parrot:scheduler:main:state:a", "consecutive_failures", 5)
    scene.ended(2, Status.ERROR, reason="revoked", counted=False)
    assert (scene.held().by, scene.alerts()) == (None, [])
    scene.failed(3)
    assert (scene.held().by, [one.failures for one in scene.alerts()]) == ("failures", [6])


def test_no_bound_disables_nothing(redis_url: str) -> None:
    coordinator = RedisCoordinator(redis_url, NAME, replace(TIMING, max_failures=0))
    scene = TellingScene(coordinator, NoBackend())
    scene.failed(1, 2, 3, 4)
    assert (scene.held().by, scene.state().consecutive_failures, scene.alerts()) == (None, 4, [])
    coordinator.close()


class Restarting:
    """Beats of one schedule of code, due every two seconds, one after the other."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.clock = FakeClock()
        self.coordinator = self._connect()
        self.beat = self._beat()
        self.told: list[str] = []  # the delivery tasks that all of them sent, by the ids of their parcels

    def _connect(self) -> RedisCoordinator:
        return RedisCoordinator(self._url, NAME, TIMING, clock_offset=self.clock.monotonic())

    def _beat(self) -> ManualBeat:
        config = {"seconds": 2}
        schedule = make("a", schedule_id="a", store="code", schedule_config=config)
        store = CodeStore([Definition(schedule=schedule, trigger=build("interval", config), when="w")])
        return ManualBeat(self.coordinator, [store], clock=self.clock, namespace=NAME)

    def restart(self) -> None:
        self.beat.close()
        self.coordinator.close()
        self.coordinator = self._connect()
        self.beat = self._beat()

    def run(self, seconds: float) -> int:
        """How many fires were sent meanwhile."""
        before = len(self.beat.sent)
        for _ in range(round(seconds * 2)):
            self.beat.tick()
            self.clock.advance(0.5)
            self.coordinator.clock_offset += 0.5
        sent = self.beat.sent[before:]
        self.told += [message.kwargs["parcel"]["id"] for message in sent if message.task == TASK]
        return sum(HEADER in message.headers for message in sent)

    def fail(self) -> None:
        """Every fire that was sent and has no outcome."""
        running = [one for one in self.coordinator.fires("a") if one.status is Status.SENT]
        lost = [Outcome(lease=Lease(one.key, ""), status=Status.ERROR, error="E: e") for one in running]
        assert self.coordinator.finish(lost)


def test_it_stays_disabled_over_restarts_of_beats(redis_url: str) -> None:
    """Also of all of them at once, for as long as nobody resumes it."""
    world = Restarting(redis_url)
    assert world.run(8) >= 3
    world.fail()
    assert world.run(10) == 0
    for _ in range(2):
        world.restart()
        assert world.run(10) == 0
        held = world.coordinator.holds(["a"])["a"]
        assert (held.by, world.coordinator.run_states(["a"])["a"].disabled_by) == ("failures", "failures")
    assert [id_.partition(":")[2] for id_ in world.told] == ["alert"]
    mark = held.mark
    release = Release(
        schedule_id="a", name="a", kind="task", expected_mark=mark, new_mark=world.coordinator.attach().now
    )
    assert world.coordinator.release([release])[0] == "committed"
    assert world.run(10) >= 4
    world.beat.close()
    world.coordinator.close()
