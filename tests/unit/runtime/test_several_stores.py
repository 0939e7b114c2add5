"""Stores of SQL, Redis and code in one beat: who has a name, who wakes it, what is put together."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_parrot import ConfigurationError, Parrot, Unreachable
from celery_parrot.clock import SystemClock
from celery_parrot.coordination.memory import MemoryWake
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import next_sending, trigger_of
from celery_parrot.protocols import Due, Mark, Registration
from celery_parrot.runtime.precedence import Outranked, TakenIn, none_taken
from celery_parrot.runtime.wakes import EitherWake
from celery_parrot.stores.memory import CodeStore
from celery_parrot.testing import FakeClock
from tests.support.waiting import monotonic, wait_until
from tests.unit.client.conftest import in_code

START = datetime(2026, 1, 1, tzinfo=UTC)
REDIS = "redis://127.0.0.1:1/0"


# --- precedence ---


class Shelf:
    """A store of schedules whose marks it keeps itself."""

    name = "redis"

    def __init__(self, *names: str, every: float = 60) -> None:
        self.items = [
            Schedule(
                schedule_id=f"id of {name}", name=name, target="t", store="redis",
                schedule_type="interval", schedule_config={"seconds": every},
            )
            for name in names
        ]  # fmt: skip
        self.learned: list[Mark] = []
        self.asked: list[int] = []

    def _all(self) -> list[tuple[datetime, Due]]:
        found = []
        for item in self.items:
            trigger = trigger_of(item)
            at = next_sending(item, trigger, START)
            assert at is not None
            found.append((at, Due(item, trigger, START)))
        return found

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        self.asked.append(limit)
        return [due for at, due in self._all() if at <= before][:limit]

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        return self.due(before, kinds, limit)

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        return min((at for at, _ in self._all()), default=None)

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        return {due.schedule.schedule_id: due for _, due in self._all() if due.schedule.schedule_id in schedule_ids}

    def registrations(self) -> Sequence[Registration]:
        return [Registration(schedule_id=item.schedule_id, when="") for item in self.items]

    def learn(self, marks: Iterable[Mark]) -> None:
        self.learned.extend(marks)

    def forget_marks(self) -> None: ...

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        return self.registrations(), [Mark(schedule_id=item.schedule_id, last_due=START) for item in self.items]


LATER = START + timedelta(minutes=1)


def outranked(shelf: Shelf, *in_the_code: str, taken: Any = none_taken) -> tuple[Outranked, list[str]]:
    told: list[str] = []
    code = CodeStore([in_code(name) for name in in_the_code])
    return Outranked(shelf, code, taken, lambda schedule, reason: told.append(f"{schedule.name}: {reason}")), told


def names(found: Sequence[Due]) -> list[str]:
    return [due.schedule.name for due in found]


def test_the_code_comes_first_and_it_is_said_once() -> None:
    store, told = outranked(Shelf("a", "b", "c"), "b")
    for _ in range(3):
        assert names(store.due(LATER, ["task"], 10)) == ["a", "c"]
    assert told == ["b: a schedule of that name is in the code, which comes first; rename or delete this one"]


def test_a_broken_schedule_of_the_code_has_its_name_too() -> None:
    store = Outranked(Shelf("a"), CodeStore([in_code("a", broken="x")]), none_taken, lambda *_: None)
    assert names(store.due(LATER, ["task"], 10)) == []


def test_what_gives_way_neither_crowds_out_the_rest_nor_wakes_the_beat() -> None:
    shelf = Shelf("a", "b", "c", "d")
    store, _ = outranked(shelf, "a", "b")
    assert names(store.due(LATER, ["task"], 2)) == ["c", "d"]
    shelf.items[2:] = [Schedule(**{**_fields(shelf.items[2]), "schedule_config": {"hours": 1, "offset": 61}})]
    assert names(store.due(LATER, ["task"], 10)) == []
    following = store.next_due(["task"])
    assert following is not None
    assert LATER < following <= LATER + timedelta(seconds=3)


def _fields(schedule: Schedule) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in Schedule.__dataclass_fields__}


def test_an_id_that_is_a_name_in_the_code_is_never_answered_for() -> None:
    """The fires of that id are the code schedule's."""
    shelf = Shelf("a", "b")
    store, _ = outranked(shelf, "id of a")
    assert names(store.due(LATER, ["task"], 10)) == ["b"]
    assert list(store.definitions(["id of a", "id of b"])) == ["id of b"]
    assert [one.schedule_id for one in store.registrations()] == ["id of b"]
    assert [mark.schedule_id for mark in store.remembered()[1]] == ["id of b"]
    store.learn([Mark(schedule_id="id of a", last_due=LATER), Mark(schedule_id="id of b", last_due=LATER)])
    assert [mark.schedule_id for mark in shelf.learned] == ["id of b"]


