"""The database is away while two beats run: 8 s, or 60 s in the long form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.model.schedule import Missed, Policy, Schedule
from celery_parrot.stores.sql import SqlStore, upgrade
from tests.integration.beat.conftest import Mailbox
from tests.support.procs import ROOT, Procs
from tests.support.proxy import TcpProxy
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import pause, wait_until

APP = "tests.e2e.apps.stores"
AWAY, BACK = "store db cannot be asked, its schedules wait", "store db is back"
SECOND = timedelta(seconds=1)
ON_TIME = 2.0
"""``parrot_on_time`` of these beats: what is later is a backlog, and the policy says what becomes of it."""

POLICIES = {
    "coalesce": Policy(misfire_grace=None),
    "catch up": Policy(missed=Missed.CATCH_UP, misfire_grace=None),
    "skip": Policy(missed=Missed.SKIP),
}


def every_second(name: str, store: str, policy: Policy) -> Schedule:
    return Schedule(
        schedule_id=name, name=name, target="t.note", schedule_type="interval", schedule_config={"seconds": 1},
        store=store, policy=policy, options={"queue": store},
    )  # fmt: skip


def health(env: dict[str, str]) -> tuple[int, dict[str, Any]]:
    """What ``celery -A app parrot health --json`` says, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", APP, "parrot", "health", "--timeout", "5", "--json"],
        env={**os.environ, **env}, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def consecutive(mail: Mailbox, queue: str, seconds: int) -> None:
    """Each second of the last ones is there, once."""
    due = [datetime.fromisoformat(one.headers["parrot"]["due_at"]) for one in mail.drain(queue)]
    assert len(due) >= seconds - 1, f"{queue}: {len(due)} fires in {seconds} s"
    assert due == [due[0] + SECOND * number for number in range(len(due))], queue


@pytest.mark.timeout(240)
def test_the_database_is_away(
    postgresql_url: str,
    private_redis: PrivateRedis,
    procs: Procs,
    make_proxy: Callable[..., TcpProxy],
    full: bool,
) -> None:
    """The beats live and say so, schedules of Redis and code miss nothing, those of the database resume by policy:
    every due time is fired or missed, exactly one of them."""
    seconds = 60 if full else 8
    parts = urlsplit(postgresql_url)
    proxy = make_proxy(parts.hostname or "127.0.0.1", parts.port or 5432)
    through = proxy.url("postgresql://postgres@{host}:{port}" + parts.path)
    env = {
        "TEST_BROKER": private_redis.url(),
        "TEST_SETTINGS": json.dumps({"parrot_database_url": through, "parrot_on_time": ON_TIME}),
    }
    upgrade(postgresql_url)
    direct = SqlStore(postgresql_url)
    direct.insert([every_second(name, "db", policy) for name, policy in POLICIES.items()])
    beats = [procs.beat(APP, env=env) for _ in range(2)]
    create_in_redis(private_redis)
    mail = Mailbox(private_redis.url())
    for queue in ("db", "code", "redis"):
        mail.several(queue, 3, 20)
    mail.drain("code")
    mail.drain("redis")

    proxy.cut()
    for beat in beats:
        beat.wait_for_log(AWAY)
    pause(seconds)
    code, said = health(env)
    assert said["beats_alive"] == 2
    assert said["failing"]["db"] >= seconds - 3
    assert (code, said["healthy"]) == ((1, False) if full else (0, True))
    assert all(beat.alive for beat in beats)
    consecutive(mail, "code", seconds)
    consecutive(mail, "redis", seconds)

    proxy.restore()
    for beat in beats:
        beat.wait_for_log(BACK, timeout=30)
    ids = {stored.name: stored.schedule_id for stored in direct.find().items}
    found: dict[str, list[FireRecord]] = {}

    def caught_up() -> bool:
        found.update((name, list(direct.fires(id_, limit=1000))) for name, id_ in ids.items())
        return all(
            any(one.status is Status.SENT and one.sent_at is not None and _late(one) < ON_TIME for one in entries[:3])
            for entries in found.values()
        )

    wait_until(caught_up, "the schedules of the database to be on time again", 20)
    wait_until(lambda: health(env)[1]["failing"] == {}, "health to say that it is over", 10)
    for name, entries in found.items():
        decided = sorted(one.due_at + SECOND * n for one in entries for n in range(one.count))
        assert decided == [decided[0] + SECOND * number for number in range(len(decided))], name
        missed = sum(one.count for one in entries if one.status is Status.MISSED)
        wanted = {"coalesce": range(seconds - 3, seconds + 15), "catch up": range(1), "skip": range(seconds - 3, 100)}
        assert missed in wanted[name], f"{name}: {missed} missed"
    sent = [one for name, entries in found.items() for one in entries if one.status is Status.SENT]
    assert len({one.fire_id for one in sent}) == len(sent)
    assert "Traceback" not in beats[0].text() + beats[1].text()
    mail.close()
    direct.close()


def _late(record: FireRecord) -> float:
    assert record.sent_at is not None
    return (record.sent_at - record.due_at).total_seconds()


def create_in_redis(server: PrivateRedis) -> None:
    """A schedule of the Redis store, as the beats of :data:`APP` name themselves."""
    from celery_parrot.coordination.redis import RedisCoordinator
    from celery_parrot.model.fire import Namespace
    from celery_parrot.stores.redis import RedisStore

    coordinator = RedisCoordinator(server.url(), Namespace("scheduler_manager"))
    RedisStore(coordinator).insert([every_second("in redis", "redis", Policy())])
    coordinator.close()
