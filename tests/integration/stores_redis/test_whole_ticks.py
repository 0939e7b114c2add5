"""Whole ticks of real beats on real Redis: Redis schedules in one step, rows of SQLite in two."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Delivery, Lease, Message, Outcome, RowStore, ScheduleStore, StartVerdict
from celery_parrot.protocols.editing import Change, Written
from celery_parrot.stores.redis import RedisStore
from celery_parrot.stores.sql import SqlStore, upgrade
from celery_parrot.testing import FakeClock, RecordingSender
from celery_parrot.testing.conformance.schedule_store import EVERY, make
from celery_parrot.testing.events import RecordingEvents
from tests.integration.stores_redis.server import StoreServer


class Linked(FakeClock):
    """The beats' own time and the server's, which move together."""

    def __init__(self, server: StoreServer) -> None:
        super().__init__()
        self._server = server

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._server.advance(seconds)


class Died(BaseException):
    """The process ends here; nothing in it may catch that."""


class Beat:
    def __init__(
        self, server: StoreServer, clock: Linked, owner: str, rows: Sequence[SqlStore] = (), *, redis: bool = True
    ) -> None:
        self.coordinator: RedisCoordinator = server.coordinator()
        self.sender = RecordingSender()
        self.rows = rows
        self._clock = clock
        stores: list[ScheduleStore] = [*rows]
        if redis:
            stores.append(RedisStore(self.coordinator))
        row_stores: list[RowStore] = [*rows]
        self.ticker = Ticker(
            coordinator=self.coordinator,
            stores=stores,
            sender=self.sender,
            router=Router(server.namespace, {}),
            clock=clock,
            events=RecordingEvents(),
            identity=Identity(owner=owner, host="h", pid=1, version="1"),
            settings=TickSettings(),
            rows=row_stores,
        )

    def tick(self) -> None:
        while self.ticker.tick() == 0.0:
            pass

    def dies(self) -> None:
        with pytest.raises(Died):
            self._settles()

    def _settles(self) -> None:
        """Where this machine was stalled, the server's clock seems to have stepped, and nothing is committed until
        further readings agree."""
        for _ in range(10):
            self.ticker.tick()
            self._clock.advance(0.2)


def run(beats: Sequence[Beat], clock: Linked, seconds: float) -> None:
    """Tick them in turn, twice a second."""
    for _ in range(round(seconds * 2)):
        clock.advance(0.5)
        for beat in beats:
            beat.tick()


def sent(*beats: Beat) -> list[Message]:
    return [message for beat in beats for message in beat.sender.sent]


def due_in_half_a_minute(server: StoreServer, name: str, every: int) -> Schedule:
    """So that no test begins on the edge of a due time."""
    offset = (server.now().timestamp() + 30) % every
    return make(name, schedule_config={"seconds": every, "offset": offset})


def dies_after(call: Callable[..., Any]) -> Callable[..., Any]:
    def dying(*args: Any, **kwargs: Any) -> Any:
        call(*args, **kwargs)
        raise Died

    return dying


@pytest.fixture
def clock(server: StoreServer) -> Linked:
    return Linked(server)


# --- redis schedules ---


def test_beats_share_redis_schedules(server: StoreServer, clock: Linked) -> None:
    """Each due time is sent once by one of them, a pause holds at once, a resume goes on from then."""
    store = server.store()
    made = due_in_half_a_minute(server, "a", EVERY)
    assert list(store.insert([made])) == [Written.DONE]
    beats = [Beat(server, clock, f"b{n}") for n in range(2)]
    run(beats, clock, 5 * EVERY)
    ids = [message.task_id for message in sent(*beats)]
    assert len(ids) == len(set(ids)) == 5
    store.hold([made.schedule_id], "person", "quiet")
    run(beats, clock, 3 * EVERY)
    assert len(sent(*beats)) == 5
    store.release([made.schedule_id])
    run(beats, clock, EVERY)
    assert len(sent(*beats)) == 6
    entries = store.fires(made.schedule_id)
    assert sum(entry.count for entry in entries if entry.status is Status.SENT) == 6
    assert [(entry.reason, entry.count) for entry in entries if entry.status is Status.SKIPPED] == [("paused", 3)]


# --- rows ---


@pytest.fixture
def rows(tmp_path: Path, server: StoreServer) -> Iterator[Callable[[], SqlStore]]:
    url = f"sqlite:///{tmp_path / 'rows.sqlite3'}"
    upgrade(url)
    opened: list[SqlStore] = []

    def open_() -> SqlStore:
        opened.append(SqlStore(url, namespace=server.namespace))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


class World:
    """One schedule in a row, two beats."""

    def __init__(self, server: StoreServer, clock: Linked, rows: Callable[[], SqlStore]) -> None:
        self.clock = clock
        self.rows = rows()
        self.made = due_in_half_a_minute(server, "r", 3600)
        self.rows.insert([self.made])
        self.b1 = Beat(server, clock, "b1", [rows()], redis=False)
        self.b2 = Beat(server, clock, "b2", [rows()], redis=False)
        self.b1.tick()
        self.b2.tick()

    def until_due(self) -> None:
        self.clock.advance(31)

    def others_find_it(self) -> None:
        run([self.b2], self.clock, 22)

    def history(self) -> list[tuple[Status, str]]:
        return [(entry.status, entry.reason) for entry in self.rows.fires(self.made.schedule_id)]


@pytest.fixture
def world(server: StoreServer, clock: Linked, rows: Callable[[], SqlStore]) -> World:
    return World(server, clock, rows)


def test_a_fire_of_a_row_and_its_outcome(world: World) -> None:
    """Prepared, moved, sent once, and what happened is in the row within a second."""
    world.until_due()
    run([world.b1, world.b2], world.clock, 1)
    (message,) = sent(world.b1, world.b2)
    (entry,) = world.rows.fires(world.made.schedule_id)
    assert (entry.fire_id, entry.status) == (message.task_id, Status.SENT)
    coordinator = world.b1.coordinator
    delivery = Delivery(key=entry.key, name="r", kind="task", token="t", worker="w")
    assert coordinator.start([delivery])[0].verdict is StartVerdict.RUN
    coordinator.finish([Outcome(lease=Lease(entry.key, "t"), status=Status.SUCCESS, output="42")])
    run([world.b1, world.b2], world.clock, 1)
    assert world.history() == [(Status.SUCCESS, "")]
    stored = world.rows.get(["r"])[0]
    assert stored is not None
    assert (stored.run_state.last_status, stored.run_state.last_result, stored.run_state.run_count) == (
        "success",
        "42",
        1,
    )
    assert coordinator.uncarried() == []


def test_killed_between_the_steps(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claims are prepared, the row has not moved: another beat repeats the second step and sends it once."""
    world.until_due()
    monkeypatch.setattr(world.b1.coordinator, "prepare", dies_after(world.b1.coordinator.prepare))
    world.b1.dies()
    world.others_find_it()
    assert len(sent(world.b1, world.b2)) == 1
    assert world.history() == [(Status.SENT, "")]


