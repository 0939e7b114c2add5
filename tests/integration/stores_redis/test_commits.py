"""Commits of Redis schedules: one step with the mark, the definition's version and the next sending instant."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.model.state import Beat
from celery_parrot.planning import plan
from celery_parrot.protocols import CommitReply, Drop, Hold, Mark
from celery_parrot.protocols.editing import Change, State, Written
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing.conformance.schedule_store import EVERY, StoreScene, make
from tests.integration.stores_redis.server import StoreServer


def plans(scene: StoreScene, store: Any = None, *, late: float = 0.0, on_time: float = 10.0) -> list[Plan]:
    now = scene.backend.now() + timedelta(seconds=late)
    made = [plan(due.schedule, due.trigger, due.mark, now, on_time=on_time) for due in scene.due(store=store)]
    return [one for one in made if one is not None]


def due_times(after: datetime, last: datetime) -> int:
    """How many there are up to ``last``, which is one, every minute."""
    return -((after - last) // timedelta(seconds=EVERY))


def commit(coordinator: RedisCoordinator, *made: Plan, owner: str = "b1") -> list[CommitReply]:
    return list(coordinator.commit(made, owner)[1])


@pytest.fixture
def coordinator(server: StoreServer) -> RedisCoordinator:
    return server.coordinator()


def test_a_commit_moves_everything_in_one_step(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """Mark, sorted set, claim, outbox, history: then nothing is due, and the next instant is known without asking."""
    made = scene.add("a")[0]
    server.advance(EVERY)
    (planned,) = plans(scene)
    (reply,) = commit(coordinator, planned)
    assert (reply.verdict, reply.fires) == (Verdict.COMMITTED, planned.fires)
    scene.s.learn([Mark(schedule_id=made.schedule_id, last_due=planned.new_mark)])
    assert planned.next_at is not None
    assert scene.s.next_due(("task",)) == planned.next_at
    assert scene.names() == []
    score = server.redis.zscore(server.key("run_times:task"), made.schedule_id)
    assert score == planned.next_at.timestamp() * 1000
    (fire,) = coordinator.claims([FireKey(made.schedule_id, planned.fires[0].due_at)])
    assert fire is not None
    assert (fire.store, fire.proof) == ("redis", None)
    state = scene.get("a").run_state
    assert (state.last_due, state.auto_count, state.next_run) == (planned.new_mark, 1, planned.next_at)
    assert [entry.status for entry in scene.s.fires(made.schedule_id)] == [Status.PENDING]


def test_an_edit_after_the_plan_wins(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    """Traces 21 and 22: the commit fails on the version, the due time is planned anew with the new prompt."""
    made = scene.add("a")[0]
    server.advance(EVERY)
    (old,) = plans(scene)
    scene.other.replace([Change(schedule=replace(made, prompt="new"))])
    (reply,) = commit(coordinator, old)
    assert (reply.verdict, reply.mark) == (Verdict.MOVED, old.expected_mark)
    (due,) = scene.due()
    assert due.schedule.prompt == "new"
    (new,) = plans(scene)
    assert new.fires == old.fires
    assert commit(coordinator, new)[0].fires == old.fires


def test_a_text_changed_by_another_client_refuses_the_plan(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """Whatever its layout, as long as its version grows."""
    made = scene.add("a")[0]
    server.advance(EVERY)
    (old,) = plans(scene)
    text = server.redis.hget(server.key("jobs"), made.schedule_id)
    spaced = text.replace('"version":1', '"version": 2').replace('{"format":1,', '{ "prompt":"theirs", "format":1,', 1)
    server.redis.hset(server.key("jobs"), made.schedule_id, spaced.replace(',"prompt":null', ""))
    assert commit(coordinator, old)[0].verdict is Verdict.MOVED
    (due,) = scene.due()
    assert (due.schedule.prompt, due.schedule.version) == ("theirs", 2)
    assert commit(coordinator, *plans(scene))[0].verdict is Verdict.COMMITTED


def test_a_pause_a_delete_and_a_disabling_after_the_plan(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """Nothing stale fires."""
    a, b, c = scene.add("a", "b", "c")
    server.advance(EVERY)
    made = {one.name: one for one in plans(scene)}
    scene.other.hold([a.schedule_id], "person", "")
    scene.other.delete([b.schedule_id])
    assert server.redis.zrange(server.key("run_times:task"), 0, -1) == [c.schedule_id]
    scene.other.replace([Change(schedule=replace(c, enabled=False))])
    replies = commit(coordinator, made["a"], made["b"], made["c"])
    assert [reply.verdict for reply in replies] == [Verdict.HELD, Verdict.UNKNOWN, Verdict.MOVED]
    assert coordinator.sweep(_beat(scene)).entries == ()
    assert scene.names() == []


def test_what_is_exhausted_is_completed_and_what_was_not_sent_is_given_back(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    """Out of the sorted set with its last fire, back in it when that fire was never sent."""
    made = scene.add("a", policy=Policy(max_fires=1))[0]
    server.advance(EVERY)
    (planned,) = plans(scene)
    commit(coordinator, planned)
    assert scene.get("a").state is State.COMPLETED
    assert server.redis.zscore(server.key("run_times:task"), made.schedule_id) is None
    server.advance(5 * EVERY)
    assert scene.names() == []
    hold = Hold(FireKey(made.schedule_id, planned.fires[0].due_at), "b1")
    coordinator.drop([Drop(hold=hold, status=Status.MISSED, reason="too_late")])
    assert scene.get("a").state is State.ACTIVE
    assert scene.names() == ["a"]


def test_more_room_reopens_a_completed_one(
    scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator
) -> None:
    made = scene.add("a", policy=Policy(max_fires=1))[0]
    server.advance(EVERY)
    commit(coordinator, *plans(scene))
    scene.s.replace([Change(schedule=replace(made, policy=Policy(max_fires=2)))])
    assert scene.names(after=EVERY) == ["a"]


def test_a_one_shot_completes(scene: StoreScene, server: StoreServer, coordinator: RedisCoordinator) -> None:
    at = server.now() + timedelta(seconds=5)
    made = scene.add("a", schedule_type="once", schedule_config={"run_date": at.isoformat()})[0]
    server.advance(6)
    (planned,) = plans(scene)
    assert planned.next_at is None
    commit(coordinator, planned)
    assert scene.get("a").state is State.COMPLETED
    assert server.redis.zscore(server.key("run_times:task"), made.schedule_id) is None
    assert scene.s.next_due(("task",)) is None or scene.names() == []


@pytest.mark.parametrize(
    ("policy", "fired", "reasons"),
    [
        (Policy(misfire_grace=None), 1, {"coalesced"}),
        (Policy(misfire_grace=300.0), 1, {"coalesced", "too_late"}),
        (Policy(missed=Missed.CATCH_UP, misfire_grace=None), 100, {"capped"}),
        (Policy(missed=Missed.CATCH_UP, misfire_grace=600.0, catch_up_limit=200), 11, {"too_late"}),
        (Policy(missed=Missed.SKIP), 0, {"too_late"}),
    ],
    ids=["coalesce", "coalesce-grace", "catch-up", "catch-up-grace", "skip"],
)
def test_three_beats_after_three_hours(
    scene: StoreScene, server: StoreServer, policy: Policy, fired: int, reasons: set[str]
) -> None:
    """Trace 23, with clocks 0.2 s apart: exactly the promised fires once, every due time fired or missed."""
    made = scene.add("a", policy=policy)[0]
    (start,) = [due.mark for due in scene.s.definitions([made.schedule_id]).values()]
    server.advance(3 * 3600)
    beats = [(server.store(), server.coordinator()) for _ in range(3)]
    for number, (_, one) in enumerate(beats):
        one.clock_offset += 0.2 * number
    barrier = threading.Barrier(3)

    def recover(number: int) -> None:
        store, one = beats[number]
        one.attach()
        barrier.wait(10)
        while planned := plans(scene, store, late=0.2 * number):
            commit(one, *planned, owner=f"b{number}")

    threads = [threading.Thread(target=recover, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    entries = list(scene.s.fires(made.schedule_id, limit=1000))
    fires = [entry for entry in entries if entry.status is Status.PENDING]
    missed = [entry for entry in entries if entry.status is Status.MISSED]
    # The grace may pass the boundary of one more due time between two clocks.
    assert fired - 1 <= len(fires) <= fired if policy.misfire_grace == 600.0 else len(fires) == fired
    assert {entry.reason for entry in missed} == reasons
    (last,) = [due.mark for due in scene.s.definitions([made.schedule_id]).values()]
    expected = due_times(start, last)
    assert len(fires) + sum(entry.count for entry in missed) == expected
    assert expected >= 179
    assert scene.names() == []


def test_old_history_goes_in_small_batches(server: StoreServer, scene: StoreScene) -> None:
    """The first commits of a day delete a bit each; the others of that day nothing."""
    server.advance(86_400 - scene.backend.now().timestamp() % 86_400)  # midnight: what follows stays within two days
    coordinator = server.coordinator()
    names = [f"s{n:02}" for n in range(50)]
    added = scene.add(*names, schedule_config={"hours": 1}, policy=Policy(misfire_grace=None))
    server.advance(3600)
    commit(coordinator, *plans(scene))

    def entries() -> int:
        return sum(server.redis.hlen(server.key(f"fires:{one.schedule_id}")) for one in added)

    assert entries() == 50
    server.advance(40 * 86_400)
    seen = [entries()]
    for _ in range(3):
        commit(coordinator, *[replace(one, not_fired=()) for one in plans(scene)])
        seen.append(entries())
        server.advance(3600)
    # 50 new ones each time; of the 50 old ones 20, 20 and 10 go.
    assert seen == [50, 80, 110, 150]


def test_history_is_capped(server: StoreServer, scene: StoreScene) -> None:
    """By count, a tenth at a time."""
    made = scene.add("a", schedule_config={"seconds": 1}, policy=Policy(missed=Missed.CATCH_UP, misfire_grace=None))[0]
    coordinator = server.coordinator()
    for _ in range(13):
        server.advance(100)
        commit(coordinator, *plans(scene))
    assert 1000 <= server.redis.hlen(server.key(f"fires:{made.schedule_id}")) <= 1100


def _beat(scene: StoreScene) -> Beat:
    now = scene.backend.now()
    return Beat(owner="b9", host="h", pid=1, version="1", started=now, seen=now)


def test_names_are_unique_in_a_race(server: StoreServer) -> None:
    """Eight clients add the same names at once; each name is there once."""
    names = [f"s{n}" for n in range(20)]
    stores = [server.store() for _ in range(8)]
    barrier = threading.Barrier(8)
    written: list[Sequence[Any]] = []

    def add(number: int) -> None:
        mine = [make(name, schedule_id=f"{number:08x}-0000-0000-0000-{n:012x}") for n, name in enumerate(names)]
        barrier.wait(10)
        written.append(stores[number].insert(mine))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sum(list(one).count("done") for one in written) == 20
    assert [one.name for one in stores[0].find().items] == sorted(names)
    assert server.redis.hlen(server.key("jobs")) == 20


@pytest.mark.parametrize("verb", ["edit", "resume"])
def test_what_happens_between_reading_and_writing_counts(
    server: StoreServer, scene: StoreScene, coordinator: RedisCoordinator, verb: str
) -> None:
    """An edit is worked out from what was read, and worked out anew if a commit or another edit came in between."""
    made = scene.add("a")[0]
    server.advance(EVERY)
    (planned,) = plans(scene)
    editor = server.coordinator()
    ask = editor.ask
    seen: list[str] = []

    def interrupted(name: str, body: str, payload: Any) -> Any:
        answer = ask(name, body, payload)
        seen.append(name)
        if name == "store-look" and seen.count(name) == 1:
            if verb == "edit":
                assert commit(coordinator, planned)[0].verdict is Verdict.COMMITTED
            else:
                scene.other.release([made.schedule_id])
                scene.other.replace([Change(schedule=replace(made, prompt="theirs"))])
        return answer

    editor.ask = interrupted  # type: ignore[method-assign]
    store = RedisStore(editor)
    if verb == "edit":
        assert store.replace([Change(schedule=replace(made, timezone="Asia/Tokyo"), version=1)]) == [(Written.DONE, 2)]
        assert [entry.status for entry in scene.s.fires(made.schedule_id)] == [Status.PENDING]
    else:
        scene.s.hold([made.schedule_id], "person", "")
        assert store.release([made.schedule_id]) == [Written.DONE]
        assert [(entry.reason, entry.count) for entry in scene.ranges("a")] == [("paused", 1)]
        stored = scene.get("a").schedule
        assert stored is not None
        assert (stored.prompt, stored.version) == ("theirs", 2)
    assert seen == ["store-look", "store-edit"] * 2


def test_edits_and_commits_race_without_a_lost_due_time(server: StoreServer, scene: StoreScene) -> None:
    """Each due time is fired once or superseded once, whoever was first."""
    made = scene.add("a", policy=Policy(missed=Missed.CATCH_UP, misfire_grace=None, catch_up_limit=5000))[0]
    (start,) = [due.mark for due in scene.s.definitions([made.schedule_id]).values()]
    server.advance(30 * EVERY)
    committer, editor = server.store(), server.store()
    coordinator = server.coordinator()
    coordinator.attach()
    stop = threading.Event()

    def edit() -> None:
        for number in range(40):
            config = {**made.schedule_config, "tz": "UTC" if number % 2 else "Etc/UTC"}
            editor.replace([Change(schedule=replace(made, schedule_config=config, prompt=str(number)))])
        stop.set()

    thread = threading.Thread(target=edit)
    thread.start()
    while not stop.is_set():
        commit(coordinator, *plans(scene, committer))
        server.advance(EVERY)
    thread.join(30)
    commit(coordinator, *plans(scene, committer))
    (last,) = [due.mark for due in scene.s.definitions([made.schedule_id]).values()]
    entries = list(scene.s.fires(made.schedule_id, limit=1000))
    expected = due_times(start, last)
    assert sum(entry.count for entry in entries) == expected
    assert scene.get("a").state is State.ACTIVE
    assert any(entry.reason == "superseded" for entry in entries)
