"""What an import does and does not: shown first, twice is once, nobody's schedule is overwritten unasked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from celery_parrot.cli import parrot
from celery_parrot.errors import InvalidSchedule, ScheduleExists
from celery_parrot.importers.items import Found, Item
from celery_parrot.importers.transfer import Action, carry_out, plan
from tests.integration.importers.conftest import NOW, Importing
from tests.support.procs import ROOT
from tests.support.redis_server import PrivateRedis


def found(**named: dict[str, Any]) -> Found:
    every = {"schedule_type": "interval", "schedule_config": {"seconds": 60}, "target": "t.note"}
    items = [
        Item(source_name=name, fields={**every, "name": name, **fields}, past={"run_count": 3})
        for name, fields in named.items()
    ]
    return Found(where="a test", items=tuple(items))


def test_a_plan_writes_nothing_and_a_second_import_creates_nothing(importing: Importing) -> None:
    source = found(a={}, b={})
    assert [step.action for step in plan(source, importing.client, NOW)] == [Action.CREATE] * 2
    assert importing.client.find(store="db") == ()
    importing.run(source)
    version = importing.client.get("a").version
    again = importing.run(source)
    assert {step.action for step in again.values()} == {Action.EXISTS}
    assert {step.reason for step in again.values()} == {"it is the same"}
    assert importing.client.get("a").version == version


def test_what_differs_is_told_and_overwritten_only_when_asked(importing: Importing) -> None:
    importing.run(found(a={}))
    importing.client.pause("a", note="here")
    changed = found(a={"schedule_config": {"seconds": 90}, "kwargs": {"x": 1}})
    (step,) = importing.run(changed).values()
    assert (step.action, step.differs) == (Action.EXISTS, ("schedule_config", "kwargs"))
    assert "--update" in step.fix
    assert importing.client.get("a").schedule_config == {"seconds": 60}

    (step,) = importing.run(changed, update=True).values()
    assert step.action is Action.UPDATE
    one = importing.client.get("a")
    assert (one.schedule_config, one.kwargs, one.state) == ({"seconds": 90}, {"x": 1}, "paused")


def test_an_update_does_not_undo_a_change_made_since(importing: Importing) -> None:
    importing.run(found(a={}))
    steps = plan(found(a={"kwargs": {"x": 1}}), importing.client, NOW, update=True)
    importing.client.update("a", kwargs={"x": 2})
    (step,) = carry_out(steps, importing.client)
    assert step.action is Action.FAILED
    assert importing.client.get("a").kwargs == {"x": 2}


def test_a_name_taken_since_fails_alone(importing: Importing) -> None:
    steps = plan(found(a={}, b={}), importing.client, NOW)
    importing.client.create(
        name="a", target="t.other", schedule_type="interval", schedule_config={"seconds": 5}, store="redis"
    )
    done = {step.name: step.action for step in carry_out(steps, importing.client)}
    assert done == {"a": Action.FAILED, "b": Action.CREATE}
    assert importing.client.get("a").target == "t.other"
    assert importing.client.get("b").target == "t.note"


def test_a_prefix_keeps_both_and_two_of_one_name_are_one(importing: Importing) -> None:
    importing.run(found(a={}))
    assert importing.run(found(a={}), prefix="old ")["a"].action is Action.CREATE
    twice = Found(where="a test", items=(*found(c={}).items, *found(c={}).items))
    assert [step.action for step in plan(twice, importing.client, NOW)] == [Action.CREATE, Action.CANNOT]


def test_the_rules_of_the_client_judge(importing: Importing) -> None:
    bad = {"schedule_type": "cron", "schedule_config": {"expr": "0 0 31 2 *"}}
    steps = importing.run(found(never=bad, odd={"misfire_grace": 10**7}, fine={}))
    assert steps["never"].action is Action.CANNOT
    assert "day_of_month" in steps["never"].reason
    assert "misfire_grace" in steps["odd"].reason
    assert importing.client.get("fine").state == "active"


def test_nothing_that_is_past_becomes_due(importing: Importing) -> None:
    past = {"schedule_type": "once", "schedule_config": {"run_date": "2020-01-01T00:00:00+00:00"}}
    (step,) = importing.run(found(past=past)).values()
    assert (step.action, "2020-01-01" in step.reason) == (Action.OVER, True)
    assert importing.client.find(store="db") == ()


@pytest.fixture
def filled(private_redis: PrivateRedis) -> PrivateRedis:
    """Two entries as RedBeat writes them, in database 1."""
    client = private_redis.client(db=1)
    for name, every in (("minutely", 60), ("never", 0)):
        body = {"name": name, "task": "t.note", "schedule": {"__type__": "interval", "every": every}, "enabled": True}
        meta = json.dumps({"last_run_at": None, "total_run_count": 4})
        client.hset(f"redbeat:{name}", mapping={"definition": json.dumps(body), "meta": meta})
    return private_redis


def test_the_command(importing: Importing, filled: PrivateRedis) -> None:
    def ask(*arguments: str, code: int = 0) -> str:
        """In this process, as Celery's command calls it: an interpreter costs a second."""
        done = CliRunner().invoke(parrot, ["import", *arguments], obj=SimpleNamespace(app=importing.parrot.app))
        assert done.exit_code == code, done.output
        return done.output

    source = filled.url().rpartition("/")[0] + "/1"
    written = json.loads(ask("redbeat", source, "--store", "redis", "--write", "--json"))
    assert (written["written"], written["counts"]) == (True, {"created": 1, "cannot": 1})
    assert written["unknown_tasks"] == ["t.note"]
    assert importing.client.get("minutely").store == "redis"
    assert json.loads(ask("redbeat", source, "--yes", "--json"))["counts"] == {"exists": 1, "cannot": 1}

    ask("redbeat", source, "--store", "db", "--prefix", "db ", "--write")
    assert importing.client.get("db minutely").run_state.run_count == 4

    nothing = ask("redbeat", source, "--key-prefix", "nobody:")
    assert nothing.splitlines()[1:] == ["Nothing to create."]

    refused = ask("shelve", "celerybeat-schedule", code=1)
    assert "--trust-pickles" in refused
    assert "calling" in refused  # why
    assert "Say where the source is" in ask("apscheduler", "--trust-pickles", code=2)
    assert "MODULE:FUNCTION=TASK" in ask("apscheduler", "x", "--task-map", "nonsense", code=2)
    assert "not both" in ask("redbeat", source, "--write", "--dry-run", code=2)