def test_killed_after_the_row_moved(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace 4: the mark is past the fire, the token in the history proves it."""
    world.until_due()
    (row_store,) = world.b1.rows
    monkeypatch.setattr(row_store, "advance", dies_after(row_store.advance))
    world.b1.dies()
    assert world.history() == [(Status.PENDING, "")]
    world.others_find_it()
    assert len(sent(world.b1, world.b2)) == 1
    assert world.history() == [(Status.SENT, "")]


def test_killed_between_the_steps_and_then_edited(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace 5: the row refutes the claim; the due time fires once, as the new definition says."""
    world.until_due()
    monkeypatch.setattr(world.b1.coordinator, "prepare", dies_after(world.b1.coordinator.prepare))
    world.b1.dies()
    world.rows.replace([Change(schedule=replace(world.made, args=("new",)))])
    world.others_find_it()
    (message,) = sent(world.b1, world.b2)
    assert message.args == ("new",)


def test_a_lost_reply_of_the_first_step(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same beat goes on: it meets its own claim, proves it and sends it once."""
    prepare = world.b1.coordinator.prepare
    lost: list[Any] = []

    def losing(*args: Any) -> Any:
        answer = prepare(*args)
        if not lost:
            lost.append(answer)
            raise Unreachable("the answer was lost")
        return answer

    monkeypatch.setattr(world.b1.coordinator, "prepare", losing)
    world.until_due()
    run([world.b1], world.clock, 8)
    assert lost
    assert len(sent(world.b1)) == 1
    assert world.history() == [(Status.SENT, "")]


@pytest.mark.parametrize("step", ["prepare", "advance"])
def test_a_flush_between_the_steps_and_the_death_of_the_beat(
    world: World, server: StoreServer, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """As far as another beat had seen the entry, it puts it back with its proof; nothing is sent twice."""
    world.until_due()
    what = world.b1.coordinator if step == "prepare" else world.b1.rows[0]
    monkeypatch.setattr(what, step, dies_after(getattr(what, step)))
    world.b1.dies()
    world.clock.advance(1)
    world.b2.tick()
    server.redis.flushdb()
    run([world.b2], world.clock, 45)
    assert len(sent(world.b1, world.b2)) == 1
    assert world.history() == [(Status.SENT, "")]


def test_a_flush_after_the_send(world: World, server: StoreServer) -> None:
    """Trace 6: the row did not forget."""
    world.until_due()
    run([world.b1, world.b2], world.clock, 1)
    server.redis.flushdb()
    run([world.b1, world.b2], world.clock, 40)
    assert len(sent(world.b1, world.b2)) == 1
    (claim,) = world.b1.coordinator.claims(
        [FireKey(world.made.schedule_id, world.rows.fires(world.made.schedule_id)[0].due_at)]
    )
    assert claim is None
