"""Stores filled by the real packages: what is imported is due when its source says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from celery_parrot.errors import ParrotError
from celery_parrot.importers import celery_when, redbeat
from celery_parrot.importers.apscheduler import Tasks
from celery_parrot.importers.sources import Asked, read
from celery_parrot.importers.transfer import Action
from tests.integration.importers.conftest import Importing, Peer, same
from tests.support.redis_server import PrivateRedis


def assert_same(importing: Importing, due: dict[str, list[str]], *, apart: dict[str, float] | None = None) -> None:
    apart = apart or {}
    wrong = {
        name: (theirs, ours)
        for name, theirs in due.items()
        if not same(
            theirs,
            ours := importing.due(name)[: 1 if importing.client.get(name).max_fires else 10],
            apart.get(name, 0.0),
        )
    }
    assert not wrong


@pytest.mark.parametrize("store", ["db", "redis"])
def test_redbeat(importing: Importing, peer: Peer, make_redis: Callable[..., PrivateRedis], store: str) -> None:
    source = make_redis()
    due = peer("redbeat", source.url())
    found = read("redbeat", Asked(location=source.url(), zone="Europe/Madrid"))
    steps = importing.run(found, store=store)

    assert_same(importing, due)
    assert {name for name, step in steps.items() if step.action is Action.CREATE} == {*due, "off"}
    one = importing.client.get("90 seconds")
    assert (one.store, one.target, one.args, one.kwargs) == (store, "t.note", ("90 seconds", None), {"n": 1})
    assert one.options == {"queue": "q", "expires": 30}
    off = importing.client.get("off")
    assert (off.state, off.note) == ("paused", "import: disabled in RedBeat")
    assert importing.client.resume("off").state == "active"

    assert steps["spent"].action is Action.OVER
    assert "lunar" in steps["moon"].reason
    assert "definition" in steps["cut off"].reason
    assert "datetime" in steps["moment"].reason
    assert all(steps[name].fix for name in ("moon", "cut off", "moment"))
    assert celery_when.DRIFTS in steps["90 seconds"].item.faults
    assert celery_when.CLOCK_CHANGES in steps["weekday mornings"].item.faults
    assert redbeat.OFFSET_ONLY in steps["elsewhere"].item.faults


def test_django_celery_beat(importing: Importing, peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "django.db"
    due = peer("django", path)
    before = path.read_bytes()
    steps = importing.run(read("django-celery-beat", Asked(location=f"sqlite:///{path}")))

    # Solar events are to the whole second here.
    assert_same(importing, due, apart={"sunset": 1.0, "noon": 1.0})
    routed = importing.client.get("routed")
    assert routed.options == {"queue": "q", "routing_key": "r", "priority": 3, "expires": 60, "headers": {"a": "b"}}
    assert (routed.args, routed.kwargs) == ((None, 1), {"k": [2]})
    assert any("said so" in note for note in steps["routed"].notes)
    assert importing.client.get("once by cron").max_fires == 1
    assert importing.client.get("off").note == "import: disabled in django-celery-beat"

    assert steps["gone by"].action is Action.OVER
    assert steps["has run"].action is Action.CANNOT
    assert "args" in steps["bad args"].reason
    assert "99" in steps["bad cron"].reason
    assert celery_when.NOT_READ in steps["fifth monday"].item.faults
    assert path.read_bytes() == before
    assert sorted(tmp_path.glob("django.db*")) == [path]


@pytest.mark.parametrize("server", ["sqlite", "postgresql"])
def test_sqlalchemy_celery_beat(
    importing: Importing, peer: Peer, tmp_path: Path, request: pytest.FixtureRequest, server: str
) -> None:
    url, schema = f"sqlite:///{tmp_path}/beat.db", ""
    if server == "postgresql":
        url = request.getfixturevalue("postgresql_url").replace("postgresql:", "postgresql+psycopg:")
        schema = "beat"
    due = peer("sqlalchemy", url, schema)
    importing.run(read("sqlalchemy-celery-beat", Asked(location=url, schema=schema or None)))

    assert_same(importing, due, apart={"sunrise": 1.0})
    routed = importing.client.get("routed")
    assert (routed.options, routed.args, routed.kwargs) == (
        {"queue": "q", "priority": 4, "expires": 60},
        (1,),
        {"a": None},
    )
    assert importing.client.get("off").state == "paused"


def test_shelve(importing: Importing, peer: Peer, tmp_path: Path) -> None:
    path = tmp_path / "celerybeat-schedule"
    due = peer("shelve", path)
    with pytest.raises(ParrotError, match="--trust-pickles"):
        read("shelve", Asked(location=str(path)))
    steps = importing.run(read("shelve", Asked(location=str(path), trust_pickles=True)))

    assert "Lunar" in steps["lunar"].reason
    del due["lunar"]
    assert_same(importing, due, apart={"sunset": 1.0})
    one = importing.client.get("a minute")
    assert (one.args, one.kwargs, one.options) == ((1, "a"), {"k": 2}, {"queue": "q"})
    assert importing.client.get("workdays").timezone == "Europe/Madrid"


def test_apscheduler(importing: Importing, peer: Peer, private_redis: PrivateRedis, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    due = peer("apscheduler", url, private_redis.port)
    tasks = Tasks({"jobs:note": "t.note"})
    with pytest.raises(ParrotError, match="--trust-pickles"):
        read("apscheduler", Asked(location=url))
    sql = read("apscheduler", Asked(location=url, trust_pickles=True, tasks=tasks))
    steps = importing.run(sql)
    found = read("apscheduler", Asked(location=private_redis.url(), trust_pickles=True, tasks=tasks))
    again = importing.run(found, prefix="r ")

    for prefix in ("", "r "):
        assert_same(importing, {prefix + name: times for name, times in due.items()})
    for each in (steps, again):
        assert {name for name, step in each.items() if step.action is Action.CREATE} == {*due, "paused", "parallel"}
        assert "week" in each["week"].reason
        assert "year" in each["odd years"].reason
        assert "OrTrigger" in each["several"].reason
        assert "jobs.Thing" in each["thing"].reason
        assert "--task-map jobs:other=TASK" in each["unknown function"].fix
    one = importing.client.get("interval")
    assert (one.target, one.args, one.kwargs, one.misfire_grace) == ("t.note", (1,), {"k": None}, 60)
    assert one.missed == "coalesce"
    assert steps["interval"].fields.get("overlap") == "skip" or any(
        "overlap" in note for note in steps["interval"].notes
    )
    parallel = importing.client.get("parallel")
    assert (parallel.missed, parallel.jitter) == ("catch_up", 5)
    assert steps["parallel"].fields["overlap"] == "allow"
    assert importing.client.get("paused").state == "paused"
    assert any("Monday = 0" in note for note in steps["mondays by number"].notes)
