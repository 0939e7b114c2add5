"""Processes that race, freeze, fork, or lose the connection in the middle of a call."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import Connection, text

from celery_parrot.clock import SystemClock
from celery_parrot.coordination.sql import SqlCoordinator
from celery_parrot.coordination.sql.link import FROZEN_AFTER, Link
from celery_parrot.database.engine import make_engine
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import Namespace
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Memory
from celery_parrot.testing.conformance import TIMING, Backend, Scene
from tests.integration.stores_sql.database import SharedDatabases, SqlDatabase
from tests.support.forks import fork, in_child
from tests.support.waiting import monotonic, wait_until

NAME = Namespace("processes")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabases]:
    """The databases of this module."""
    databases = SharedDatabases(tmp_path_factory.mktemp("databases"))
    yield databases
    databases.close()


@pytest.fixture
def postgresql(shared: SharedDatabases) -> SqlDatabase:
    """A PostgreSQL with our tables."""
    return _emptied(shared.get("postgresql"))


@pytest.fixture
def mysql(shared: SharedDatabases) -> SqlDatabase:
    """A MariaDB with our tables."""
    return _emptied(shared.get("mysql"))


def _emptied(database: SqlDatabase) -> SqlDatabase:
    for name in ("space", "claim", "turn", "hold", "state", "entry", "carry", "beat"):
        database.sql(f"DELETE FROM service_scheduler_{name}")
    return database


def scene_of(coordinator: SqlCoordinator) -> Scene:
    return Scene(coordinator, cast(Backend, None))  # whose clock nobody moves


def coordinator_of(database: SqlDatabase) -> SqlCoordinator:
    return SqlCoordinator(database.url, NAME, TIMING)


def test_two_processes_race_for_claims(postgresql: SqlDatabase) -> None:
    """Each due time has one winner, whoever it is."""
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()
    gate = monotonic() + 0.5
    readable, writable = os.pipe()

    def race(owner: str) -> None:
        own = scene_of(coordinator_of(postgresql))
        own.base = scene.base
        wait_until(lambda: monotonic() >= gate, "the start of the race", 5)
        for n in range(1, 16):
            reply = own.commit(n, owner=owner, mark=n - 1)
            assert reply.verdict in (Verdict.COMMITTED, Verdict.MOVED)
            os.write(writable, b"".join(b"%d\n" % n for _ in reply.fires))

    codes = [fork(lambda owner=owner: race(owner)) for owner in ("b1", "b2")]  # type: ignore[misc]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in codes] == [0, 0]
    os.close(writable)
    won = sorted(int(line) for line in _all_of(readable).split())
    assert won == list(range(1, 16))
    assert len(coordinator.fires("a")) == 15
    coordinator.close()


def _all_of(readable: int) -> bytes:
    found = b""
    while chunk := os.read(readable, 65536):
        found += chunk
    os.close(readable)
    return found


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_a_process_frozen_inside_a_transaction_holds_nobody_up_for_long(
    dialect: str, request: pytest.FixtureRequest
) -> None:
    """The server ends its transaction; what it had written is gone with it."""
    database: SqlDatabase = request.getfixturevalue(dialect)
    coordinator = coordinator_of(database)
    scene = scene_of(coordinator)
    scene.register()
    readable, writable = os.pipe()

    def freeze() -> None:
        def work(connection: Any, identity: str) -> None:
            connection.execute(text("UPDATE service_scheduler_space SET epoch = 'frozen', calls = calls + 1"))
            os.write(writable, b"x")
            os.kill(os.getpid(), signal.SIGSTOP)

        Link(database.url, SystemClock()).transaction(work)

    pid = fork(freeze)
    try:
        assert os.read(readable, 1) == b"x"
        begun = monotonic()
        assert scene.commit(1).fires
        assert monotonic() - begun < FROZEN_AFTER + 2.5
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        coordinator.close()


def test_a_call_whose_connection_is_cut_in_the_middle_is_made_again(postgresql: SqlDatabase) -> None:
    """On a new connection, as a whole."""
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()
    begun = 0
    real = coordinator._locked

    def cut(connection: Any, identity: str) -> Any:
        nonlocal begun
        begun += 1
        space = real(connection, identity)
        if begun == 1:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
            postgresql.sql("SELECT pg_terminate_backend(:pid)", pid=pid)
        return space

    coordinator._locked = cut  # type: ignore[method-assign]
    assert [fire.due_at for fire in scene.commit(1).fires] == [scene.due(1)]
    assert begun == 2
    coordinator.close()


def test_a_repeat_after_a_lost_reply_finds_its_fires_in_the_sweep(postgresql: SqlDatabase) -> None:
    """The transaction was committed, and the answer did not arrive: the repeat says MOVED, and claims nothing twice."""
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()
    real = coordinator._link.transaction

    def lose(work: Any) -> Any:
        real(work)
        raise Unreachable("lost")

    coordinator._link.transaction = lose  # type: ignore[method-assign]
    with pytest.raises(Unreachable):
        scene.commit(1)
    coordinator._link.transaction = real  # type: ignore[method-assign]
    assert scene.commit(1).verdict is Verdict.MOVED
    assert [fire.key for fire in scene.sweep().entries] == [scene.key(1)]
    coordinator.close()


def test_data_that_went_back_in_time_is_a_loss_of_memory(postgresql: SqlDatabase) -> None:
    """A restored copy has the old epoch, and knows less than this process saw committed."""
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()
    postgresql.sql("UPDATE service_scheduler_space SET calls = calls - 1")
    with pytest.raises(MemoryLost):
        coordinator.claims([])
    assert coordinator.remember(Memory()).quiet
    coordinator.claims([])
    coordinator.close()


def test_the_clock_is_the_databases(postgresql: SqlDatabase, mysql: SqlDatabase) -> None:
    for database in (postgresql, mysql):
        coordinator = coordinator_of(database)
        assert abs(coordinator.attach().now - database.now()) < timedelta(seconds=2)
        coordinator.clock_offset = 3600.0
        assert coordinator.attach().now - database.now() > timedelta(minutes=59)
        coordinator.close()


def test_a_call_on_a_connection_that_died_in_the_pool_is_made_again(postgresql: SqlDatabase) -> None:
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()
    postgresql.sql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert scene.commit(1).verdict is Verdict.COMMITTED
    coordinator.close()


def test_parent_and_child_do_not_share_connections(postgresql: SqlDatabase) -> None:
    coordinator = coordinator_of(postgresql)
    scene = scene_of(coordinator)
    scene.register()

    def child() -> None:
        for n in range(1, 20):
            assert coordinator.claims([scene.key(n)]) == [None]
        coordinator.close()

    assert in_child(child) == 0
    for n in range(1, 20):  # an answer meant for the child would be in the way
        assert coordinator.claims([scene.key(n)]) == [None]
    coordinator.close()


def test_missing_tables_are_named_with_the_command(tmp_path: Path) -> None:
    coordinator = SqlCoordinator(f"sqlite:///{tmp_path / 'empty.sqlite3'}", NAME, TIMING)
    with pytest.raises(Unreachable, match=r"celery -A YOUR_APP parrot db upgrade"):
        coordinator.attach()
    coordinator.close()


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_an_engine_of_any_isolation_level_reads_what_is_committed(request: pytest.FixtureRequest, dialect: str) -> None:
    """Else a call that waited for another would decide by what was there before that one."""
    database: SqlDatabase = request.getfixturevalue(dialect)
    statement = "SHOW transaction_isolation" if dialect == "postgresql" else "SELECT @@SESSION.tx_isolation"
    engine = make_engine(database.url, {"isolation_level": "SERIALIZABLE"})

    def work(connection: Connection, _: str) -> str:
        return str(connection.exec_driver_sql(statement).scalar())

    link = Link(engine, SystemClock())
    assert link.transaction(work).upper().replace("-", " ") == "READ COMMITTED"
    with engine.connect() as connection:  # the user's own calls stay as they were
        assert work(connection, "").upper() == "SERIALIZABLE"
    engine.dispose()
