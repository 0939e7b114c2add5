"""Two beats, one schedule in a row: the one that sends dies, or the coordinator forgets, at every single call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols.editing import Change
from tests.integration.ledgers.scene import (
    Died,
    InMemory,
    OnRedis,
    die,
    hourly,
    lose,
    opened,
    settle,
    store_of,
    wire_of,
)
from tests.integration.stores_redis.server import StoreServer
from tests.integration.stores_sql.database import SharedDatabases

Setting = InMemory | OnRedis


@pytest.fixture(params=["memory-sqlite", "redis-postgresql"])
def make_scene(
    request: pytest.FixtureRequest, server: StoreServer, databases: SharedDatabases, full: bool
) -> Callable[[], Setting]:
    """An empty scene, as often as wanted."""
    coordinator, _, dialect = request.param.partition("-")
    if coordinator == "redis" and not full:
        pytest.skip("the long form has the servers (make long)")

    def make() -> Setting:
        if coordinator == "memory":
            return InMemory(dialect, databases.get(dialect))
        server.redis.flushdb()
        with opened(dialect, server, databases) as scene:
            return scene

    return make


class Story:
    """The schedule is due, and the first beat ticks with something going wrong. The second one lives all along."""

    def __init__(self, scene: Setting) -> None:
        self.scene = scene
        self.made = hourly(scene, due_in=6)
        scene.store.insert([self.made])
        self.first, self.second = scene.beat(), scene.beat()
        scene.run(4)  # a silence of more than 3 s would count as an outage, after which nobody is judged
        scene.advance(2.5)
        # The journal begins with the tick that fires.
        wire_of(self.first).calls.clear()

    def tick(self) -> None:
        """The first beat's tick; it may be its last."""
        try:
            settle(self.first)
        except Died:
            self.scene.beats.remove(self.first)

    def end(self, seconds: float) -> None:
        """Long enough for everything that is left over: 14 s, or 30 s after a loss of memory."""
        self.scene.run(seconds)

    def messages(self) -> list[str]:
        return [message.task_id for beat in (self.first, self.second) for message in beat.sent]

    def check(self, *, doubt: bool = False, forgotten: bool = False) -> None:
        """The due time was sent exactly once, and the row says so.

        :param doubt: it was sent before the death, which nobody can know: twice under one task id, of which a worker
            runs one.
        :param forgotten: the row may say less.
        """
        ids = self.messages()
        assert len(set(ids)) == 1, f"{len(ids)} messages"
        assert len(ids) == 1 or (doubt and len(ids) == 2), f"{len(ids)} messages"
        (entry,) = self.scene.store.fires(self.made.schedule_id)
        assert entry.fire_id == ids[0]
        assert entry.status is Status.SENT or (forgotten and entry.status is Status.PENDING)


def calls_of_a_tick(make_scene: Callable[[], Setting]) -> list[str]:
    """What the beat that fires asks, in order."""
    story = Story(make_scene())
    story.tick()
    calls = list(wire_of(story.first).calls)
    story.end(14)
    story.check()
    assert calls.index("prepare") < calls.index("advance") < calls.index("send") < calls.index("confirm")
    return calls


def struck(story: Story, calls: list[str]) -> range:
    """Which of them something happens at: in memory all, else those from the claim on until the fire is confirmed."""
    if isinstance(story.scene, InMemory):
        return range(len(calls))
    return range(calls.index("prepare"), calls.index("confirm") + 1)


def struck_at(
    make_scene: Callable[[], Setting], calls: list[str], number: int, do: Callable[[Story], object], *, before: bool
) -> Story:
    """The story in which that happens at that call of the first beat's tick. It is told anew where the tick had another
    call there: on a real server real time passes, so a renewal may be due in one telling and not in the other."""
    for _ in range(10):
        story = Story(make_scene())
        hooks = story.scene.hooks[story.first.owner]
        for hooked in hooks:
            hooked.at(number, partial(do, story), before=before)
        story.tick()
        if calls[number] in [hooked.struck for hooked in hooks]:
            return story
    raise AssertionError(f"no tick had {calls[number]} as its call {number}")


def test_killed_at_every_call(make_scene: Callable[[], Setting]) -> None:
    """Before and after each; between the claim and the row's move, and between that and the send, among others."""
    calls = calls_of_a_tick(make_scene)
    sending = calls.index("send")
    numbers = struck(Story(make_scene()), calls)
    for number, before in [(number, True) for number in numbers] + [(numbers[-1], False)]:
        story = struck_at(make_scene, calls, number, lambda _: die(), before=before)
        assert story.first not in story.scene.beats, "it died"
        story.end(14)
        doubt = sending < number <= calls.index("confirm")
        _judge(story, f"killed {'before' if before else 'after'} {calls[number]}", doubt=doubt)


def test_memory_lost_at_every_call(make_scene: Callable[[], Setting]) -> None:
    """The coordinator forgets everything while both beats live: nothing is lost, nothing is sent twice. That a message
    was sent may be forgotten where that was not yet told to the row."""
    calls = calls_of_a_tick(make_scene)
    for number in struck(Story(make_scene()), calls):
        story = struck_at(make_scene, calls, number, lambda story: story.scene.flush(), before=False)
        story.end(30)
        forgotten = number >= calls.index("confirm")
        _judge(story, f"flushed after {calls[number]}", forgotten=forgotten)


