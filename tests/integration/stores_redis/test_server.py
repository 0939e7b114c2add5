"""A busy server, one that forgets, and one that grants little."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from celery_parrot.clock import new_id
from celery_parrot.coordination.redis import COMMANDS
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import Verdict
from celery_parrot.model.state import Beat
from celery_parrot.planning import plan
from celery_parrot.protocols import Drop, Hold, Mark, Memory, Registration
from celery_parrot.protocols.editing import Change, State
from celery_parrot.stores.redis import COMMANDS as STORE_COMMANDS
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreScene, make
from tests.integration.stores_redis.server import NAME, StoreServer
from tests.integration.stores_redis.test_commits import commit, plans
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import monotonic

MANY = 100_000
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def beat(server: StoreServer) -> Beat:
    now = server.now()
    return Beat(owner="b9", host="h", pid=1, version="1", started=now, seen=now)


def test_an_idle_tick_is_one_round_trip(scene: StoreScene, server: StoreServer) -> None:
    """Over all kinds, next instant included; an unknown kind costs one more."""
    scene.add("a")
    scene.add("b", kind="agent")
    store, _, calls = server.counted()
    for _ in range(3):
        assert store.due(server.now(), ("task", "agent", "none"), 100) == []
        assert store.next_due(("task", "agent")) is not None
        assert list(store.registrations()) == []
    assert calls == ["store-due"] * 3
    assert store.next_due(("other",)) is None
    assert len(calls) == 4


def test_a_page_of_one_kind_costs_what_it_shows(scene: StoreScene, server: StoreServer) -> None:
    """One round trip, however many of other kinds there are; also for schedules that changed their kind, by an edit or
    by another client's hand."""
    scene.add(*[f"a{n:04}" for n in range(1200)])
    moved, edited = scene.add("moved", "x")
    scene.add("z", kind="agent")
    scene.s.replace([Change(schedule=replace(edited, kind="agent"))])
    key = server.key("jobs")
    server.redis.hset(key, moved.schedule_id, server.redis.hget(key, moved.schedule_id).replace('"task"', '"agent"'))
    server.advance(EVERY)
    scene.due("task")  # the beat that finds it under its old kind puts it right
    store, _, calls = server.counted()
    assert [one.name for one in store.find(kind="agent").items] == ["moved", "x", "z"]
    assert calls == ["store-look"]
    page = store.find(kind="task", limit=2)
    assert ([one.name for one in page.items], page.after) == (["a0000", "a0001"], "a0001")
    scene.s.delete([edited.schedule_id])
    assert [one.name for one in store.find(kind="agent").items] == ["moved", "z"]


def test_a_search_is_told_what_matches_only(scene: StoreScene, server: StoreServer) -> None:
    """In any case, and for what JSON writes in another way; a page that matches nothing does not end the search."""
    scene.add(*[f"a{n:04}" for n in range(2100)])
    scene.add('Say "É"', "back\\slash", "ZZZ", target="send.Mail")
    for text, names in (('"é"', ['Say "É"']), ("k\\S", ["back\\slash"]), ("zz", ["ZZZ"]), ("d.mail", 3), ("z-", [])):
        found = [one.name for one in scene.s.find(text=text).items]
        assert (len(found) if isinstance(names, int) else found) == names, text
    store, _, calls = server.counted()
    page = store.find(text="zzz", limit=10)
    assert ([one.name for one in page.items], page.after, len(calls)) == (["ZZZ"], "", 2)


