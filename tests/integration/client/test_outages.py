"""The database is away, hangs, or has no tables: the other stores go on, and its schedules resume."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from celery_parrot import Unreachable
from tests.integration.beat.conftest import Mailbox
from tests.integration.client.conftest import READY, World, due_times
from tests.support.proxy import TcpProxy
from tests.support.waiting import wait_until

Make = Callable[..., World]
AWAY = "store db cannot be asked, its schedules wait"
BACK = "store db is back"


@pytest.fixture
def proxy(make_proxy: Callable[..., TcpProxy], postgresql_url: str) -> TcpProxy:
    """The network between the beats and the database."""
    parts = urlsplit(postgresql_url)
    return make_proxy(parts.hostname or "127.0.0.1", parts.port or 5432)


def consecutive(mail: Mailbox, queue: str, count: int) -> list[datetime]:
    """The due times of the next messages, which are one second apart: none is lost, none is late by a turn."""
    due = due_times(mail.several(queue, count))
    assert due == [due[0] + timedelta(seconds=step) for step in range(count)]
    return due


def test_a_beat_starts_without_its_database(make_world: Make, mail: Mailbox, proxy: TcpProxy) -> None:
    world = make_world(through=proxy)
    world.create("in db", "db")
    world.create("in redis", "redis")
    proxy.cut()
    beat = world.beat()
    beat.wait_for_log(READY)
    beat.wait_for_log(AWAY)
    consecutive(mail, "code", 3)
    consecutive(mail, "redis", 3)
    assert mail.drain("db") == []
    proxy.restore()
    beat.wait_for_log(BACK)
    mail.several("db", 2)
    assert beat.text().count(AWAY) == 1
    assert "Traceback" not in beat.text()


@pytest.mark.parametrize("how", ["cut", "stall"])
def test_an_outage_of_the_database_holds_nobody_else(
    make_world: Make, mail: Mailbox, proxy: TcpProxy, how: str
) -> None:
    """Also where it accepts connections and says nothing, which costs whoever waits for it."""
    world = make_world(through=proxy)
    world.create("in db", "db", missed="catch_up")
    world.create("in redis", "redis")
    beat = world.beat()
    before = due_times(mail.several("db", 2))
    getattr(proxy, how)()
    beat.wait_for_log(AWAY)
    mail.drain("code"), mail.drain("redis")
    consecutive(mail, "code", 4)
    consecutive(mail, "redis", 4)
    proxy.restore()
    beat.wait_for_log(BACK, timeout=40)
    after: list[datetime] = list(before)

    def enough() -> bool:
        after.extend(due_times(mail.drain("db")))
        return len(after) > 8

    wait_until(enough, "the fires of the outage", 20)
    assert len(after) == len(set(after))
    ordered = sorted(after)
    assert ordered == [ordered[0] + timedelta(seconds=step) for step in range(len(ordered))], "each due time, once"
    assert "Traceback" not in beat.text()


def test_a_database_without_tables_is_said_once_and_may_get_them_later(make_world: Make, mail: Mailbox) -> None:
    world = make_world(migrated=False)
    beat = world.beat()
    beat.wait_for_log(READY)
    beat.wait_for_log(rf"{AWAY}: .*there is no table .*parrot db upgrade")
    consecutive(mail, "code", 3)
    with pytest.raises(Unreachable, match="parrot db upgrade"):
        world.create("in db", "db")
    result = world.ask("db", "upgrade")
    assert result.returncode == 0, result.stderr
    beat.wait_for_log(BACK)
    world.create("in db", "db")
    mail.several("db", 2)
    assert beat.text().count(AWAY) == 1


def test_an_edit_reaches_the_beat_at_once(make_world: Make, mail: Mailbox) -> None:
    """It is woken by PostgreSQL; with a sleep of a second it would take half of one on average."""
    world = make_world(parrot_sync_interval=2.5)
    beat = world.beat()
    beat.wait_for_log(READY)
    took: list[float] = []
    for number in range(4):
        at = world.parrot.schedules.create(
            name=f"once {number}", store="db", target="t.note", options={"queue": "once"},
            schedule_type="once", schedule_config={"run_date": "2020-01-01T00:00:00+00:00"}, misfire_grace=None,
        ).created_at  # fmt: skip
        message: Any = mail.take("once", 5)
        assert message.headers["parrot"]["name"] == f"once {number}"
        (fire,) = world.parrot.schedules.fires(f"once {number}")
        assert at is not None
        assert fire.committed_at is not None
        took.append((fire.committed_at - at).total_seconds())
    assert sorted(took)[1] < 1.0, took