def test_memory_lost_and_killed(make_scene: Callable[[], Setting]) -> None:
    """Both at once, from the row's move on: the due time never fires a second time. What nobody else had seen in the
    outbox may be lost with both."""
    calls = calls_of_a_tick(make_scene)

    def flush_and_die(story: Story) -> None:
        story.scene.flush()
        die()

    for number in range(calls.index("advance"), calls.index("confirm") + 1):
        story = struck_at(make_scene, calls, number, flush_and_die, before=False)
        story.end(30)
        assert len(story.messages()) <= 1, f"flushed and killed after {calls[number]}"


def test_replies_lost_at_every_call(make_scene: Callable[[], Setting]) -> None:
    """Carried out, but the beat is not told (trace 4 for ``advance``): sent once, not dropped."""
    calls = calls_of_a_tick(make_scene)
    for number in struck(Story(make_scene()), calls):
        if calls[number] == "send":
            continue  # a sender answers for itself
        story = struck_at(make_scene, calls, number, lambda _: lose(), before=False)
        story.end(14)
        _judge(story, f"reply of {calls[number]} lost")


def test_calls_refused_at_every_call(make_scene: Callable[[], Setting]) -> None:
    """Not carried out at all."""
    calls = calls_of_a_tick(make_scene)
    for number in struck(Story(make_scene()), calls):
        if calls[number] == "send":
            continue
        story = struck_at(make_scene, calls, number, lambda _: lose(), before=True)
        story.end(14)
        _judge(story, f"{calls[number]} refused")


def _judge(story: Story, what: str, *, doubt: bool = False, forgotten: bool = False) -> None:
    try:
        story.check(doubt=doubt, forgotten=forgotten)
    except (AssertionError, ValueError) as exc:
        raise AssertionError(f"{what}: {exc}") from exc


# --- the rules that make it so ---


@pytest.fixture
def story(databases: SharedDatabases) -> Story:
    """In memory, over SQLite."""
    return Story(InMemory("sqlite", databases.get("sqlite")))


def test_without_the_token_in_the_history_a_fire_is_dropped(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace 4: whoever only compares marks takes a commit whose reply was lost for one that never was."""
    from celery_parrot.stores.sql.advance import Advancer

    def only_compares(self: Advancer, fires: object) -> list[bool]:
        return [False for _ in fires]  # type: ignore[attr-defined]

    monkeypatch.setattr(Advancer, "prove", only_compares)
    store_of(story.first).after("advance", die)
    story.tick()
    story.end(14)
    assert story.messages() == []


def claimed_then_moved(story: Story) -> None:
    """Trace 5: the beat dies between the steps, and the schedule is then moved to another time of day."""
    wire_of(story.first).after("prepare", die)
    story.tick()
    config = {**story.made.schedule_config, "offset": (story.made.schedule_config["offset"] + 1800) % 3600}
    story.scene.store.replace([Change(schedule=replace(story.made, schedule_config=config))])
    story.end(14)


def test_a_claim_that_the_row_refutes_is_dropped(make_scene: Callable[[], Setting]) -> None:
    """Trace 5: nothing is sent at the old time, and the claim is gone."""
    story = Story(make_scene())
    claimed_then_moved(story)
    assert story.messages() == []
    assert [one.status for one in story.scene.store.fires(story.made.schedule_id)] == []


def test_without_asking_the_row_it_is_sent(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever believes every claim sends at a time that nobody wants any more."""
    from celery_parrot.stores.sql.advance import Advancer

    monkeypatch.setattr(Advancer, "prove", lambda self, fires: [True for _ in fires])
    claimed_then_moved(story)
    assert len(story.messages()) == 1


def stale_plan_after_a_flush(story: Story) -> None:
    """Trace 6: the second beat has scanned; the first fires; the coordinator forgets everything; the second goes on
    with what it had planned."""
    scene = story.scene

    def meanwhile() -> None:
        story.tick()
        scene.flush()
        scene.coordinator().attach()

    store_of(story.second).after("due", meanwhile)
    settle(story.second)
    story.end(30)


def test_a_stale_plan_after_a_flush_sends_nothing(make_scene: Callable[[], Setting]) -> None:
    """Trace 6: the row did not move for it."""
    story = Story(make_scene())
    stale_plan_after_a_flush(story)
    assert len(story.messages()) == 1


def test_without_the_row_it_would(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where only the coordinator remembers, what it forgot happens again."""
    from celery_parrot.model.plan import Verdict
    from celery_parrot.stores.sql import SqlStore

    seen: list[object] = []

    def believes(self: SqlStore, moves: object, beat: str) -> list[object]:
        seen.append(beat)
        return [(Verdict.COMMITTED, move.plan.new_mark) for move in moves]  # type: ignore[attr-defined]

    monkeypatch.setattr(SqlStore, "advance", believes)
    key = story.made.schedule_id

    def meanwhile() -> None:
        story.tick()
        story.scene.flush()

    store_of(story.second).after("due", meanwhile)
    coordinator = story.scene.coordinator()
    settle(story.second)
    for _ in range(34):
        story.scene.advance(1)
        settle(story.second)
    assert len(seen) >= 2
    assert len(story.messages()) >= 2
    assert coordinator.claims([FireKey(key, story.scene.now())]) == [None]
