"""Rubbish in Redis harms the one schedule or fire it belongs to, is told with its key and what to do, and stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.errors import ParrotError, Unreachable
from celery_parrot.model import events
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.model.plan import Verdict
from celery_parrot.model.state import RunState
from celery_parrot.protocols import Drop, FinishVerdict, Lease, Outcome, StartVerdict
from celery_parrot.protocols.holding import Release
from celery_parrot.stores.memory import CodeStore
from celery_parrot.stores.memory.definition import Definition
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing import FakeClock, ManualBeat
from celery_parrot.testing.conformance import TIMING, Scene
from celery_parrot.testing.conformance.schedule_store import make
from celery_parrot.testing.events import RecordingEvents
from celery_parrot.triggers.registry import build
from tests.integration.coordination.helpers import NAME, connect, scene_of

pytestmark = pytest.mark.keeps_keys("rubbish has no TTL, and nothing deletes it")

NAMES = ("s1", "s2", "s3", "s4")
PREFIX = "parrot:scheduler:main:"


def key(suffix: str) -> str:
    return PREFIX + suffix


class Moving(FakeClock):
    """Beats and server move together."""

    def __init__(self, coordinators: list[RedisCoordinator]) -> None:
        super().__init__()
        self._coordinators = coordinators

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        for coordinator in self._coordinators:
            coordinator.clock_offset += seconds


class World:
    """Two beats with the same four schedules, each due every two seconds."""

    def __init__(self, url: str, client: Any, *, redis_store: bool = False) -> None:
        self.redis = client
        self.coordinators: list[RedisCoordinator] = []
        self.clock = Moving(self.coordinators)
        self.ids = {name: name for name in NAMES}
        if redis_store:
            (own,) = [self.coordinator(url)]
            made = [make(name, store="redis", schedule_config={"seconds": 2}) for name in NAMES]
            RedisStore(own).insert(made)
            self.ids = {schedule.name: schedule.schedule_id for schedule in made}
        self.beats = [self.beat(url, owner, redis_store=redis_store) for owner in ("b1", "b2")]

    def coordinator(self, url: str) -> RedisCoordinator:
        made = RedisCoordinator(url, NAME, TIMING, clock_offset=self.clock.monotonic())
        self.coordinators.append(made)
        return made

    def beat(self, url: str, owner: str, *, redis_store: bool = False) -> ManualBeat:
        coordinator = self.coordinator(url)
        store: Any = RedisStore(coordinator) if redis_store else CodeStore(definition(name) for name in NAMES)
        beat = ManualBeat(coordinator, [store], clock=self.clock, namespace=NAME, owner=owner)
        return beat

    def run(self, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            for beat in self.beats:
                beat.tick()
            self.clock.advance(0.5)

    def running(self, seconds: float) -> set[str]:
        """Those of which every due time of that time went out; of the others nothing did. On the server real time
        passes as well, so there may be more of them than the seconds say."""
        before = {name: len(self.due_times(name)) for name in NAMES}
        self.run(seconds)
        sent = {name: self.due_times(name)[before[name] :] for name in NAMES}
        running = {name for name, due in sent.items() if due}
        for name in running:
            assert len(sent[name]) >= seconds / 2 - 1, sent
            assert all(_between(*pair) == 2 for pair in pairwise(sent[name])), sent
        return running

    def due_times(self, name: str) -> list[str]:
        """What went out of one schedule, in order of due time."""
        told = [message.headers[HEADER] for beat in self.beats for message in beat.sent]
        return sorted(said["due_at"] for said in told if said["schedule_id"] == self.ids[name])

    def told(self, about: str) -> list[str]:
        """Sentences of the first beat that name this."""
        emitted = self.beats[0].events
        assert isinstance(emitted, RecordingEvents)
        return [event.text for event in emitted.events if about in event.text and event.level >= 40]


def _between(one: str, other: str) -> float:
    return (datetime.fromisoformat(other) - datetime.fromisoformat(one)).total_seconds()


def definition(name: str) -> Definition:
    config = {"seconds": 2}
    schedule = make(name, schedule_id=name, store="code", schedule_config=config)
    return Definition(schedule=schedule, trigger=build("interval", config), when="w")


@pytest.fixture
def world(redis_url: str, redis_client: Any) -> World:
    made = World(redis_url, redis_client)
    made.run(5)
    return made


@pytest.fixture
def scene(redis_url: str) -> Iterator[Scene]:
    coordinator = connect(redis_url)
    yield scene_of(coordinator)
    coordinator.close()


@pytest.fixture
def faults(scene: Scene) -> list[str]:
    found: list[str] = []
    coordinator: Any = scene.c
    coordinator.report_to(lambda sentence, fields: found.append(sentence))
    return found


def wrong_type(suffix: str) -> Callable[[Any], object]:
    def spoil(client: Any) -> object:
        client.delete(key(suffix))
        return client.set(key(suffix), "x")

    return spoil


# --- run state ---


@pytest.mark.parametrize(
    "spoil",
    [
        wrong_type("state:s3"),
        lambda client: client.hset(key("state:s3"), "last_due", "rubbish"),
        lambda client: client.hset(key("state:s3"), "last_due", "2026-02-30T00:00:00+00:00"),
        lambda client: client.hset(key("state:s3"), "auto_count", "rubbish"),
    ],
    ids=["type", "mark", "no-such-day", "count"],
)
def test_a_run_state_that_cannot_be_read_stops_its_own_schedule_only(
    world: World, spoil: Callable[[Any], object]
) -> None:
    """The others run on time, it is told once, and after it was mended no due time is lost."""
    before = world.redis.type(key("state:s3")) == "hash" and world.redis.hgetall(key("state:s3"))
    spoil(world.redis)
    assert world.running(20) == {"s1", "s2", "s4"}
    (said,) = world.told(key("state:s3"))
    assert "all others run" in said
    world.redis.delete(key("state:s3"))
    world.redis.hset(key("state:s3"), mapping=before)
    world.run(15)
    assert len(world.due_times("s3")) == len(set(world.due_times("s3")))
    decided = [sum(record.count for record in world.coordinators[0].fires(name)) for name in ("s1", "s3")]
    assert decided[0] == decided[1]
    assert "s3" in world.running(10)


def test_a_beat_that_starts_beside_a_run_state_that_cannot_be_read(world: World, redis_url: str) -> None:
    wrong_type("state:s3")(world.redis)
    world.beats = [world.beat(redis_url, "b3")]
    world.run(2)
    assert world.running(10) == {"s1", "s2", "s4"}
    assert len(world.told(key("state:s3"))) == 1
    world.redis.delete(key("state:s3"))
    world.run(2)
    assert "s3" in world.running(10)


@pytest.mark.parametrize("field", ["consecutive_failures", "run_count"])
def test_a_counter_that_is_no_number_ends_no_fire(
    scene: Scene, faults: list[str], redis_client: Any, field: str
) -> None:
    scene.pending()
    redis_client.hset(key("state:a"), field, "rubbish")
    assert list(scene.c.confirm([scene.hold(1)])) == [True]
    assert scene.start().verdict is StartVerdict.RUN
    assert scene.finish(status=Status.ERROR, error="E: e").verdict is FinishVerdict.RECORDED
    assert scene.state().last_status == "error"
    assert redis_client.hget(key("state:a"), field) == "rubbish"
    assert len(faults) == 1
    assert f"state:a {field}" in faults[0]
    assert "HSET" in faults[0]


def test_every_field_of_a_run_state_may_be_rubbish(scene: Scene, faults: list[str], redis_client: Any) -> None:
    scene.register()
    scene.register("b")
    fields = ["last_due", "last_run", "last_error_at", "last_result_at", "run_count", "auto_count"]
    fields += ["failing_since", "last_delivery_at", "last_callbacks"]
    redis_client.hset(key("state:a"), mapping=dict.fromkeys(fields, "\xff rubbish"))
    wrong_type("state:c")(redis_client)
    found = scene.c.run_states(["a", "b", "c"])
    assert found["a"] == RunState()
    assert found["b"].last_due == scene.due(0)
    assert set(found) == {"a", "b"}
    assert len(faults) == len(fields) + 1


def test_holding_beside_a_run_state_that_cannot_be_read(scene: Scene, faults: list[str], redis_client: Any) -> None:
    c: Any = scene.c
    scene.register()
    wrong_type("state:c")(redis_client)
    assert c.hold(["c", "a"], "person", "n") == [False, True]
    assert set(c.holds(["c", "a"])) == {"a"}
    releases = [
        Release(schedule_id=id_, name=id_, kind="task", expected_mark=scene.due(0), new_mark=scene.due(1))
        for id_ in ("c", "a")
    ]
    assert c.release(releases) == [Verdict.UNKNOWN, Verdict.COMMITTED]
    assert len(faults) == 1


# --- outbox, leases, beats ---


def test_members_that_name_no_fire(scene: Scene, faults: list[str], redis_client: Any) -> None:
    hold = scene.pending()
    redis_client.zadd(key("pending"), {"garbage": 0})
    redis_client.zadd(key("leases"), {"garbage": 0})
    assert [fire.key for fire in scene.sweep("b2").entries] == [hold.key]
    assert scene.c.reap() == []
    assert [said for said in faults if "pending garbage" in said]
    assert [said for said in faults if "leases garbage" in said]


@pytest.mark.parametrize("raw", ["rubbish", "{}", "5", "null", '{"moment":1}', "\xff", None])
def test_a_claim_that_cannot_be_read_waits_alone(
    scene: Scene, faults: list[str], redis_client: Any, raw: str | None
) -> None:
    """Nobody overwrites it; once it is deleted, the fire is made anew from its history."""
    bad, good = scene.pending(1), scene.pending(1, schedule_id="b")
    claim = key(f"fire:{bad.key.text}")
    redis_client.delete(claim)
    if raw is None:
        redis_client.rpush(claim, "x")
    else:
        redis_client.set(claim, raw)
    c = scene.c
    assert [fire.key for fire in scene.sweep("b1").entries] == [good.key]
    assert [fire and fire.key for fire in c.claims([bad.key, good.key])] == [None, good.key]
    assert list(c.renew([bad, good])) == [False, True]
    assert list(c.drop([Drop(hold=bad, status=Status.SKIPPED, reason="r")])) == [False]
    assert list(c.confirm([bad, good])) == [False, True]
    with pytest.raises(ParrotError, match=r"fire:a:") as caught:
        scene.start(1)
    assert not isinstance(caught.value, Unreachable)  # the others are asked at once
    assert scene.start(1, schedule_id="b").verdict is StartVerdict.RUN
    outcomes = [Outcome(lease=Lease(fire.key, "t1"), status=Status.SUCCESS) for fire in (bad, good)]
    with pytest.raises(ParrotError, match=r"fire:a:"):
        c.finish(outcomes)
    assert c.finish(outcomes[1:])[0].verdict is FinishVerdict.RECORDED
    scene.c.leave("b1")
    assert redis_client.exists(claim)
    (said,) = [said for said in faults if claim in said]
    assert "DEL" in said
    redis_client.delete(claim)
    assert [fire.key for fire in scene.sweep("b2").entries] == [bad.key]


def test_a_running_claim_that_cannot_be_read_holds_up_no_reaping(
    scene: Scene, faults: list[str], redis_client: Any
) -> None:
    for schedule_id in ("a", "b"):
        scene.sent(schedule_id=schedule_id)
        scene.start(schedule_id=schedule_id, token=schedule_id)
    claim = key(f"fire:{scene.key(1).text}")
    redis_client.set(claim, "rubbish")
    redis_client.zadd(key("leases"), {scene.key(1).text: 0, scene.key(1, "b").text: 1})
    assert [reaped.fire.key for reaped in scene.c.reap()] == [scene.key(1, "b")]
    assert redis_client.get(claim) == "rubbish"
    assert len(faults) == 1


def test_a_beat_entry_that_cannot_be_read(scene: Scene, faults: list[str], redis_client: Any) -> None:
    scene.sweep("b1")
    redis_client.hset(key("beats"), mapping={"b7": "rubbish", "b8": "{}"})
    redis_client.zadd(key("seen"), {"b7": 1e13, "b8": 1e13})
    assert [beat.owner for beat in scene.sweep("b1").beats] == ["b1"]
    assert [beat.owner for beat in scene.c.beats()] == ["b1"]
    assert len(faults) == 2
    assert "HDEL the field 'b7'" in faults[0]


# --- history ---


def test_a_history_entry_that_cannot_be_read(scene: Scene, faults: list[str], redis_client: Any) -> None:
    scene.pending(2)
    moment = scene.key(1).moment
    redis_client.hset(key("fires:a"), mapping={moment: "rubbish", "no moment": "{}"})
    assert [record.key for record in scene.c.fires("a")] == [scene.key(2)]
    assert len(faults) == 2
    redis_client.hset(key("state:a"), "pruned", "1")
    assert scene.commit(3, mark=2).fires
    assert redis_client.hget(key("fires:a"), "no moment") == "{}"


def test_a_history_of_another_type_stops_no_fire(world: World) -> None:
    wrong_type("fires:s3")(world.redis)
    assert world.running(10) == set(NAMES)
    assert len(world.told(key("fires:s3"))) == 1
    assert world.redis.get(key("fires:s3")) == "x"
    assert world.redis.ttl(key("fires:s3")) == -1


# --- keys that all share ---


@pytest.mark.parametrize("name", ["leases", "sent", "beats", "seen", "proofs", "mirrored"])
def test_a_shared_key_of_another_type_that_dispatch_can_do_without(world: World, name: str) -> None:
    wrong_type(name)(world.redis)
    assert world.running(40) == set(NAMES)
    assert world.redis.get(key(name)) == "x"
    if name not in ("proofs", "mirrored"):
        (said,) = world.told(key(name))
        assert "RENAME" in said or "DEL" in said


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("pending", wrong_type("pending")),
        ("coordinator", wrong_type("coordinator")),
        ("coordinator judge_from", lambda client: client.hset(key("coordinator"), "judge_from", "rubbish")),
    ],
    ids=["pending", "coordinator", "field"],
)
def test_the_keys_that_nothing_goes_on_without_say_so(world: World, name: str, spoil: Callable[[Any], object]) -> None:
    """One error names the key and the fix; when it is mended, everything goes on."""
    spoil(world.redis)
    assert world.running(10) == set()
    (said,) = world.told(key(name))
    assert "Every schedule stops" in said
    emitted: Any = world.beats[0].events
    assert key(name) in emitted.named(events.LOCK_UNAVAILABLE)[0].text
    if " " in name:
        world.redis.hdel(key("coordinator"), "judge_from")
    else:
        world.redis.rename(key(name), "aside")
    world.run(60)
    assert world.running(10) == set(NAMES)


# --- the redis store ---


@pytest.mark.parametrize(
    "spoil",
    [
        lambda client, id_: (client.delete(key(f"state:{id_}")), client.set(key(f"state:{id_}"), "x")),
        lambda client, id_: client.hset(key(f"state:{id_}"), "last_due", "rubbish"),
        lambda client, id_: client.hset(key(f"state:{id_}"), "auto_count", "rubbish"),
    ],
    ids=["type", "mark", "count"],
)
def test_a_run_state_of_the_redis_store(redis_url: str, redis_client: Any, spoil: Callable[[Any, str], object]) -> None:
    world = World(redis_url, redis_client, redis_store=True)
    world.run(5)
    spoil(redis_client, world.ids["s3"])
    assert world.running(20) == {"s1", "s2", "s4"}
    assert len(world.told(key(f"state:{world.ids['s3']}"))) == 1


def test_run_times_of_one_kind_of_another_type(redis_url: str, redis_client: Any) -> None:
    world = World(redis_url, redis_client, redis_store=True)
    world.run(5)
    wrong_type("run_times:task")(redis_client)
    assert world.running(5) == set()
    assert len(world.told(key("run_times:task"))) == 1


def test_definitions_of_another_type_are_told_by_key(redis_url: str, redis_client: Any) -> None:
    world = World(redis_url, redis_client, redis_store=True)
    world.run(5)
    wrong_type("jobs")(redis_client)
    assert world.running(5) == set()
    assert len(world.told(key("jobs"))) == 1


# --- rows that decide ---


def test_where_rows_cannot_prepare_others_commit(scene: Scene, faults: list[str], redis_client: Any) -> None:
    c: Any = scene.c
    wrong_type("proofs")(redis_client)
    scene.register()
    _, (reply,) = c.prepare([scene.plan(1, schedule_id="row")], "b1", "k")
    assert (reply.verdict, reply.mark, reply.fires) == (Verdict.MOVED, scene.due(0), ())
    assert scene.commit(1).fires
    wrong_type("carry")(redis_client)
    wrong_type("uncarried")(redis_client)
    assert c.uncarried() == []
    assert {said.split(": ")[0].removeprefix(PREFIX) for said in faults} == {"proofs", "uncarried"}


# --- the server's own trouble ---


def test_a_server_that_is_full_is_no_rubbish(private_redis: Any) -> None:
    """The call fails as a whole; nothing is put aside."""
    coordinator = connect(private_redis.url(), Namespace("main"))
    scene, told = scene_of(coordinator), list[str]()
    coordinator.report_to(lambda sentence, fields: told.append(sentence))
    scene.register()
    with private_redis.client() as client:
        client.config_set("maxmemory", "1")
        with pytest.raises(Unreachable, match=r"(?i)memory"):
            scene.commit(1)
        client.config_set("maxmemory", "0")
    assert told == []
    coordinator.close()
