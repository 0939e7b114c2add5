"""The older table: its rows become rows of service_scheduler, under their own ids."""

from __future__ import annotations

import json
import pickle
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from celery import Celery
from psycopg.types.json import Json

from celery_parrot import Parrot
from celery_parrot.clock import SystemClock
from celery_parrot.importers.sources import Asked, read
from celery_parrot.importers.transfer import Action, Step, carry_out, plan
from celery_parrot.stores.sql import make_engine, upgrade
from celery_parrot.stores.sql.foreign import carry
from tests.integration.importers.conftest import NOW
from tests.support.redis_server import PrivateRedis

TABLE = """
CREATE TABLE navigator.agents_scheduler (
  schedule_id UUID PRIMARY KEY, agent_id VARCHAR NOT NULL, agent_name VARCHAR NOT NULL, prompt TEXT,
  method_name VARCHAR, schedule_type VARCHAR NOT NULL, schedule_config JSONB NOT NULL, enabled BOOLEAN DEFAULT TRUE,
  created_by INTEGER, created_email VARCHAR, created_at TIMESTAMPTZ DEFAULT now(), updated_at TIMESTAMPTZ DEFAULT now(),
  last_run TIMESTAMPTZ, next_run TIMESTAMPTZ, run_count INTEGER DEFAULT 0, metadata JSONB DEFAULT '{}',
  is_crew BOOLEAN DEFAULT FALSE, send_result JSONB DEFAULT '{}', scheduler_type VARCHAR DEFAULT 'default',
  callbacks JSONB DEFAULT '[]')
"""


class Old:
    """The old table, the app that takes its rows over, and its client."""

    def __init__(self, database: str, redis: str) -> None:
        self.database, self.redis = database, redis
        upgrade(database, "navigator")
        self.connection = psycopg.connect(database, autocommit=True)
        self.connection.execute(TABLE)
        app = Celery("agents", broker=redis, set_as_current=False)
        app.conf.update(parrot_database_url=database, parrot_database_schema="navigator", timezone="Europe/Madrid")
        self.parrot = Parrot(app)

    def row(self, name: str, schedule_type: str, config: dict[str, Any], **columns: Any) -> str:
        given = {
            "schedule_id": uuid.uuid5(uuid.NAMESPACE_URL, name), "agent_id": f"id of {name}", "agent_name": name,
            "schedule_type": schedule_type, "schedule_config": config, **columns,
        }  # fmt: skip
        values = [Json(value) if isinstance(value, dict | list) else value for value in given.values()]
        places = ", ".join(["%s"] * len(given))
        self.connection.execute(
            f"INSERT INTO navigator.agents_scheduler ({', '.join(given)}) VALUES ({places})",
            values,
        )
        return str(given["schedule_id"])

    def read(self, **said: Any) -> Any:
        return read("agents-scheduler", Asked(location=self.database, zone="Europe/Madrid", **said))

    def run(self, **said: Any) -> dict[str, Step]:
        engine = make_engine(self.database)
        client = self.parrot.schedules
        steps = carry_out(
            plan(self.read(), client, NOW, **said), client, lambda past: carry(engine, "navigator", SystemClock(), past)
        )
        engine.dispose()
        return {step.item.source_name.partition(" ")[0]: step for step in steps}

    def new(self, schedule_id: str) -> dict[str, Any]:
        cursor = self.connection.cursor(row_factory=psycopg.rows.dict_row)
        found = cursor.execute(
            "SELECT * FROM navigator.service_scheduler WHERE schedule_id = %s", [schedule_id]
        ).fetchone()
        assert found is not None
        return dict(found)


@pytest.fixture
def old(postgresql_url: str, private_redis: PrivateRedis) -> Iterator[Old]:
    made = Old(postgresql_url, private_redis.url())
    yield made
    made.parrot.close()
    made.connection.close()


