"""People edit the table with a plain SQL client while two beats run, on each database."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.integration.beat.conftest import Mailbox
from tests.integration.stores_sql.database import DIALECTS, SqlDatabase, empty_url
from tests.support.procs import Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import pause, wait_until, wall_clock

APP = "tests.e2e.apps.stores"
READY = r"beat ready: "
SECOND = timedelta(seconds=1)
# Of it, one second is promised; the rest is for delivery on a machine that is busy with other tests.
SOON = 1.6


class Site:
    """A database with beats, and a look into the queues."""

    def __init__(self, database: SqlDatabase, redis: PrivateRedis, procs: Procs) -> None:
        self.database, self.procs = database, procs
        self.mail = Mailbox(redis.url())
        self.env = {
            "TEST_BROKER": redis.url(),
            "TEST_SETTINGS": json.dumps({"parrot_database_url": database.url}),
        }

    def beat(self) -> Proc:
        return self.procs.beat(APP, env=self.env)

    def sql(self, statement: str) -> Sequence[Any]:
        """By a plain client. A colon in a literal is no parameter."""
        return self.database.sql(statement.replace(":", "\\:"))

    def insert(self, name: str, config: str = '{"seconds": 1}', **columns: str) -> datetime:
        """A row with next_run NULL; when the statement was committed."""
        given = {
            "name": f"'{name}'",
            "target_kind": "'task'",
            "target_name": "'t.note'",
            "schedule_type": "'interval'",
            "schedule_config": f"'{config}'",
            "options": '\'{"queue": "db"}\'',
            **columns,
        }
        self.sql(f"INSERT INTO service_scheduler ({', '.join(given)}) VALUES ({', '.join(given.values())})")
        return now()

    def arrivals(self, seconds: float, queue: str = "db") -> list[tuple[datetime, float, dict[str, Any]]]:
        """What comes within a span: due time, seconds from it to its arrival here, and the arguments."""
        found: list[tuple[datetime, float, dict[str, Any]]] = []
        end = wall_clock() + seconds

        def look() -> bool:
            for message in self.mail.drain(queue):
                due_at = datetime.fromisoformat(message.headers["parrot"]["due_at"])
                found.append((due_at, wall_clock() - due_at.timestamp(), message.payload[1]))
            return wall_clock() >= end

        wait_until(look, "the span to pass", seconds + 5)
        return found

    def next(self, queue: str = "db") -> tuple[datetime, float, dict[str, Any]]:
        """The next message, as :meth:`arrivals` has it."""
        message = self.mail.take(queue, 5)
        due_at = datetime.fromisoformat(message.headers["parrot"]["due_at"])
        return due_at, wall_clock() - due_at.timestamp(), message.payload[1]

    def close(self) -> None:
        self.mail.close()
        self.database.close()


def now() -> datetime:
    return datetime.fromtimestamp(wall_clock()).astimezone()


@pytest.fixture(params=DIALECTS)
def site(request: pytest.FixtureRequest, private_redis: PrivateRedis, procs: Procs, tmp_path: Path) -> Iterator[Site]:
    """Each database in turn."""
    with empty_url(request.param, tmp_path) as url:
        made = Site(SqlDatabase(url), private_redis, procs)
        yield made
        procs.close()
        made.close()


def one_will_do(site: Site, full: bool) -> None:
    """In the short form."""
    if site.database.dialect != "postgresql" and not full:
        pytest.skip("the long form has the other databases (make chaos)")


def in_phase(due_at: datetime, offset: float) -> bool:
    return abs(due_at.timestamp() % 1 - offset) < 1e-4


def test_every_beat_sees_a_change_within_a_second(site: Site, full: bool) -> None:
    """INSERT, UPDATE of the schedule, disabling, enabling, DELETE: by each of two beats while the other one is stopped;
    in the long form by both at once too. No beat is told, and none fires what is not wanted any more, not even once."""
    one_will_do(site, full)
    beats = [site.beat(), site.beat()]
    for beat in beats:
        beat.wait_for_log(READY)
    for number, stopped in enumerate([*beats, None] if full else beats):
        if stopped is not None:
            stopped.pause()
            pause(0.5)
        _edits(site, f"row {number}")
        if stopped is not None:
            stopped.resume()
    assert all(beat.alive for beat in beats)
    assert "Traceback" not in beats[0].text() + beats[1].text()


def _edits(site: Site, name: str) -> None:
    where = f"WHERE name = '{name}'"
    began = site.insert(name)
    first, late, _ = site.next()
    assert began - SECOND <= first <= began + SECOND, "the first due time after the INSERT"
    assert late <= SOON, f"an INSERT took {late:.2f} s"
    began = now()
    site.sql(f'UPDATE service_scheduler SET schedule_config = \'{{"seconds": 1, "offset": 0.5}}\' {where}')
    done = now()
    seen = site.arrivals(1.8)
    assert all(in_phase(due_at, 0.5) or due_at <= done for due_at, _, _ in seen), "nothing by the old config"
    first, late, _ = next(one for one in seen if in_phase(one[0], 0.5))
    assert began <= first <= done + SECOND
    assert late <= SOON, f"an UPDATE took {late:.2f} s"
    site.sql(f"UPDATE service_scheduler SET enabled = false {where}")
    done = now()
    assert [due_at for due_at, _, _ in site.arrivals(1.5) if due_at > done] == [], "disabled"
    began = now()
    site.sql(f"UPDATE service_scheduler SET enabled = true {where}")
    done = now()
    first, late, _ = site.next()
    assert in_phase(first, 0.5), "no fire of its own"
    assert began < first <= done + SECOND
    assert late <= SOON, f"enabling took {late:.2f} s"
    site.sql(f"DELETE FROM service_scheduler {where}")
    done = now()
    assert [due_at for due_at, _, _ in site.arrivals(1.5) if due_at > done] == [], "deleted"


def test_a_row_of_the_seeds_columns_runs(site: Site, full: bool) -> None:
    """From a plain INSERT to the result in the row, by a beat and a worker; an edit of ``prompt`` reaches the next run
    and bumps the version."""
    one_will_do(site, full)
    site.beat().wait_for_log(READY)
    worker = site.procs.worker(APP, "-Q", "agents", "--pool", "solo", "--without-gossip", "--without-mingle",
                               env=site.env)  # fmt: skip
    site.sql(
        "INSERT INTO service_scheduler (target_kind, target_name, prompt, method_name, schedule_type, "
        "schedule_config, created_by, created_email, metadata, send_result) VALUES ('agent', 'Reporter', 'say hello', "
        "'ask', 'interval', '{\"seconds\": 2}', 7, 'a@example.org', '{\"k\": 1}', '{}')"
    )
    columns = "run_count, last_status, last_result, version"

    def result(prompt: str) -> Callable[[], Any]:
        def look() -> Any:
            (row,) = site.sql(f"SELECT {columns} FROM service_scheduler")
            return row if prompt in (row[2] or "") else None

        return look

    count, status, text, version = wait_until(result("say hello"), "the first result", 25, explain=worker.tail)
    assert (count >= 1, status, version) == (True, "success", 1)
    assert text == 'Reporter: {"k": 1, "method_name": "ask", "prompt": "say hello"}'
    site.sql("UPDATE service_scheduler SET prompt = 'say goodbye'")
    _, status, _, version = wait_until(result("say goodbye"), "the next result", 15, explain=worker.tail)
    assert (status, version) == ("success", 2)
