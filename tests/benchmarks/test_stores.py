"""100,000 schedules in a store, 50 of them due each minute, one edited every 5 s: what a beat costs.

A real ``celery beat`` over PostgreSQL and over Redis, beside django-celery-beat on the same schedules. Start-up is from
the start of the process to its line of readiness, imports of Python and Celery included; memory is the largest
resident size; processor time is that of the process over the minute in which it is watched.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import psycopg
import pytest
import redis

from celery_parrot.clock import new_id
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols.editing import Change
from celery_parrot.stores.redis import RedisStore
from celery_parrot.stores.sql import upgrade
from tests.support.procs import Proc, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

ROWS = 100_000
DUE = 50
WATCHED = 62.0
EDIT_EVERY = 5.0
APP = "tests.benchmarks.stores_app"
PREFIX = "parrot:scheduler:scheduler_manager:"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.keeps_keys("asking 100,000 keys for their TTL takes longer than the test"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """:ivar started: seconds. ``resident``: MiB. ``idle``: share of a core, in percent. ``sent``: messages."""

    started: float
    resident: float
    idle: float
    sent: int
    edits: int

    def line(self, who: str, more: str = "") -> str:
        return (
            f"{who:<28} ready after {self.started:6.2f} s, resident {self.resident:6.1f} MiB, "
            f"processor {self.idle:6.2f} % of a core, {self.sent} sent, {self.edits} edits{more}"
        )


def watch(
    start: Callable[[], Proc],
    ready: str,
    broker: PrivateRedis,
    edit: Callable[[int], None],
    *,
    patience: float = 20.0,
    tries: int = 4,
) -> Cost:
    """Start a beat, wait until it says so, and watch it for a little more than a minute of edits.

    :param tries: how often it is started; the quickest counts, so that a busy neighbour does not decide.
    """
    starts: list[float] = []
    while True:
        began = time.monotonic()
        beat = start()
        beat.wait_for_log(ready, timeout=patience)
        starts.append(time.monotonic() - began)
        if len(starts) == tries:
            break
        beat.terminate()
    started = min(starts)
    process = psutil.Process(beat.pid)
    # What it does once, at its start, is not idling.
    wait_until(lambda: time.monotonic() - began > starts[-1] + 2, "the first ticks", 4)
    before, since, resident, edits = process.cpu_times(), time.monotonic(), 0, 0
    with broker.client() as client:
        sent = _length(client)

        def over() -> bool:
            nonlocal resident, edits
            passed = time.monotonic() - since
            resident = max(resident, process.memory_info().rss)
            if passed >= edits * EDIT_EVERY:
                edit(edits)
                edits += 1
            return passed >= WATCHED

        wait_until(over, "a minute to pass", WATCHED + 30, interval=0.25)
        sent = _length(client) - sent
    after, passed = process.cpu_times(), time.monotonic() - since
    spent = after.user + after.system - before.user - before.system
    return Cost(started=started, resident=resident / 2**20, idle=100 * spent / passed, sent=sent, edits=edits)


def _length(client: redis.Redis) -> int:
    length: Any = client.llen("celery")
    return int(length)


@pytest.fixture
def show(capfd: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    """Print past the capture of pytest: the figures are the point."""

    def show(line: str) -> None:
        with capfd.disabled():
            print(f"\n{line}", flush=True)

    return show


def check(cost: Cost) -> None:
    """What is promised."""
    assert cost.started < 2.0, cost
    assert cost.resident < 150, cost
    assert cost.idle < 2.0, cost
    assert DUE <= cost.sent <= 2 * DUE, cost
    assert cost.edits >= 12, cost


def environment(broker: PrivateRedis, **settings: Any) -> dict[str, str]:
    return {"BENCH_BROKER": broker.url(), "BENCH_SETTINGS": json.dumps(settings)}


# --- PostgreSQL ---


@pytest.fixture
def filled(postgresql_url: str) -> Iterator[psycopg.Connection[Any]]:
    """Rows in rest: daily ones whose next run is to come, and 50 minutely ones."""
    upgrade(postgresql_url)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        with connection.transaction():
            connection.execute("SET LOCAL session_replication_role = replica")  # no notes: they are settled
            connection.execute(
                "INSERT INTO service_scheduler (name, target_kind, target_name, schedule_type, schedule_config, "
                "last_due, next_run) SELECT 's' || n, 'task', 'app.task', 'interval', "
                "jsonb_build_object('hours', 24, 'offset', mod(extract(epoch FROM now())::bigint + 7200 + n, 86400)), "
                "now() - interval '1 day', to_timestamp(extract(epoch FROM now())::bigint + 7200 + n) "
                f"FROM generate_series(1, {ROWS}) n"
            )
            connection.execute(
                "UPDATE service_scheduler SET schedule_config = '{\"minutes\": 1}', "
                "last_due = date_trunc('minute', now()), next_run = date_trunc('minute', now()) "
                f"+ interval '1 minute' WHERE name IN (SELECT 's' || n FROM generate_series(1, {DUE}) n)"
            )
        connection.execute("VACUUM ANALYZE service_scheduler")
        yield connection


def rows_read(connection: psycopg.Connection[Any]) -> int:
    """Rows of the table that any scan has fetched so far."""
    connection.execute("SELECT pg_stat_clear_snapshot()")
    row = connection.execute(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables "
        "WHERE relname = 'service_scheduler'"
    ).fetchone()
    assert row is not None
    return int(row[0])


def test_postgresql(
    filled: psycopg.Connection[Any],
    postgresql_url: str,
    private_redis: PrivateRedis,
    procs: Procs,
    show: Callable[[str], None],
) -> None:
    """A beat is ready at once, small, all but asleep, and never reads the table from end to end."""

    def edit(number: int) -> None:
        filled.execute(
            "UPDATE service_scheduler SET prompt = %s WHERE name = %s", (f"edit {number}", f"s{1000 + number}")
        )

    before = rows_read(filled)
    cost = watch(
        lambda: procs.beat(
            APP, "-S", "parrot", env=environment(private_redis, parrot_database_url=postgresql_url), level="info"
        ),
        r"beat ready: ",
        private_redis,
        edit,
    )
    wait_until(lambda: rows_read(filled) > before, "the statistics", 10)
    read = rows_read(filled) - before
    show(cost.line("celery-parrot, PostgreSQL", f", {read} rows read"))
    check(cost)
    assert read < ROWS / 2, "the table was read from end to end"


# --- Redis ---


def fill_redis(server: PrivateRedis) -> Mapping[str, Schedule]:
    """The same schedules, copied from one that the store wrote; those that are edited, by name."""
    coordinator = RedisCoordinator(server.url(), Namespace("scheduler_manager"))
    store = RedisStore(coordinator)

    def made(name: str, **config: Any) -> Schedule:
        return Schedule(
            schedule_id=str(UUID(new_id())), name=name, target="app.task", schedule_type="interval",
            schedule_config=config, store="redis",
        )  # fmt: skip

    now = datetime.now(UTC)
    offset = (int(now.timestamp()) + 7200) % 86_400
    model = made("model", days=1, offset=offset)
    edited = {f"edited{n}": made(f"edited{n}", days=1, offset=offset) for n in range(20)}
    store.insert([model, *edited.values(), *(made(f"minutely{n}", minutes=1) for n in range(DUE))])
    with server.client() as client:
        text: Any = client.hget(f"{PREFIX}jobs", model.schedule_id)
        state: Any = client.hgetall(f"{PREFIX}state:{model.schedule_id}")
        at: Any = client.zscore(f"{PREFIX}run_times:task", model.schedule_id)
        for first in range(0, ROWS, 5000):
            ids = {str(UUID(new_id())): f"s{n:06}" for n in range(first, first + 5000)}
            pipe = client.pipeline(transaction=False)
            texts = {i: text.replace(model.schedule_id, i).replace('"model"', f'"{name}"') for i, name in ids.items()}
            pipe.hset(f"{PREFIX}jobs", mapping=texts)
            pipe.zadd(f"{PREFIX}run_times:task", {i: at + n for n, i in enumerate(ids)})
            for names in ("names", "names:task"):
                pipe.zadd(f"{PREFIX}{names}", {f"{name}\0{i}": 0 for i, name in ids.items()})
            for i, name in ids.items():
                pipe.hset(f"{PREFIX}state:{i}", mapping={**state, "name": name})
            pipe.execute()
    coordinator.close()
    return edited


def bytes_out(server: PrivateRedis) -> int:
    """Bytes that the server has sent to anybody."""
    with server.client() as client:
        info: Any = client.info("stats")
    return int(info["total_net_output_bytes"])


def test_redis(make_redis: Callable[..., PrivateRedis], procs: Procs, show: Callable[[str], None]) -> None:
    """The same: what is read is what is due."""
    server, broker = make_redis(), make_redis()
    edited = fill_redis(server)
    coordinator = RedisCoordinator(server.url(), Namespace("scheduler_manager"))
    store = RedisStore(coordinator)

    def edit(number: int) -> None:
        stored = store.get([f"edited{number}"])[0]
        assert stored is not None
        assert stored.schedule is not None

        store.replace([Change(schedule=replace(stored.schedule, prompt=f"edit {number}"))])

    before = bytes_out(server)
    with closing(coordinator):
        cost = watch(
            lambda: procs.beat(APP, "-S", "parrot", env=environment(broker, parrot_redis_url=server.url())),
            r"beat ready: ",
            broker,
            edit,
        )
    sent = bytes_out(server) - before
    show(cost.line("celery-parrot, Redis", f", {sent / 2**20:.1f} MiB read"))
    assert len(edited) == 20
    check(cost)
    assert sent < 100 * ROWS, "all definitions were read"


# --- django-celery-beat, on the same ---

PEER_SETTINGS = """
import os
SECRET_KEY = "bench"
INSTALLED_APPS = ["django.contrib.contenttypes", "django_celery_beat"]
DATABASES = {"default": {"ENGINE": "django.db.backends.postgresql", "NAME": os.environ["BENCH_DB"],
    "HOST": os.environ["BENCH_HOST"], "PORT": os.environ["BENCH_PORT"], "USER": os.environ["BENCH_USER"]}}
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
"""
PEER_APP = """
import os
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "peer_settings")
from celery import Celery
app = Celery("peer", broker=os.environ["BENCH_BROKER"])
app.conf.result_expires = None
"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with django-celery-beat and a project of two files."""
    folder = tmp_path_factory.mktemp("peer")
    (folder / "peer_settings.py").write_text(PEER_SETTINGS)
    (folder / "peer_app.py").write_text(PEER_APP)
    packages = ["django-celery-beat", "psycopg[binary]", "redis", "celery", "packaging"]
    for command in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode:
            pytest.skip(f"django-celery-beat cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
    return folder


def test_django_celery_beat(
    peer: Path, postgresql_url: str, private_redis: PrivateRedis, procs: Procs, show: Callable[[str], None]
) -> None:
    """For comparison only: nothing is asserted of a peer but that it was measured at work."""
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        where = connection.info
        env = {
            "BENCH_BROKER": private_redis.url(), "BENCH_DB": where.dbname, "BENCH_HOST": where.host,
            "BENCH_PORT": str(where.port), "BENCH_USER": where.user, "PYTHONPATH": str(peer),
            "DJANGO_SETTINGS_MODULE": "peer_settings",
        }  # fmt: skip
        python = str(peer / "venv/bin/python")
        migrate = procs.start("migrate", python, "-m", "django", "migrate", "-v", "0", env=env)
        assert migrate.wait(60) == 0, migrate.tail()
        _fill_peer(connection)

        def edit(number: int) -> None:
            connection.execute(
                "UPDATE django_celery_beat_periodictask SET description = %s WHERE name = %s",
                (f"edit {number}", f"s{1000 + number}"),
            )
            # What its ORM does at every save: without it, nobody notices.
            connection.execute("UPDATE django_celery_beat_periodictasks SET last_update = now()")

        arguments = ("-m", "celery", "-A", "peer_app", "beat", "-l", "debug", "--pidfile", "")
        scheduler = ("-S", "django_celery_beat.schedulers:DatabaseScheduler")
        cost = watch(
            lambda: procs.start("peer", python, *arguments, *scheduler, env=env),
            r"Ticking with interval|beat: Waking up|beat: Synchronizing",
            private_redis,
            edit,
            patience=240,
            tries=1,
        )
        reloads = procs["peer"].text().count("Schedule changed")
    show(cost.line("django-celery-beat, PostgreSQL", f", {reloads} full reloads"))
    assert cost.edits >= 12


def _fill_peer(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO django_celery_beat_intervalschedule (every, period) VALUES (1, 'days')")
    connection.execute("INSERT INTO django_celery_beat_intervalschedule (every, period) VALUES (1, 'minutes')")
    columns: dict[str, str] = {
        "name": "'s' || n", "task": "'app.task'", "args": "'[]'", "kwargs": "'{}'", "headers": "'{}'",
        "description": "''", "enabled": "true", "one_off": "false", "total_run_count": "0", "date_changed": "now()",
        "last_run_at": "now()",
        "interval_id": f"CASE WHEN n <= {DUE} THEN 2 ELSE 1 END",
    }  # fmt: skip
    connection.execute(
        f"INSERT INTO django_celery_beat_periodictask ({', '.join(columns)}) "
        f"SELECT {', '.join(columns.values())} FROM generate_series(1, {ROWS}) n"
    )
    connection.execute(
        "INSERT INTO django_celery_beat_periodictasks (ident, last_update) VALUES (1, now()) "
        "ON CONFLICT (ident) DO UPDATE SET last_update = now()"
    )
    connection.execute("VACUUM ANALYZE django_celery_beat_periodictask")