def test_a_search_finds_what_other_clients_wrote(scene: StoreScene, server: StoreServer) -> None:
    """Whatever order and spacing their JSON has: the first thing called target need not be it."""
    made = scene.add("theirs", "ours", kwargs={"a": 1, "target": "nested"})[0]
    key = server.key("jobs")
    body = json.loads(server.redis.hget(key, made.schedule_id))
    changed = {"kwargs": body["kwargs"], **body, "target": "deep.Task", "enabled": False, "version": 2}
    text = json.dumps(changed, separators=(",", ":")).replace(':false,"options"', ' : false,"options"')
    server.redis.hset(key, made.schedule_id, text)
    assert [one.name for one in scene.s.find(text="DEEP.t").items] == ["theirs"]
    assert [one.name for one in scene.s.find(text="nested").items] == []
    assert [one.name for one in scene.s.find(state=State.PAUSED).items] == ["theirs"]
    scene.s.hold([one.schedule_id for one in scene.s.find(text="our").items], by="person", note="")
    assert [one.name for one in scene.s.find(state=State.PAUSED, text="t", limit=1).items] == ["ours"]
    assert [one.name for one in scene.s.find(state=State.PAUSED, after="ours").items] == ["theirs"]


def test_a_busy_tick_is_two(scene: StoreScene, server: StoreServer) -> None:
    """Scan and commit; the next instant follows from the commit."""
    scene.add(*[f"s{n}" for n in range(50)])
    server.advance(EVERY)
    store, coordinator, calls = server.counted()
    made = plans(scene, store)
    replies = commit(coordinator, *made)
    store.learn([Mark(schedule_id=one.schedule_id, last_due=one.new_mark) for one in made])
    assert {reply.verdict for reply in replies} == {Verdict.COMMITTED}
    assert store.next_due(("task",)) == made[0].next_at
    assert calls == ["store-due", "commit"]


def test_an_edit_is_seen_by_the_next_scan_of_everybody(scene: StoreScene, server: StoreServer) -> None:
    """Nothing is reloaded, and the beats are woken in the same step."""
    made = scene.add("a")[0]
    listener = server.redis.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(server.key("wake"))
    listener.get_message(timeout=1)
    server.advance(EVERY)
    assert scene.names() == ["a"]
    wakes = 0
    edits: list[Callable[[], object]] = [
        lambda: scene.other.replace([Change(schedule=replace(made, kwargs={"n": 1}))]),
        lambda: scene.other.hold([made.schedule_id], "person", ""),
        lambda: scene.other.release([made.schedule_id]),
        lambda: scene.other.insert([make("b")]),
        lambda: scene.other.delete([made.schedule_id]),
    ]
    for edit in edits:
        edit()
        wakes += listener.get_message(timeout=1) is not None
    assert wakes == 5
    assert scene.names(after=EVERY) == ["b"]
    listener.close()


def fill(scene: StoreScene, server: StoreServer, count: int) -> None:
    """As many definitions as one daily one, by copying it; half a minute faster than by its own door."""
    made = scene.add("model", schedule_config={"days": 1, "offset": 3})[0]
    text = server.redis.hget(server.key("jobs"), made.schedule_id)
    state = server.redis.hgetall(server.key(f"state:{made.schedule_id}"))
    at = server.redis.zscore(server.key("run_times:task"), made.schedule_id)
    for first in range(0, count, 5000):
        ids = {new_id(): f"s{n:06}" for n in range(first, first + 5000)}
        pipe = server.redis.pipeline(transaction=False)
        texts = {id_: text.replace(made.schedule_id, id_).replace('"model"', f'"{name}"') for id_, name in ids.items()}
        pipe.hset(server.key("jobs"), mapping=texts)
        pipe.zadd(server.key("run_times:task"), {id_: at + n for n, id_ in enumerate(ids)})
        pipe.zadd(server.key("names"), {f"{name}\0{id_}": 0 for id_, name in ids.items()})
        for id_, name in ids.items():
            pipe.hset(server.key(f"state:{id_}"), mapping={**state, "name": name})
        pipe.execute()


@pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test")
def test_a_hundred_thousand_definitions(scene: StoreScene, server: StoreServer) -> None:
    """A beat starts, ticks and notices an edit without loading them."""
    fill(scene, server, MANY)
    added = scene.add(*[f"due{n}" for n in range(50)])
    now = server.now()
    store, coordinator, calls = server.counted()
    began = monotonic()
    coordinator.attach()
    assert list(store.registrations()) == []
    assert store.due(now, ("task",), 500) == []
    started = monotonic() - began
    assert calls == ["attach", "store-due"]
    began = monotonic()
    for _ in range(200):
        store.due(now, ("task",), 500)
        store.next_due(("task",))
    idle = (monotonic() - began) / 200
    assert len(calls) == 202
    scene.other.replace([Change(schedule=replace(added[0], prompt="new"))])
    server.advance(EVERY)
    now = server.now()
    began = monotonic()
    due = store.due(now, ("task",), 500)
    seen = monotonic() - began
    assert len(due) == 50
    assert [one.schedule.prompt for one in due if one.schedule.name == "due0"] == ["new"]
    assert [one.name for one in scene.s.find(limit=2).items] == ["due0", "due1"]
    began = monotonic()
    assert [one.name for one in scene.s.find(text="s099999").items] == ["s099999"]
    searched = monotonic() - began
    assert len(store._scanner._cache) == 50
    print(
        f"\n{MANY} definitions: a beat starts in {started * 1000:.1f} ms, an idle tick takes {idle * 1000:.2f} ms, "
        f"one with 50 due and an edit {seen * 1000:.1f} ms, a search through all {searched:.1f} s"
    )
    assert started < 2.0
    assert idle < 0.05


# --- forgetting ---


def test_a_flush_takes_the_definitions_along(scene: StoreScene, server: StoreServer) -> None:
    """A beat that remembers marks of what is gone leaves no run state behind; new definitions run."""
    scene.add("a")
    server.advance(EVERY)
    store, coordinator = server.store(), server.coordinator()
    commit(coordinator, *plans(scene, store))
    registrations, marks = store.remembered()
    assert len(marks) == 1
    server.redis.flushdb()
    assert store.due(server.now(), ("task",), 10) == []
    with pytest.raises(MemoryLost):
        coordinator.sweep(beat(server))
    coordinator.remember(Memory(registrations=tuple(registrations), marks=tuple(marks)))
    assert server.redis.keys("*:state:*") == []
    scene.add("a")
    server.advance(EVERY)
    assert [due.schedule.name for due in store.due(server.now(), ("task",), 10)] == ["a"]


def test_a_failover_without_the_last_writes(scene: StoreScene, server: StoreServer) -> None:
    """The mark that a beat remembers counts, so what was fired is not fired again; the sorted set follows."""
    made = scene.add("a")[0]
    server.advance(EVERY)
    store, coordinator, calls = server.counted()
    state, score = server.key(f"state:{made.schedule_id}"), server.key("run_times:task")
    old_mark, old_score = server.redis.hget(state, "last_due"), server.redis.zscore(score, made.schedule_id)
    (planned,) = plans(scene, store)
    commit(coordinator, planned)
    store.learn([Mark(schedule_id=made.schedule_id, last_due=planned.new_mark)])
    # Another server takes over, to which the last commit never came.
    server.redis.hset(state, "last_due", old_mark)
    server.redis.zadd(score, {made.schedule_id: old_score})
    server.redis.delete(server.key("fire:" + FireKey(made.schedule_id, planned.fires[0].due_at).text))
    server.redis.hset(server.key("coordinator"), "run_id", "0" * 40)
    with pytest.raises(MemoryLost):
        commit(coordinator, planned)
    registrations, marks = store.remembered()
    coordinator.remember(Memory(registrations=tuple(registrations), marks=tuple(marks)))
    calls.clear()
    assert store.due(server.now(), ("task",), 10) == []
    assert calls == ["store-due", "store-place", "store-due"]
    assert planned.next_at is not None
    assert store.next_due(("task",)) == planned.next_at


