"""The verbs that show who holds what, and what is wrong."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.protocols import Limit, LimitRequest
from celery_parrot.runtime.survey import Worker
from celery_parrot.testing.conformance.scene import Backend, Scene
from tests.integration.cli.conftest import Shop
from tests.support.services import free_port

PREFIX = "parrot:scheduler:scheduler_manager:"


class NoBackend:
    """Nothing here moves the server's clock."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


@pytest.fixture
def scene(shop: Shop) -> Scene:
    coordinator = RedisCoordinator(shop.app.conf.broker_url, Namespace("scheduler_manager"))
    backend: Backend = NoBackend()
    scene = Scene(coordinator, backend)
    scene.register("a")
    scene.commit(1, 2, 3)
    return scene


def ask(scene: Scene, n: int) -> None:
    assert isinstance(scene.c, RedisCoordinator)
    scene.c.request([LimitRequest(hold=scene.hold(n), limits=(Limit("group:gpu"),))])


def test_groups_and_the_line_behind_them(shop: Shop, scene: Scene) -> None:
    """Who holds it, running or queued; who waits, in order. A person ends the holder, and the next one holds it."""
    assert shop.says("groups") == "Nobody holds or waits for anything.\n"
    for n in (1, 2, 3):
        ask(scene, n)
    scene.confirm(scene.hold(1))
    lines = shop.says("groups").splitlines()
    assert lines[0].split("  ")[0] == "group"
    assert [re.split(r"  +", line)[:3] for line in lines[1:]] == [
        ["gpu", "1/1", "holds, queued"],
        ["gpu", "waits, no. 1", "a"],
        ["gpu", "waits, no. 2", "a"],
    ]
    scene.start(1)
    (group,) = shop.json("groups")
    (held,) = group["holders"]
    assert (group["name"], held["state"], len(group["waiting"])) == ("gpu", "running", 2)
    assert held["fire_id"] == scene.record(1).fire_id

    assert "nobody can be asked here" in shop.fails("groups", "release", "gpu")
    assert "does not hold 'gpu'" in shop.fails("groups", "release", "gpu", "--fire", "x", "--yes")
    assert scene.status(1) is Status.RUNNING
    ended = shop.json("groups", "release", "gpu", "--by", "ann", "--yes")
    assert ended["fire_id"] == held["fire_id"]
    record = scene.record(1)
    assert (record.status, record.reason) == (Status.ABANDONED, "released by ann")
    assert shop.json("groups")[0]["holders"][0]["fire_id"] == scene.record(2).fire_id
    assert "holds gpu no longer" in shop.says("groups", "release", "gpu", "--yes")


# --- doctor ---


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Worker]:
    """What workers register and consume; nobody is waited for."""
    known = {"w1@host": Worker(frozenset({"shop.sync", "shop.report"}), frozenset({"celery"}))}
    monkeypatch.setattr("celery_parrot.runtime.survey.live_workers", lambda app: known)
    return known


def findings(shop: Shop, code: int = 0) -> dict[str, tuple[str, str]]:
    result = shop.ask("doctor", "--json")
    assert result.exit_code == code, result.output
    return {each["check"]: (each["level"], each["text"]) for each in json.loads(result.stdout)}


def beat(scene: Scene, **changes: Any) -> None:
    scene.c.sweep(replace(scene.beat(changes.pop("owner", "b1")), **changes))


def test_a_healthy_scheduler(shop: Shop, scene: Scene, workers: object) -> None:
    """Every question is answered, and none with more than ok."""
    beat(scene, tzdata="2025b")
    shop.says("create", "x", "daily", "9:00", "--target", "shop.sync")
    shop.says("create", "y", "daily", "9:00", "--target", "celery.backend_cleanup")  # no worker tells of Celery's own
    found = findings(shop)
    assert {check: level for check, (level, _) in found.items()} == dict.fromkeys(
        ["settings", "redis", "eviction", "keys", "database", "beats", "clock", "tzdata", "schedules", "overdue",
         "workers", "tasks", "queues"], "ok"
    )  # fmt: skip
    assert shop.says("doctor").splitlines()[0].startswith("ok       settings   The scheduler scheduler_manager ")