def test_without_write_it_only_shows(importing: Importing, filled: PrivateRedis) -> None:
    settings = json.dumps({"parrot_database_url": importing.database})
    source = filled.url().rpartition("/")[0] + "/1"
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "tests.integration.client.app", "parrot", "import", "redbeat", source],
        env={**os.environ, "TEST_BROKER": importing.redis, "TEST_SETTINGS": settings},
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 to create, 1 not mapped." in done.stdout
    assert "never: its interval of 0:00:00 does not move forward. Give it a length in the source." in done.stdout
    assert "Nothing was written. Add --write" in done.stdout
    assert "Known faults of the source" in done.stdout
    assert importing.client.find(store="db") == ()


def test_an_id_is_kept_or_refused(importing: Importing) -> None:
    given = {"target": "t.note", "schedule_type": "interval", "schedule_config": {"seconds": 60}}
    own = "6f2e3a52-6c1c-4b6e-9c7c-1f0e52f0a001"
    for store in ("db", "redis"):
        kept = own[:-1] + str(len(store))
        assert importing.client.create(name=store, store=store, schedule_id=kept, **given).schedule_id == kept
        with pytest.raises(ScheduleExists):
            importing.client.create(name=f"{store} again", store=store, schedule_id=kept, **given)
    with pytest.raises(InvalidSchedule, match="UUID"):
        importing.client.create(name="a", schedule_id="one", **given)
    assert importing.client.check(name="a", **given).store == "db"
    assert importing.client.find(text="again") == ()