def test_marks_of_code_schedules_are_put_back_as_before(server: StoreServer) -> None:
    """They have no definition here."""
    coordinator = server.coordinator()
    now = coordinator.attach().now
    server.redis.flushdb()
    coordinator.remember(
        Memory(
            registrations=(Registration(schedule_id="code", when="w"),),
            marks=(Mark(schedule_id="code", last_due=now),),
        )
    )
    assert coordinator.run_states(["code"])["code"].last_due == now


def test_an_outage_is_said_at_once(private_redis: PrivateRedis) -> None:
    """And it is over when the server is back; nothing is remembered wrongly."""
    with private_redis.client() as client:
        server = StoreServer(private_redis.url(), client)
        scene = StoreScene(server)
        scene.add("a")
        private_redis.kill()
        with pytest.raises(Unreachable):
            scene.s.due(NOON, ("task",), 10)
        with pytest.raises(Unreachable):
            scene.s.find()
        server.close()


# --- access rights ---


def _user(server: PrivateRedis, *rules: str) -> str:
    prefix = f"parrot:scheduler:{NAME}:"
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "p", "reset", "on", ">secret", f"~{prefix}*", f"&{prefix}wake", *rules)
    return f"redis://p:secret@{server.host}:{server.port}/0"


def live(server: StoreServer) -> None:
    """Use every script of the store."""
    scene = StoreScene(server)
    coordinator = server.coordinator()
    a, b = scene.add("a", "b", kind="agent")
    server.advance(EVERY)
    scene.due("agent")
    scene.s.due_elsewhere(server.now(), ("task",), 10)
    scene.s.next_due(("x",))
    now = server.now()
    made = [plan(due.schedule, due.trigger, due.mark, now, on_time=10.0) for due in scene.due("agent")]
    replies = commit(coordinator, *[one for one in made if one])
    assert [reply.verdict for reply in replies] == [Verdict.COMMITTED] * 2
    (entry, *_) = coordinator.sweep(beat(server)).entries
    coordinator.drop([Drop(hold=Hold(entry.key, entry.owner, entry.tries), status=Status.SKIPPED, reason="paused")])
    scene.s.replace([Change(schedule=replace(a, name="c", kind="other", schedule_config={"hours": 3}))])
    scene.s.hold([b.schedule_id], "person", "")
    server.advance(EVERY)
    scene.s.release([b.schedule_id])
    scene.s.definitions([b.schedule_id])
    server.redis.hset(server.key("jobs"), b.schedule_id, "nonsense")
    scene.due("agent", after=EVERY)
    assert [one.name for one in scene.s.find().items] == ["b", "c"]
    assert scene.s.get(["c"])[0] is not None
    assert scene.s.fires(b.schedule_id)
    scene.s.delete([a.schedule_id, b.schedule_id])
    assert scene.s.due_elsewhere(server.now(), ("task",), 10) == []


def test_the_documented_rights_suffice(private_redis: PrivateRedis) -> None:
    """Those of the coordinator and those of the store together; nothing outside the prefix is touched."""
    commands = sorted(COMMANDS | STORE_COMMANDS)
    with private_redis.client() as client:
        server = StoreServer(_user(private_redis, "-@all", *(f"+{name}" for name in commands)), client)
        live(server)
        server.close()
        refused = {str(entry["object"]).partition("|")[0] for entry in client.acl_log()}
        assert refused <= {"client"}
        assert all(key.startswith(f"parrot:scheduler:{NAME}:") for key in client.keys("*"))


def test_every_permanent_key_is_listed(scene: StoreScene, server: StoreServer) -> None:
    """The leak check after the test does the rest; deleting everything leaves only history."""
    live(server)
    names = {key.removeprefix(server.key("")) for key in server.redis.keys("*")}
    assert not any(name.startswith(("jobs", "names", "state:", "run_times:", "kinds")) for name in names), names
    assert any(name.startswith("fires:") for name in names)
