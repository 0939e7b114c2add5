"""Databases that are away, that forget connections, that stand in each other's way."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError

from celery_parrot.clock import SystemClock
from celery_parrot.database.types import as_instant
from celery_parrot.errors import ConfigurationError, Unreachable
from celery_parrot.model.fire import Status
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols.editing import State
from celery_parrot.stores.sql import SqlStore, make_engine, masked
from celery_parrot.stores.sql.engine import Database
from celery_parrot.testing.conformance.row_store import RowScene
from tests.integration.stores_sql.database import SqlDatabase, empty_url
from tests.integration.stores_sql.test_plain_sql import insert, names
from tests.support.proxy import TcpProxy
from tests.support.services import free_port
from tests.support.waiting import monotonic, wait_until

ROOT = Path(__file__).resolve().parents[3]


def calls(store: SqlStore, scene: RowScene, made: Any) -> dict[str, Callable[[], Any]]:
    """Each verb once."""
    now = scene.backend.now()
    return {
        "due": lambda: store.due(now, ("task",), 10),
        "due_elsewhere": lambda: store.due_elsewhere(now, (), 10),
        "next_due": lambda: store.next_due(("task",)),
        "definitions": lambda: store.definitions([made.schedule_id]),
        "advance": lambda: store.advance([scene.move(made)], "b1"),
        "prove": lambda: store.prove([scene.entry(made)]),
        "record": lambda: store.record([scene.carried(made, Status.SENT, 2)]),
        "lock_unavailable": lambda: store.lock_unavailable([made.schedule_id]),
        "prune": lambda: store.prune(),
        "hold": lambda: store.hold([made.schedule_id], "person", ""),
        "get": lambda: store.get(["a"]),
        "find": lambda: store.find(state=State.ACTIVE),
        "fires": lambda: store.fires(made.schedule_id),
    }


def test_a_server_that_is_not_there(database: SqlDatabase, tmp_path: Path) -> None:
    """Every call says so in our own terms, soon, and without a password."""
    scene = RowScene(database)
    _, made = scene.one_due()
    port = free_port()
    url = {
        "postgresql": f"postgresql://u:s3cret@127.0.0.1:{port}/x",
        "mysql": f"mysql://u:s3cret@127.0.0.1:{port}/x",
        "sqlite": f"sqlite:///{tmp_path / 'no' / 'such' / 'folder.db'}",
    }[database.dialect]
    store = SqlStore(url, clock=SystemClock())
    assert "s3cret" not in repr(store)
    for name, call in calls(store, scene, made).items():
        with pytest.raises(Unreachable) as caught:
            call()
        assert caught.value.__cause__ is not None, name
        assert "s3cret" not in str(caught.value)
    store.close()


def test_a_server_that_says_nothing() -> None:
    """Is waited for as long as for one that is not there, not as long as for the answer to a statement."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"mysql://u@127.0.0.1:{silent.getsockname()[1]}/x"
        engine = make_engine(url, {"connect_args": {"connect_timeout": 1}})
        began = monotonic()
        with pytest.raises(OperationalError):
            engine.connect()
        assert monotonic() - began < 5


def test_a_server_that_has_spoken_may_think(mysql_url: str) -> None:
    """A statement has its own time again."""
    with make_engine(mysql_url, {"connect_args": {"connect_timeout": 1}}).connect() as connection:
        assert connection.scalar(text("SELECT SLEEP(1.2)")) == 0


def test_tables_that_are_not_there(tmp_path: Path) -> None:
    """The error says what to run."""
    store = SqlStore(f"sqlite:///{tmp_path / 'empty.sqlite3'}")
    with pytest.raises(Unreachable, match="db upgrade"):
        store.next_due(("task",))


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_cut_and_restored(dialect: str, make_proxy: Callable[..., TcpProxy], tmp_path: Path) -> None:
    """Unreachable while it lasts; the same store goes on afterwards, and what was due is still due."""
    with empty_url(dialect, tmp_path) as url:
        database = SqlDatabase(url)
        parts = database.engine.url
        proxy = make_proxy(parts.host or "", parts.port or 0)
        away = SqlStore(parts.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False))
        scene = RowScene(database)
        _, made = scene.one_due()
        assert names(database, away) == ["a"]
        proxy.cut()
        with pytest.raises(Unreachable):
            away.advance([scene.move(made)], "b1")
        with pytest.raises(Unreachable):
            away.next_due(("task",))
        proxy.restore()
        assert names(database, away) == ["a"]
        assert [verdict for verdict, _ in away.advance([scene.move(made)], "b1")] == [Verdict.COMMITTED]
        away.close()
        database.close()