def test_a_row_with_everything(old: Old) -> None:
    result = {"to": "a@b.c"}
    schedule_id = old.row(
        "sales", "daily", {"hour": 7, "minute": 30},
        prompt="report", method_name="run", created_by=7, created_email="ann@x.y", run_count=12,
        last_run="2026-11-01T06:30:00+00:00", is_crew=True, send_result=result,
        metadata={
            "region": "north", "is_crew": True, "send_result": {"to": "ignored"},
            "last_error": "boom", "last_error_time": "2026-10-31T07:30:00",
        },
    )  # fmt: skip
    before = old.connection.execute("SELECT * FROM navigator.agents_scheduler").fetchall()
    step = old.run()["sales"]

    new = old.new(schedule_id)
    assert (new["target_kind"], new["target_name"], new["target_id"]) == ("crew", "sales", "id of sales")
    assert (new["prompt"], new["method_name"], new["metadata"]) == ("report", "run", {"region": "north"})
    assert (new["schedule_type"], new["schedule_config"]) == ("daily", {"hour": 7, "minute": 30})
    assert new["policy"]["timezone"] == "Europe/Madrid"
    assert (new["created_by"], new["created_email"], new["run_count"]) == (7, "ann@x.y", 12)
    assert new["last_run"].isoformat() == "2026-11-01T06:30:00+00:00"
    assert (new["last_error"], new["last_error_at"].isoformat()) == ("boom", "2026-10-31T06:30:00+00:00")
    assert new["send_result"] == result or any(note.startswith("send_result is not kept") for note in step.notes)
    assert old.connection.execute("SELECT * FROM navigator.agents_scheduler").fetchall() == before


def test_kinds_stores_and_paused_rows(old: Old) -> None:
    agent = old.row("plain", "interval", {"minutes": 5})
    in_redis = old.row("elsewhere", "interval", {"hours": 1}, scheduler_type="redis")
    off = old.row("off", "interval", {"hours": 1}, enabled=False)
    old.run()
    schedules = old.parrot.schedules
    assert (schedules.get(agent).kind, schedules.get(agent).store) == ("agent", "db")
    assert (schedules.get(in_redis).store, schedules.get(in_redis).schedule_id) == ("redis", in_redis)
    assert (schedules.get(off).state, schedules.get(off).note) == ("paused", "import: disabled in agents_scheduler")
    schedules.update(agent, name="renamed here")
    assert {step.action for step in old.run().values()} == {Action.EXISTS}
    assert schedules.get("renamed here").schedule_id == agent


def test_due_times_are_those_of_its_apscheduler(old: Old) -> None:
    """Weekday numbers counted from Monday there, day fields intersected, crontabs were UTC, short months skipped."""
    named = {
        "number": old.row("number", "crontab", {"expr": "0 9 * * 1"}),
        "weekly": old.row("weekly", "weekly", {"day_of_week": 2, "hour": 8}),
        "monthly": old.row("monthly", "monthly", {"day": 31, "hour": 1}),
        "cron": old.row("cron", "cron", {"hour": "*/6", "timezone": "UTC"}),
        "interval": old.row("interval", "interval", {"minutes": 45}, next_run="2027-01-10T12:07:00+00:00"),
        "once": old.row("once", "once", {"run_date": "2027-05-01T09:00:00"}),
    }
    past = old.row("past", "once", {"run_date": "2026-01-01T09:00:00"})
    old.row("lunar", "lunar", {})
    steps = old.run()
    first = {name: step.next[0].isoformat()[:16] for name, step in steps.items() if step.next}
    assert first == {
        "number": "2027-01-12T09:00",  # a Tuesday
        "weekly": "2027-01-13T07:00",  # a Wednesday, 8:00 in Madrid
        "monthly": "2027-01-31T00:00",
        "cron": "2027-01-10T18:00",
        "interval": "2027-01-10T12:07",
        "once": "2027-05-01T07:00",
    }
    assert steps["monthly"].next[1].isoformat() == "2027-03-31T01:00:00+02:00" or steps["monthly"].next[1].month == 3
    assert any("Monday = 0" in note for note in steps["number"].notes)
    assert any("Monday = 0" in note for note in steps["weekly"].notes)
    assert steps["past"].action is Action.OVER
    assert steps["past"].item.schedule_id == past
    assert (steps["lunar"].action, bool(steps["lunar"].fix)) == (Action.CANNOT, True)
    assert set(named) < set(steps)


def test_reminders_are_listed_and_not_moved(old: Old, private_redis: PrivateRedis) -> None:
    """By their names and times alone: what is in their pickles is never read."""
    row = old.row("row", "interval", {"minutes": 5})
    client = private_redis.client()
    for name in (row, "reminder-1", "reminder-2"):
        client.hset("apscheduler.jobs", name, pickle.dumps(json.JSONDecoder))
    client.zadd("apscheduler.run_times", {"reminder-1": 1_800_000_000, row: 1_800_000_000})
    aside = old.read(reminders=private_redis.url()).aside
    assert [line.partition(":")[0] for line in aside] == [
        "reminder reminder-1 of key apscheduler.jobs, due 2027-01-15 08",
        "reminder reminder-2 of key apscheduler.jobs, paused",
    ]
    assert all("Arm it again" in line for line in aside)
    assert client.hlen("apscheduler.jobs") == 3
