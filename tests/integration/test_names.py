"""Names that would do harm as part of a key, a pattern or a statement: in real servers they are only names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import strategies as st

from celery_parrot.client.rules import Rules
from celery_parrot.clock import SystemClock, new_id
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.fire import FireKey, Namespace
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.protocols import Grant, Hold, Limit, LimitRequest, Registration
from celery_parrot.protocols.editing import Written
from celery_parrot.stores.redis import RedisStore
from tests.integration.stores_sql.database import TABLES, SqlDatabase
from tests.support.fuzz import NAMES, tried

SPACE = Namespace("names")
STRANGE = st.fixed_dictionaries({"name": NAMES, "target": NAMES, "tenant": NAMES, "kind": NAMES, "note": NAMES})


@pytest.fixture
def permanent_keys() -> tuple[str, ...]:
    return ("*",)


@pytest.fixture
def in_redis(redis_url: str) -> Iterator[RedisCoordinator]:
    with closing(RedisCoordinator(redis_url, SPACE)) as coordinator:
        coordinator.attach()
        yield coordinator


def lived(store: Any, one: dict[str, Any]) -> None:
    """A schedule is saved, found by its name, paused, resumed and deleted; nobody else is touched."""
    fields = {**one, "schedule_type": "interval", "schedule_config": {"hours": 1}}
    note = fields.pop("note").replace("\0", "")
    now = SystemClock().now()
    try:
        schedule = Rules().new(fields, store.name, new_id(), now)
    except InvalidSchedule:
        return  # control characters and what is blank
    try:
        note.encode()
    except UnicodeEncodeError:
        note = ""
    assert store.insert([schedule]) == [Written.DONE], one
    (stored,) = store.get([schedule.name])
    assert stored.schedule.name == schedule.name
    assert (stored.schedule.target, stored.schedule.tenant) == (schedule.target, schedule.tenant)
    assert [found.name for found in store.find(kind=schedule.kind).items] == [schedule.name]
    assert schedule.name in [found.name for found in store.find(text=schedule.name).items]
    assert store.due(now, [schedule.kind], 10) == []
    assert store.hold([stored.schedule_id], "person", note) == [Written.DONE]
    assert store.release([stored.schedule_id]) == [Written.DONE]
    assert store.fires(schedule.name) in ([], ())
    assert {found.name for found in store.find().items} == {"other", schedule.name}
    assert store.delete([stored.schedule_id]) == [Written.DONE]


def beside(store: Any) -> None:
    """One that must be there all the time."""
    other = {"name": "other", "target": "t", "schedule_type": "interval", "schedule_config": {"hours": 1}}
    store.insert([Rules().new(other, store.name, new_id(), SystemClock().now())])


def test_schedules_in_redis(in_redis: RedisCoordinator, redis_client: redis.Redis, full: bool) -> None:
    store = RedisStore(in_redis)
    beside(store)
    tried(STRANGE, lambda one: lived(store, one), full=full, short=60)
    assert all(str(key).startswith(SPACE.prefix) for key in redis_client.keys("*"))


def test_a_search_takes_every_letter_as_it_is(tmp_path: Path) -> None:
    """No pattern of SQL, and letters beyond English where the database cannot change their case."""
    with closing(SqlDatabase(f"sqlite:///{tmp_path}/names.db")) as database:
        store = database.store()
        beside(store)
        for name in ("50%", "50_", "a/b", "\\", "Ångström"):
            fields = {"name": name, "target": "t", "schedule_type": "interval", "schedule_config": {"hours": 1}}
            store.insert([Rules().new(fields, store.name, new_id(), SystemClock().now())])
        for text, found in {"0%": "50%", "0_": "50_", "A/": "a/b", "\\": "\\", "Ång": "Ångström"}.items():
            assert [one.name for one in store.find(text=text).items] == [found], text


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql", "mysql"])
def test_schedules_in_a_database(dialect: str, tmp_path: Path, full: bool, request: pytest.FixtureRequest) -> None:
    if dialect == "mysql" and not full:
        pytest.skip("the long form has MariaDB too (make long)")
    url = f"sqlite:///{tmp_path}/names.db" if dialect == "sqlite" else request.getfixturevalue(f"{dialect}_url")
    with closing(SqlDatabase(url)) as database:
        store = database.store()
        beside(store)
        tried(STRANGE, lambda one: lived(store, one), full=full, short=40)
        assert all(database.sql(f"SELECT count(*) FROM {table}") for table in TABLES)


def test_ids_and_groups_in_redis(in_redis: RedisCoordinator, redis_client: redis.Redis, full: bool) -> None:
    """The id of a schedule in code is its name, and a group is part of a key: neither leaves the prefix, nor meets
    another's."""
    due = in_redis.attach().now.replace(microsecond=0)

    def check(one: tuple[str, str]) -> None:
        schedule_id, group = (f"{new_id()}{name}" for name in one)
        try:
            f"{schedule_id}{group}".encode()
        except UnicodeEncodeError:
            return
        limits = (Limit(f"group:{group}"),)
        keys = [FireKey(f"{schedule_id}{suffix}", due) for suffix in ("", ":", f":{due.isoformat()}")]
        replies = []
        for key in keys:
            in_redis.register([Registration(schedule_id=key.schedule_id, when="-", initial=due.replace(year=2020))])
            plan = Plan(
                schedule_id=key.schedule_id, name=key.schedule_id, kind="task",
                expected_mark=due.replace(year=2020), new_mark=due, fires=(PlannedFire(due),),
            )  # fmt: skip
            in_redis.commit([plan], "beat")
            (reply,) = in_redis.request([LimitRequest(hold=Hold(key, "beat"), limits=limits)])
            replies.append(reply.grant)
        assert replies == [Grant.GRANTED, Grant.WAITING, Grant.WAITING]
        assert [fire and fire.key for fire in in_redis.claims(keys)] == keys

    tried(st.tuples(NAMES, NAMES), _outside(redis_client, check), full=full, short=40)


def _outside(client: redis.Redis, check: Callable[[Any], None]) -> Callable[[Any], None]:
    def checked(one: Any) -> None:
        check(one)
        assert all(str(key).startswith(SPACE.prefix) for key in client.keys("*"))

    return checked
