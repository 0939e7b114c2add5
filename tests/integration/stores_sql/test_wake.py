"""Beats are woken by whoever changes a row."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from celery_parrot.protocols import WakeChannel
from celery_parrot.stores.sql import SqlWake
from celery_parrot.testing import FakeClock
from tests.integration.stores_sql.database import SqlDatabase
from tests.integration.stores_sql.test_plain_sql import insert, names
from tests.support.waiting import monotonic


@pytest.fixture
def wake(database: SqlDatabase) -> Iterator[SqlWake]:
    """A channel on the real clock."""
    channel = database.store().wake_channel()
    yield channel
    channel.close()


def listening(database: SqlDatabase, wake: SqlWake) -> None:
    """PostgreSQL only, and past the first answer, which only says that somebody listens now."""
    if database.dialect != "postgresql":
        pytest.skip("only PostgreSQL tells")
    assert wake.wait(5)
    assert not wake.wait(0)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE service_scheduler SET enabled = false",
        "UPDATE service_scheduler SET prompt = 'new'",
        "UPDATE service_scheduler SET next_run = NULL",
        "DELETE FROM service_scheduler",
    ],
)
def test_a_change_wakes(database: SqlDatabase, wake: SqlWake, statement: str) -> None:
    """At once, by any client, and one statement over many rows is one wake-up."""
    for number in range(3):
        insert(database, f"s{number}")
    names(database, database.store())
    listening(database, wake)
    started = monotonic()
    database.sql(statement)
    assert wake.wait(10)
    assert monotonic() - started < 5
    assert not wake.wait(0)


def test_an_insert_wakes_and_run_state_does_not(database: SqlDatabase, wake: SqlWake) -> None:
    """Else every fire would wake every beat."""
    listening(database, wake)
    insert(database, "a")
    assert wake.wait(10)
    names(database, database.store())
    database.sql("UPDATE service_scheduler SET run_count = 5, last_due = next_run, last_status = 'x'")
    assert not wake.wait(0.2)


def test_no_wake_up_is_lost_between_two_waits(database: SqlDatabase, wake: SqlWake) -> None:
    """What was told while nobody waited is there."""
    listening(database, wake)
    other = database.store().wake_channel()
    other.wake()
    assert wake.wait(10)
    other.close()


def test_a_lost_connection_only_sleeps(database: SqlDatabase, wake: SqlWake) -> None:
    """It listens again by itself, and says so once, for something may have been missed."""
    listening(database, wake)
    database.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert any(wake.wait(1.1) for _ in range(5))
    insert(database, "a")
    assert wake.wait(10)


def test_close_ends_a_wait(wake: SqlWake) -> None:
    """In another thread, on every database."""
    wake.wait(0)
    thread = threading.Thread(target=wake.wait, args=(60,))
    thread.start()
    wake.close()
    thread.join(10)
    assert not thread.is_alive()


def test_wake_reaches_its_own_object(wake: SqlWake) -> None:
    """On every database: an edit in this process does not wait for the next sync."""
    wake.wait(0)
    wake.wake()
    assert wake.wait(10)


def test_elsewhere_it_sleeps_by_the_clock(database: SqlDatabase) -> None:
    """No sleep of its own."""
    if database.dialect == "postgresql":
        pytest.skip("PostgreSQL tells")
    clock = FakeClock()
    channel: WakeChannel = database.store(clock=clock).wake_channel()
    assert channel.wait(30) is False
    assert clock.monotonic() == 30
    channel.close()
