"""RabbitMQ and PostgreSQL, and no Redis: beats and a worker agree through the database."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise

import pytest

from celery_parrot.coordination.sql import SqlCoordinator
from celery_parrot.model.fire import FireRecord, Namespace, Status
from celery_parrot.stores.sql import upgrade
from tests.integration.beat.conftest import APP, env
from tests.support.databases import own_postgresql
from tests.support.procs import Procs
from tests.support.waiting import wait_until

READY = r"beat ready: scheduler_manager, coordination db \(postgresql://"


@pytest.fixture
def database_url() -> Iterator[str]:
    """An empty PostgreSQL database."""
    with own_postgresql() as url:
        yield url


def test_two_beats_and_a_worker(procs: Procs, rabbitmq_url: str, database_url: str) -> None:
    """One beat is killed on the way: each due time runs once, none is left out, and its outcome is recorded."""
    upgrade(database_url)
    settings = env(
        rabbitmq_url,
        parrot=True,
        local=True,
        parrot_coordination="db",
        parrot_database_url=database_url,
        parrot_on_time=60,
    )
    worker = procs.worker(APP, "-Q", "celery", "-P", "solo", env=settings)
    beats = [procs.beat(APP, env=settings) for _ in range(2)]
    for beat in beats:
        beat.wait_for_log(READY)
    coordinator = SqlCoordinator(database_url, Namespace("scheduler_manager"))

    def done() -> list[FireRecord]:
        return [record for record in coordinator.fires("local") if record.status is Status.SUCCESS]

    try:
        wait_until(lambda: len(done()) >= 3, "three fires to succeed", 40)
        beats[0].kill()
        before = len(done())
        wait_until(lambda: len(done()) >= before + 4, "four more", 40)
        last = done()[0].due_at

        def upto() -> list[FireRecord]:
            return [record for record in reversed(coordinator.fires("local")) if record.due_at <= last]

        wait_until(lambda: all(record.status.terminal for record in upto()), "those before them to end", 40)
        fires = upto()
        assert {later.due_at - earlier.due_at for earlier, later in pairwise(fires)} == {timedelta(seconds=1)}
        assert {record.status for record in fires} == {Status.SUCCESS}
        assert worker.text().count("Task t.local") >= len(fires)
    finally:
        coordinator.close()


def test_missing_tables_are_one_error_that_names_the_command(
    procs: Procs, rabbitmq_url: str, database_url: str
) -> None:
    """And the beat goes on by itself once they are there."""
    settings = env(rabbitmq_url, local=True, parrot_coordination="db", parrot_database_url=database_url)
    beat = procs.beat(APP, env=settings)
    beat.wait_for_log(r"celery -A YOUR_APP parrot db upgrade")
    upgrade(database_url)
    beat.wait_for_log(READY, 40)