@pytest.mark.parametrize("dialect", ["postgresql", "mysql"])
def test_a_commit_whose_reply_is_lost(dialect: str, make_proxy: Callable[..., TcpProxy], tmp_path: Path) -> None:
    """Trace 4 with a real network: carried out, the answer swallowed. The repeat says committed, and wrote once."""
    with empty_url(dialect, tmp_path) as url:
        database = SqlDatabase(url)
        parts = database.engine.url
        proxy = make_proxy(parts.host or "", parts.port or 0)
        away = SqlStore(parts.set(host="127.0.0.1", port=proxy.port).render_as_string(hide_password=False))
        scene = RowScene(database)
        _, made = scene.one_due()
        assert names(database, away) == ["a"]
        raised: list[Exception] = []
        real = Database.write

        def lose(self: Database, work: Any) -> Any:
            # The work is done; from the commit on the replies are held back, then the line is cut.
            def and_stall(connection: Any) -> Any:
                result = work(connection)
                proxy.stall("replies")
                return result

            return real(self, and_stall)

        def run() -> None:
            try:
                away.advance([scene.move(made)], "b1")
            except Exception as exc:
                raised.append(exc)

        away._db.write = lose.__get__(away._db)  # type: ignore[method-assign]
        thread = threading.Thread(target=run)
        thread.start()
        wait_until(lambda: len(scene.history()) == 1, "the commit")
        proxy.cut()
        thread.join(30)
        assert [type(exc) for exc in raised] == [Unreachable]
        proxy.restore()
        del away._db.write
        assert list(away.prove([scene.entry(made)])) == [True]
        assert [verdict for verdict, _ in away.advance([scene.move(made)], "b1")] == [Verdict.COMMITTED]
        assert len(scene.history()) == 1
        assert scene.state().auto_count == 1
        away.close()
        database.close()


def test_terminated_connections_recover(database: SqlDatabase) -> None:
    """The administrator ends all of them; the next call does not notice."""
    if database.dialect == "sqlite":
        pytest.skip("no server")
    insert(database, "a")
    store = database.store()
    names(database, store)
    if database.dialect == "postgresql":
        database.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    else:
        mine = database.sql("SELECT connection_id()")[0][0]
        found = database.sql(f"SELECT id FROM information_schema.processlist WHERE db = database() AND id <> {mine}")
        for (id_,) in found:
            database.sql(f"KILL {id_}")
    assert names(database, store, after=60) == ["a"]


def test_a_row_that_somebody_keeps_locked(database: SqlDatabase) -> None:
    """A forgotten transaction delays a commit by seconds, not for ever; the row's due time stays due."""
    if database.dialect == "sqlite":
        pytest.skip("SQLite locks the file")
    scene = RowScene(database)
    _, made = scene.one_due()
    wait = {"postgresql": "SET lock_timeout = 200", "mysql": "SET innodb_lock_wait_timeout = 1"}[database.dialect]
    engine = make_engine(database.url, {"pool_size": 1, "max_overflow": 0})
    store = SqlStore(engine)
    with engine.begin() as connection:
        connection.execute(text(wait))
    with database.engine.begin() as other:
        other.execute(text("UPDATE service_scheduler SET note = 'mine'"))
        started = monotonic()
        with pytest.raises(Unreachable):
            store.advance([scene.move(made)], "b1")
        assert monotonic() - started < 15
        other.rollback()
    assert scene.advance(made) == [Verdict.COMMITTED]
    engine.dispose()


def test_no_connection_is_kept_between_calls(database: SqlDatabase) -> None:
    """A pool of one serves every verb in turn."""
    engine = make_engine(database.url, {"pool_size": 1, "max_overflow": 0, "pool_timeout": 0.5})
    store = SqlStore(engine)
    scene = RowScene(database)
    _, made = scene.one_due()
    for call in calls(store, scene, made).values():
        call()
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]
    engine.dispose()