def test_the_database_comes_before_redis_and_is_asked_once_a_minute() -> None:
    clock, asked = FakeClock(), list[list[str]]()
    there = {"b"}
    down = False

    def get(texts: Sequence[str]) -> list[Any]:
        asked.append(list(texts))
        if down:
            raise Unreachable("away")
        return [object() if text in there else None for text in texts]

    store, told = outranked(Shelf("a", "b"), taken=TakenIn(get, clock))
    for _ in range(3):
        assert names(store.due(LATER, ["task"], 10)) == ["a"]
    assert [sorted(texts) for texts in asked] == [["a", "b", "id of a", "id of b"]]
    assert told[0].startswith("b: a schedule of that name is in the database")
    clock.advance(61)
    down = True
    assert names(store.due(LATER, ["task"], 10)) == ["a"], "as last known"
    down, there = False, set()
    assert names(store.due(LATER, ["task"], 10)) == ["a", "b"]


def test_a_name_that_is_not_known_yet_runs_while_the_database_is_away() -> None:
    def get(texts: Collection[str]) -> list[Any]:
        raise Unreachable("away")

    store, _ = outranked(Shelf("a"), taken=TakenIn(get, FakeClock()))
    assert names(store.due(LATER, ["task"], 10)) == ["a"]


# --- waking ---


def test_either_channel_wakes() -> None:
    clock = SystemClock()
    channels = MemoryWake(clock), MemoryWake(clock)
    either = EitherWake(channels, clock)
    for channel in channels:
        channel.wake()
        assert either.wait(10)
        assert not either.wait(0.01)
    either.wake()
    assert either.wait(10)
    started = monotonic()
    assert not either.wait(0.2) or not either.wait(0.2)  # the two wakes may come one after the other
    assert monotonic() - started >= 0.15
    closing = threading.Timer(0.1, either.close)
    closing.start()
    assert either.wait(10)
    closing.join()
    wait_until(lambda: not any(thread.name == "parrot-wake" for thread in threading.enumerate()), "the threads to end")


# --- putting it together ---


def make_app(**settings: Any) -> Celery:
    app = Celery("test", set_as_current=False, broker=REDIS)
    app.conf.update({"result_expires": None, **settings})
    return app


def test_a_beat_has_the_stores_of_its_settings(tmp_path: Path) -> None:
    """Nothing is connected yet: neither Redis nor the file is there."""
    parrot = Parrot(make_app(parrot_database_url=f"sqlite:///{tmp_path}/none/x.db", parrot_history_days=3))
    beat = parrot.beat()
    assert (beat.backends.db.name, beat.backends.redis.name) == ("db", "redis")
    assert parrot.schedules.stores == ("code", "db", "redis")
    beat.close(1.0)
    parrot.close()


def test_without_redis_there_is_the_code_alone() -> None:
    app = make_app(broker_url="memory://")
    parrot = Parrot(app)
    assert parrot.beat().backends.redis is None
    assert parrot.schedules.stores == ("code",)
    with pytest.raises(Exception, match="set parrot_database_url or parrot_redis_url"):
        parrot.schedules.create(name="a", target="t", schedule_type="interval", schedule_config={"seconds": 1})
    parrot.close()


def test_in_one_process_without_a_coordinator_the_beat_that_it_drives_is_asked() -> None:
    """An agent's daemon, say."""
    clock = FakeClock(START)
    app = make_app(broker_url="memory://", beat_schedule={"it": {"task": "t", "schedule": 10.0}})
    parrot = Parrot(app, clock=clock)
    parrot.tick()
    parrot.schedules.pause("it", note="quiet")
    clock.advance(35)
    parrot.tick()
    assert parrot.schedules.get("it").run_state.run_count == 0
    parrot.schedules.resume("it")
    (entry,) = parrot.schedules.fires("it")
    assert (entry.reason, entry.count) == ("paused", 3)
    parrot.close()


def test_a_store_that_is_handed_in_takes_the_place_of_its_name() -> None:
    shelf = Shelf("a")
    parrot = Parrot(make_app(parrot_coordination="none"), stores=[shelf])
    assert parrot.settings.coordination == "redis"
    assert "redis store are shared by all beats" in parrot.settings.warnings[0]
    assert parrot.beat().backends.redis is shelf
    with pytest.raises(ConfigurationError, match="is the name of two stores"):
        Parrot(make_app(), stores=[shelf, Shelf("b")]).beat()


def test_a_driver_that_is_not_installed_is_named() -> None:
    parrot = Parrot(make_app(parrot_database_url="mysql+nosuch://u:s3cret@h/d"))
    with pytest.raises(ConfigurationError) as caught:
        parrot.beat()
    assert caught.value.key == "parrot_database_url"
    assert "s3cret" not in str(caught.value)
