"""Rubbish in the keys of limits: told with its key, never over capacity, and the line goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import SLOTS, Grant, Lease, Limit, LimitRequest, StartVerdict
from celery_parrot.testing.conformance import Scene
from tests.integration.coordination.helpers import connect, scene_of
from tests.integration.coordination.test_corrupt_keys import key, wrong_type

pytestmark = pytest.mark.keeps_keys("rubbish has no TTL, and nothing deletes it")

GPU, DISK, SLOT = Limit("group:gpu"), Limit("group:disk"), Limit(SLOTS, 9)
GRANTED, WAITING, LOST = Grant.GRANTED, Grant.WAITING, Grant.LOST


@pytest.fixture
def scene(redis_url: str) -> Iterator[Scene]:
    coordinator = connect(redis_url)
    scene = scene_of(coordinator)
    scene.register()
    scene.commit(*range(1, 10))
    yield scene
    coordinator.close()


@pytest.fixture
def faults(scene: Scene) -> list[str]:
    found: list[str] = []
    coordinator: Any = scene.c
    coordinator.report_to(lambda sentence, fields: found.append(sentence))
    return found


def ask(scene: Scene, n: int, *limits: Limit) -> Grant:
    c: Any = scene.c
    grant: Grant = c.request([LimitRequest(hold=scene.hold(n), limits=limits)])[0].grant
    return grant


def run(scene: Scene, n: int) -> None:
    assert scene.start(n, f"t{n}").verdict is StartVerdict.RUN


def line(scene: Scene) -> list[int]:
    due = [waiting.fire.key.due_at for waiting in scene.sweep().line]
    return [n for n in range(1, 10) if scene.due(n) in due]


def test_holders_of_another_type(scene: Scene, faults: list[str], redis_client: Any) -> None:
    """What needs this limit waits or asks again, all else goes on; moved aside, who runs says again what it holds."""
    assert ask(scene, 1, GPU) is GRANTED
    run(scene, 1)
    assert ask(scene, 2, GPU) is WAITING
    wrong_type("limits:holders:group:gpu")(redis_client)
    assert ask(scene, 3, GPU) is LOST
    assert ask(scene, 4, DISK) is GRANTED
    scene.c.reap()
    assert scene.status(2) is Status.WAITING
    assert any("limits:holders:group:gpu" in said and "RENAME" in said for said in faults)
    redis_client.rename(key("limits:holders:group:gpu"), key("aside"))
    assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [True]
    assert ask(scene, 3, GPU) is WAITING
    assert scene.finish(1, "t1").named == (scene.key(2),)


def test_an_outcome_is_recorded_whatever_its_limits_are(scene: Scene, faults: list[str], redis_client: Any) -> None:
    ask(scene, 1, GPU, SLOT)
    run(scene, 1)
    for name in ("holders:group:gpu", "waiting:group:gpu", "ready", "line", "names", "capacities", "state"):
        wrong_type(f"limits:{name}")(redis_client)
    assert scene.finish(1, "t1").verdict == "recorded"
    assert scene.record(1).status is Status.SUCCESS
    assert faults


@pytest.mark.parametrize("name", ["waiting:group:gpu", "line", "ready", "until", "reserved", "names", "state", "sent"])
def test_a_key_of_another_type_stops_the_line_until_it_is_out_of_the_way(
    scene: Scene, faults: list[str], redis_client: Any, name: str
) -> None:
    """Then the reaper has made good what it can see in the claims and in the line."""
    assert [ask(scene, n, GPU, SLOT) for n in (1, 2, 3)] == [GRANTED, WAITING, WAITING]
    run(scene, 1)
    wrong_type(f"limits:{name}")(redis_client)
    assert ask(scene, 4, DISK) in (GRANTED, LOST)
    scene.sweep()
    scene.c.reap()
    redis_client.rename(key(f"limits:{name}"), key("aside"))
    scene.c.reap()
    scene.finish(1, "t1")
    scene.c.reap()
    assert [scene.status(n) for n in (2, 3)] == [Status.PENDING, Status.WAITING]
    run(scene, 2)
    scene.finish(2, "t2")
    scene.c.reap()
    assert scene.status(3) is Status.PENDING


@pytest.mark.parametrize("raw", ["rubbish", "{}", "null", "\xff"])
def test_a_waiting_claim_that_cannot_be_read_is_passed_over(
    scene: Scene, faults: list[str], redis_client: Any, raw: str
) -> None:
    """Mended, it stands in the line again."""
    assert [ask(scene, n, GPU) for n in (1, 2, 3, 4)] == [GRANTED, WAITING, WAITING, WAITING]
    run(scene, 1)
    claim = key(f"fire:{scene.key(2).text}")
    before = redis_client.get(claim)
    redis_client.set(claim, raw)
    assert scene.finish(1, "t1").named == (scene.key(3),)
    assert any(claim in said for said in faults)
    assert redis_client.get(claim) == raw
    redis_client.set(claim, before)
    scene.c.reap()
    assert line(scene) == [2, 4]
    run(scene, 3)
    assert scene.finish(3, "t3").named == (scene.key(2),)


def test_a_waiting_claim_that_is_gone_asks_again(scene: Scene, redis_client: Any) -> None:
    """From its history it is back in the outbox."""
    assert [ask(scene, n, GPU) for n in (1, 2, 3)] == [GRANTED, WAITING, WAITING]
    redis_client.delete(key(f"fire:{scene.key(2).text}"))
    scene.c.reap()
    assert [scene.status(n) for n in (1, 2, 3)] == [Status.PENDING, Status.PENDING, Status.WAITING]
    assert line(scene) == [3]
    assert ask(scene, 2, GPU) is WAITING


def test_a_holder_whose_claim_is_gone_holds_no_more(scene: Scene, redis_client: Any) -> None:
    assert [ask(scene, n, GPU) for n in (1, 2)] == [GRANTED, WAITING]
    redis_client.delete(key(f"fire:{scene.key(1).text}"), key("fires:a"))
    redis_client.zrem(key("pending"), scene.key(1).text)
    scene.c.reap()
    assert scene.status(2) is Status.PENDING


def test_a_holder_that_cannot_be_read_holds_on(scene: Scene, faults: list[str], redis_client: Any) -> None:
    assert [ask(scene, n, GPU) for n in (1, 2)] == [GRANTED, WAITING]
    redis_client.set(key(f"fire:{scene.key(1).text}"), "rubbish")
    scene.c.reap()
    assert scene.status(2) is Status.WAITING
    assert faults


def test_members_that_name_no_fire(scene: Scene, redis_client: Any) -> None:
    ask(scene, 1, GPU)
    for name in ("line", "ready", "until", "reserved", "sent", "waiting:group:gpu", "holders:group:disk", "names"):
        redis_client.zadd(key(f"limits:{name}"), {"garbage \xff": 0, "": 0})
    assert ask(scene, 2, GPU, SLOT) is WAITING
    scene.sweep()
    scene.c.reap()
    run(scene, 1)
    assert scene.finish(1, "t1").named == (scene.key(2),)
    c: Any = scene.c
    c.limits()
    assert scene.sweep().line == ()