RACE = """
import sys
from celery_parrot.planning import plan
from celery_parrot.stores.sql import SqlStore
from celery_parrot.testing.conformance.row_store import RowScene

url, beat = sys.argv[1:]
store = SqlStore(url)
now = store.now()
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    found = store.due(now, ("task",), 100)
    if not found:
        break
    moves = [RowScene.move(plan(d.schedule, d.trigger, d.mark, now, on_time=10), beat) for d in found]
    answers = store.advance(moves, beat)
    for move, (verdict, _) in zip(moves, answers):
        if verdict == "committed":
            for key, _ in move.fires:
                print("won", key.text, flush=True)
"""


def test_eight_processes_after_an_outage(database: SqlDatabase) -> None:
    """Each due time is fired or missed by exactly one of them, whatever the order they come in."""
    policies = {
        "coalesce": "'{}'",
        "catch_up": '\'{"missed": "catch_up", "misfire_grace": null, "catch_up_limit": 30}\'',
        "skip": '\'{"missed": "skip"}\'',
    }
    for policy, value in policies.items():
        for number in range(8):
            insert(database, f"{policy}-{number}", policy=value)
    store = database.store()
    names(database, store)
    database.advance(3 * 3600)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, database.url, f"b{number}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
        )
        for number in range(8)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        outputs = [child.communicate(timeout=60)[0] for child in children]
    finally:
        for child in children:
            child.kill()
            child.wait()
    won = [line for output in outputs for line in output.splitlines() if line.startswith("won")]
    assert len(won) == len(set(won))
    promised = {"coalesce": 1, "catch_up": 30, "skip": 0}
    for policy, count in promised.items():
        for number in range(8):
            found = store.get([f"{policy}-{number}"])[0]
            assert found is not None
            mine = [line for line in won if found.schedule_id in line]
            assert len(mine) in (count, count + 1), policy  # one more if a minute began meanwhile
    totals = database.sql(
        "SELECT s.schedule_id, min(due_at), min(last_due), sum(count) FROM service_scheduler_fire f "
        "JOIN service_scheduler s ON s.schedule_id = f.schedule_id GROUP BY s.schedule_id"
    )
    assert len(totals) == 24
    for _, first, mark, total in totals:
        minutes = (as_instant(mark) - as_instant(first)) / timedelta(minutes=1)  # type: ignore[operator]
        assert int(total) == round(minutes) + 1 >= 179


# --- urls ---


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql://h/x", "postgresql+psycopg"),
        ("postgres://h/x", "postgresql+psycopg"),
        ("mysql://h/x", "mysql+pymysql"),
        ("mariadb://h/x", "mariadb+pymysql"),
        ("sqlite:///x.db", "sqlite"),
    ],
)
def test_urls_without_a_driver(url: str, driver: str) -> None:
    """They take the ones that our extras install."""
    assert make_engine(url).url.drivername == driver


@pytest.mark.parametrize("url", ["monkey", "postgresql+nosuch://h/x", "monkey://h/x"])
def test_urls_that_cannot_work(url: str) -> None:
    """One error that names the setting and the fix."""
    with pytest.raises(ConfigurationError) as caught:
        make_engine(url)
    assert caught.value.key == "parrot_database_url"


def test_secrets_are_masked() -> None:
    """In the password's place and in the query."""
    shown = masked("postgresql://u:s3cret@h/x?sslpassword=s3cret&application_name=y")
    assert "s3cret" not in shown
    assert "application_name=y" in shown
    assert "s3cret" not in masked("s3cret")


def test_an_engine_of_the_users_own(database: SqlDatabase) -> None:
    """It keeps its settings, whatever its isolation, and is not closed with the store."""
    level = "SERIALIZABLE"
    engine = create_engine(database.engine.url, isolation_level=level)
    store = SqlStore(engine)
    scene = RowScene(database)
    _, made = scene.one_due()
    assert [verdict for verdict, _ in store.advance([scene.move(made)], "b1")] == [Verdict.COMMITTED]
    store.close()
    assert store.next_due(("task",)) is not None
    engine.dispose()