def test_what_is_odd_is_a_warning(shop: Shop, scene: Scene, workers: dict[str, Worker], redis_client: Any) -> None:
    """Each by name, and exit code 0."""
    workers["w1@host"] = Worker(frozenset({"shop.sync"}), frozenset({"celery"}))
    shop.app.conf.parrot_coordinaton = "redis"
    beat(scene, tzdata="2025b", skew=9.0)
    beat(scene, owner="b2", tzdata="2024a")
    redis_client.set(f"{PREFIX}forgotten", "1", ex=1)
    redis_client.persist(f"{PREFIX}forgotten")
    shop.says("create", "lost", "daily", "9:00", "--target", "y", "--kind", "unheard-of")
    shop.says("create", "late", "interval", "1h", "--target", "shop.nobody", "--store", "redis")
    redis_client.hset(
        f"{PREFIX}state:{shop.schedules.get('late').schedule_id}", "last_due", "2020-01-01T00:00:00+00:00"
    )
    shop.says("create", "bad", "interval", "1h", "--target", "shop.sync", "--store", "redis")
    redis_client.hset(f"{PREFIX}jobs", shop.schedules.get("bad").schedule_id, "nonsense")
    found = findings(shop)
    redis_client.delete(f"{PREFIX}forgotten")
    said = {check: text for check, (level, text) in found.items() if level == "warning"}
    assert set(said) == {"settings", "keys", "clock", "tzdata", "kinds", "broken", "overdue", "tasks"}
    assert "parrot_coordinaton" in said["settings"]
    assert "forgotten" in said["keys"]
    assert "9.0 s off" in said["clock"]
    assert "2024a, 2025b" in said["tzdata"]
    assert "Kind unheard-of (1 schedule)" in said["kinds"]
    assert "bad" in said["broken"]
    assert "late" in said["overdue"]
    assert "shop.nobody, shop.report" in said["tasks"]
    workers.clear()
    assert "No worker answered" in findings(shop)["workers"][1]


def test_queues_that_nobody_consumes(shop: Shop, workers: dict[str, Worker]) -> None:
    """The schedule's own, that of its kind, and where Celery routes the task; unless a worker kept silent about its."""
    shop.app.conf.parrot_kinds = {"report": {"task": "shop.report", "queue": "reports"}}
    shop.app.conf.task_routes = {"shop.sync": {"queue": "fast"}}
    shop.says("create", "a", "daily", "9:00", "--target", "shop.sync", "--options", '{"queue": "slow"}')
    shop.says("create", "b", "daily", "9:00", "--target", "shop.report", "--options", '{"routing_key": "elsewhere"}')
    level, text = findings(shop)["queues"]
    assert (level, "consumes the queue fast, reports, slow:" in text) == ("warning", True)
    workers["w2@host"] = Worker(frozenset(), frozenset({"fast", "reports", "slow"}))
    assert findings(shop)["queues"][0] == "ok"
    workers["w2@host"] = Worker(frozenset(), None)
    assert "queues" not in findings(shop)


def test_a_server_that_evicts(shop: Shop, scene: Scene, workers: object, redis_client: Any) -> None:
    """A warning while its memory has no bound, an error once it has."""
    try:
        redis_client.config_set("maxmemory-policy", "allkeys-lru")
        level, text = findings(shop)["eviction"]
        assert (level, "allkeys-lru" in text) == ("warning", True)
        redis_client.config_set("maxmemory", "1gb")
        assert findings(shop, code=1)["eviction"][0] == "error"
    finally:
        redis_client.config_set("maxmemory-policy", "noeviction")
        redis_client.config_set("maxmemory", "0")


def test_what_cannot_be_asked_stops_no_other_question(shop: Shop, workers: object) -> None:
    """Redis is away, the tables are missing: two errors, each once, and the rest is answered."""
    shop.app.conf.parrot_redis_url = f"redis://127.0.0.1:{free_port()}/0"
    shop.app.conf.parrot_database_url = "sqlite://"
    result = shop.ask("doctor")
    assert result.exit_code == 1
    errors = [line for line in result.stdout.splitlines() if line.startswith("error")]
    assert [line.split()[1] for line in errors] == ["redis", "database"], errors
    assert result.stdout.count("cannot be reached") == 1
    assert "workers    1 worker answered" in result.stdout


def test_settings_that_cannot_work_are_the_answer(shop: Shop) -> None:
    shop.app.conf.parrot_takeover_after = -1
    result = shop.ask("doctor")
    assert result.exit_code == 1
    assert result.stdout.startswith("error    settings   parrot_takeover_after = -1: must be a number above 0")


def test_a_broker_that_is_away(shop: Shop) -> None:
    """Is told as such, soon."""
    shop.app.conf.parrot_redis_url = shop.app.conf.broker_url
    shop.app.conf.update(broker_url=f"redis://:s3cret@127.0.0.1:{free_port()}/0")
    found = findings(shop, code=1)
    assert found["workers"][0] == "error"
    assert "s3cret" not in str(found)
