"""Redis schedules that keep failing: disabled in the step of the failure that is one too many, with one alert."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import Verdict
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import plan
from celery_parrot.protocols import About, Delivery, FinishVerdict, Lease, Outcome, Parcel, StartVerdict
from celery_parrot.protocols.editing import Change, State, Written
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreScene
from tests.integration.stores_redis.server import StoreServer


@pytest.fixture
def coordinator(server: StoreServer) -> RedisCoordinator:
    return server.coordinator()


def started(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator, count: int) -> list[FireKey]:
    """The next due times of each schedule, so many, all running."""
    keys = []
    for _ in range(count):
        server.advance(EVERY)
        made = [plan(due.schedule, due.trigger, due.mark, scene.backend.now(), on_time=10) for due in scene.due()]
        replies = coordinator.commit([one for one in made if one is not None], "b1")[1]
        keys += [FireKey(reply.schedule_id, fire.due_at) for reply in replies for fire in reply.fires]
    for key in keys:
        delivery = Delivery(key=key, name="a", kind="task", token="t", worker="w")
        assert coordinator.start([delivery])[0].verdict is StartVerdict.RUN
    return keys


def fail(coordinator: RedisCoordinator, keys: Sequence[FireKey], error: str = "E: e") -> None:
    outcomes = [Outcome(lease=Lease(key, "t"), status=Status.ERROR, error=error) for key in keys]
    assert {reply.verdict for reply in coordinator.finish(outcomes)} == {FinishVerdict.RECORDED}


def alerts(coordinator: RedisCoordinator) -> list[Parcel]:
    return [one for one in coordinator.parcels("b1", 100) if one.about is About.ALERT]


def run_times(server: StoreServer) -> list[str]:
    found: list[str] = server.redis.zrange(server.key("run_times:task"), 0, -1)
    return found


def test_the_third_failure_takes_it_out_of_what_may_come(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """As a pause does; it is seen to be disabled, and why, by every process."""
    a, b = scene.add("a", "b")
    keys = [key for key in started(scene, server, coordinator, 3) if key.schedule_id == a.schedule_id]
    fail(coordinator, keys[:2])
    assert scene.get("a").state is State.ACTIVE
    fail(coordinator, keys[2:], "ValueError: ü")
    found = scene.get("a")
    assert (found.state, found.held) == (State.DISABLED, "failures")
    assert (found.note or "").startswith("3 failures in a row since ")
    assert (found.note or "").endswith(", last: ValueError: ü")
    assert (found.run_state.consecutive_failures, found.run_state.disabled_by) == (3, "failures")
    assert run_times(server) == [b.schedule_id]
    assert [one.name for one in scene.s.find(state=State.DISABLED).items] == ["a"]
    server.advance(2 * EVERY)
    assert scene.names() == scene.names(store=server.store()) == ["b"]
    assert [alert.key for alert in alerts(coordinator)] == [keys[2]]


def test_what_was_planned_before_does_not_fire(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    scene.add("a")
    keys = started(scene, server, coordinator, 3)
    server.advance(EVERY)
    (due,) = scene.due()
    planned = plan(due.schedule, due.trigger, due.mark, scene.backend.now(), on_time=10)
    assert planned is not None
    fail(coordinator, keys)
    (reply,) = coordinator.commit([planned], "b1")[1]
    assert (reply.verdict, reply.held) == (Verdict.HELD, "failures")
    assert run_times(server) == []


def test_resume(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    """Goes on from now, counts from none, and another row of failures is another alert."""
    (made,) = scene.add("a")
    fail(coordinator, started(scene, server, coordinator, 3))
    server.advance(2 * EVERY)
    assert list(scene.s.release([made.schedule_id])) == [Written.DONE]
    found = scene.get("a")
    assert (found.state, found.note, found.run_state.consecutive_failures) == (State.ACTIVE, None, 0)
    assert found.run_state.failing_since is None
    assert run_times(server) == [made.schedule_id]
    keys = started(scene, server, coordinator, 3)
    fail(coordinator, keys[:2])
    assert scene.get("a").state is State.ACTIVE
    fail(coordinator, keys[2:])
    assert len(alerts(coordinator)) == 2


def test_an_edit_leaves_it_disabled(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    """Only a resume says that it may go on."""
    (made,) = scene.add("a")
    fail(coordinator, started(scene, server, coordinator, 3))
    ((written, _),) = scene.other.replace([Change(schedule=replace(made, prompt="new"))])
    assert written is Written.DONE
    assert (scene.get("a").state, run_times(server)) == (State.DISABLED, [])
    server.advance(2 * EVERY)
    assert scene.names() == []


def test_a_pause_of_a_person(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    """Stays a person's, and nobody is alerted; a person may also pause what is disabled."""
    a, b = scene.add("a", "b")
    keys = started(scene, server, coordinator, 3)
    scene.other.hold([a.schedule_id], "person", "mine")
    fail(coordinator, keys)
    assert (scene.get("a").state, scene.get("a").note) == (State.PAUSED, "mine")
    assert [alert.schedule_id for alert in alerts(coordinator)] == [b.schedule_id]
    scene.other.hold([b.schedule_id], "person", "known")
    assert (scene.get("b").state, scene.get("b").note) == (State.PAUSED, "known")


def test_one_that_was_deleted_meanwhile(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    """Leaves nothing behind, and alerts nobody."""
    (made,) = scene.add("a")
    keys = started(scene, server, coordinator, 3)
    scene.other.delete([made.schedule_id])
    fail(coordinator, keys)
    assert alerts(coordinator) == []
    assert not server.redis.exists(server.key(f"state:{made.schedule_id}"))


@pytest.mark.keeps_keys("rubbish has no TTL")
def test_where_the_times_of_its_kind_cannot_be_read(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """It is disabled all the same: every commit asks."""
    scene.add("a")
    keys = started(scene, server, coordinator, 3)
    server.redis.set(server.key("run_times:task"), "x")
    fail(coordinator, keys)
    assert (scene.get("a").state, len(alerts(coordinator))) == (State.DISABLED, 1)


@pytest.mark.parametrize("seed", range(3))
def test_resume_and_failures_at_the_same_moment(scene: StoreScene, server: StoreServer, seed: int) -> None:
    """Whoever is first: it ends disabled and out of what may come, or active and in it; one alert a row of failures."""
    schedules: Sequence[Schedule] = scene.add(*(f"s{n}" for n in range(6)))
    coordinator = server.coordinator()
    keys = started(scene, server, coordinator, 7)
    by_id = {one.schedule_id: [key for key in keys if key.schedule_id == one.schedule_id] for one in schedules}
    for some in by_id.values():
        fail(coordinator, some[:3])
    gate = threading.Barrier(5)

    def fails(n: int, own: RedisCoordinator) -> None:
        gate.wait(10)
        for some in list(by_id.values())[:: 1 if n % 2 else -1]:
            fail(own, some[3 + n : 4 + n])

    def resumes(own: Any) -> None:
        gate.wait(10)
        for schedule in (*schedules[seed:], *schedules[:seed]):
            own.release([schedule.schedule_id])

    threads = [threading.Thread(target=fails, args=(n, server.coordinator())) for n in range(4)]
    threads.append(threading.Thread(target=resumes, args=(server.store(),)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    told = [alert.schedule_id for alert in alerts(coordinator)]
    for schedule in schedules:
        found = scene.get(schedule.name)
        disabled = found.state is State.DISABLED
        assert disabled == (found.run_state.consecutive_failures >= 3)
        assert (schedule.schedule_id in run_times(server)) != disabled
        assert told.count(schedule.schedule_id) == 1 + disabled
