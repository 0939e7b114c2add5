"""What cannot be read or computed is kept and shown with its reason; the rest runs."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_parrot.model import codec
from celery_parrot.model.allowed import AllowedTasks
from celery_parrot.model.schedule import Missed
from celery_parrot.protocols.editing import Change, State, Written
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreScene, make
from tests.integration.stores_redis.server import StoreServer


def text_of(server: StoreServer, schedule_id: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(server.redis.hget(server.key("jobs"), schedule_id))
    return body


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"format": 2}, "format"),
        ({"schedule_type": "moon_phase"}, "moon_phase"),
        ({"schedule_type": "cron", "schedule_config": {"expr": "0 0 31 2 *"}}, "31"),
        ({"timezone": "Mars/Olympus", "schedule_type": "daily", "schedule_config": {}}, "Mars/Olympus"),
        ({"colour": "green"}, "colour"),
        ({"version": "many"}, "version"),
        ({"schedule_id": "another"}, "schedule_id"),
        ({"schedule_config": {"seconds": -1}}, "seconds"),
        ({"args": "abc"}, "args"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_text_that_cannot_run(scene: StoreScene, server: StoreServer, change: dict[str, Any], reason: str) -> None:
    made, _ = scene.add("a", "b")
    body = text_of(server, made.schedule_id) | change
    server.redis.hset(server.key("jobs"), made.schedule_id, json.dumps(body))
    server.advance(EVERY)
    assert scene.names() == ["b"]
    broken = scene.get("a")
    assert broken.state is State.BROKEN
    assert reason in (broken.broken_reason or "")
    assert broken.raw
    assert [one.name for one in scene.s.find(state=State.BROKEN).items] == ["a"]
    assert text_of(server, made.schedule_id) == body
    assert made.schedule_id not in scene.s.definitions([made.schedule_id])


@pytest.mark.parametrize("raw", ["", "null", "[1]", "{" * 100_000, "\x00", '{"format":1}'])
def test_texts_that_are_no_definition(scene: StoreScene, server: StoreServer, raw: str) -> None:
    """It can be found, replaced, held, resumed and deleted all the same."""
    made, _ = scene.add("a", "b")
    server.redis.hset(server.key("jobs"), made.schedule_id, raw)
    server.advance(EVERY)
    assert scene.names() == ["b"]
    assert scene.get("a").state is State.BROKEN
    assert list(scene.s.hold([made.schedule_id], "person", "", 1)) == [Written.DONE]
    assert list(scene.s.release([made.schedule_id])) == [Written.DONE]
    assert scene.get("a").state is State.BROKEN
    assert list(scene.s.replace([Change(schedule=made, version=1)])) == [(Written.DONE, 2)]
    assert scene.get("a").state is State.ACTIVE
    assert sorted(scene.names(after=EVERY)) == ["a", "b"]
    assert list(scene.s.delete([made.schedule_id])) == [Written.DONE]


def test_broken_ones_do_not_spin(server: StoreServer, scene: StoreScene) -> None:
    """They are put aside for a minute: the next scans neither read them nor have them in their batch."""
    added = scene.add(*[f"s{n}" for n in range(30)])
    for one in added:
        server.redis.hset(server.key("jobs"), one.schedule_id, "nonsense")
    scene.add("good")
    server.advance(EVERY)
    store, _, calls = server.counted()
    now = server.now()
    for _ in range(5):  # 10 at a time
        calls.clear()
        assert "good" in [due.schedule.name for due in store.due(now, ("task",), 10)]
    assert calls == ["store-due"]
    at = store.next_due(("task",))
    assert at is not None
    assert at <= now  # the good one, until it is committed
    assert calls == ["store-due"]


def test_a_definition_that_breaks_at_an_edit(scene: StoreScene) -> None:
    """It is stored and shown; the next edit mends it."""
    made = scene.add("a")[0]
    bad = replace(made, schedule_type="cron", schedule_config={"expr": "monkey"})
    assert list(scene.s.replace([Change(schedule=bad)])) == [(Written.DONE, 2)]
    assert scene.get("a").state is State.BROKEN
    assert list(scene.s.replace([Change(schedule=made)])) == [(Written.DONE, 3)]
    assert scene.get("a").state is State.ACTIVE
    assert scene.names(after=EVERY) == ["a"]
    bad_from_the_start = make("c", schedule_type="cron", schedule_config={"expr": "monkey"})
    assert list(scene.s.insert([bad_from_the_start])) == [Written.DONE]
    assert scene.get("c").state is State.BROKEN


@pytest.mark.parametrize("year", [1, 9999])
def test_far_years(scene: StoreScene, year: int) -> None:
    """Neither stops the others."""
    at = datetime(year, 6, 1, tzinfo=UTC)
    scene.add("far", schedule_type="once", schedule_config={"run_date": at.isoformat()})
    scene.add("near")
    assert [due for due in scene.names(after=EVERY) if due == "near"] == ["near"]
    assert (scene.get("far").run_state.next_run == at) or year == 1


def test_a_payload_of_ten_megabytes(scene: StoreScene, server: StoreServer) -> None:
    """Is kept, found and fired, and its text is not kept in the process."""
    scene.add("big", kwargs={"x": "y" * 10_000_000})
    scene.add("small")
    server.advance(EVERY)
    assert sorted(scene.names()) == ["big", "small"]
    assert scene.s._scanner._cache._weight < 10_000


# --- texts by others ---


def put(server: StoreServer, body: dict[str, Any]) -> None:
    """As another client would add a definition: text, sorted set, and no run state."""
    server.redis.hset(server.key("jobs"), body["schedule_id"], json.dumps(body))
    server.redis.zadd(server.key("run_times:task"), {body["schedule_id"]: 0})


def minimal(**more: Any) -> dict[str, Any]:
    return {
        "format": codec.FORMAT,
        "schedule_id": "theirs",
        "version": 1,
        "name": "theirs",
        "target": "t",
        "schedule_type": "interval",
        "schedule_config": {"seconds": EVERY},
        **more,
    }


@pytest.mark.parametrize(
    ("more", "missed", "grace"),
    [
        ({}, Missed.COALESCE, None),
        ({"misfire_grace_time": 30}, Missed.COALESCE, 30.0),
        ({"misfire_grace_time": None, "coalesce": False}, Missed.CATCH_UP, None),
        ({"misfire_grace": 7, "misfire_grace_time": 30, "coalesce": True}, Missed.COALESCE, 7.0),
        ({"missed": "skip", "coalesce": True}, Missed.SKIP, None),
    ],
)
def test_the_names_of_apscheduler(
    server: StoreServer, scene: StoreScene, more: dict[str, Any], missed: Missed, grace: float | None
) -> None:
    """A missed fire of Redis is caught up unless its text says otherwise; it starts when it is first seen."""
    put(server, minimal(**more))
    assert scene.names() == []
    (due,) = scene.due(after=EVERY)
    assert (due.schedule.policy.missed, due.schedule.policy.misfire_grace) == (missed, grace)
    assert due.mark > server.now().replace(year=2020)


def test_the_zone_of_the_app(server: StoreServer) -> None:
    """For a text that names none."""
    put(server, minimal(schedule_type="daily", schedule_config={"hour": 3}))
    store = RedisStore(server.coordinator(), timezone="Asia/Tokyo")
    now = server.now()
    assert store.due(now, ("task",), 10) == []
    at = store.next_due(("task",))
    assert at is not None
    assert (at.hour, at.minute) == (18, 0)


def test_a_text_whose_task_is_not_allowed(scene: StoreScene, server: StoreServer) -> None:
    """Written past every verb: it is broken with the reason, and harms no other."""
    made, _ = scene.add("a", "b")
    store = RedisStore(server.coordinator(), allowed_tasks=AllowedTasks((made.target,)))
    body = text_of(server, made.schedule_id) | {"target": "os.system"}
    server.redis.hset(server.key("jobs"), made.schedule_id, json.dumps(body))
    server.advance(EVERY)
    assert [one.schedule.name for one in store.due(server.now(), ["task"], 10)] == ["b"]
    (broken,) = store.find(state=State.BROKEN).items
    assert broken.name == "a"
    assert "target = 'os.system': is not in parrot_allowed_tasks" in (broken.broken_reason or "")
    assert not store.definitions([made.schedule_id])
