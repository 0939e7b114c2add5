"""Every example of Celery's own page on periodic tasks, unchanged, under a real beat."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import FireRecord
from tests.chaos.ledger import open_ledger
from tests.support.procs import Procs
from tests.support.waiting import wait_until

APP = "tests.e2e.apps.celery_docs"
NAME = "scheduler_manager"

#: How far back the marks are put: enough for a due time or two of the rarest.
YEAR, WEEK = 400, 8
RARE = {
    "second day of every month",
    "every even numbered day",
    "first and third weeks of the month",
    "eleventh of May",
    "every day on the first month of every quarter",
    "add-at-melbourne-sunset",
    "daily at midnight",
}


@pytest.fixture
def docs(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the examples, imported with a broker."""
    monkeypatch.setenv("DOCS_BROKER", redis_url)
    from tests.e2e.apps import celery_docs

    return celery_docs


def _crontab_between(when: Any, after: datetime, until: datetime) -> Iterator[datetime]:
    """The due times of a Celery crontab in UTC: each field's set, all of them together, as Celery documents it."""
    day = after.replace(hour=0, minute=0, second=0, microsecond=0)
    while day <= until:
        if (
            day.month in when.month_of_year
            and day.day in when.day_of_month
            and day.isoweekday() % 7 in when.day_of_week
        ):
            for hour in sorted(when.hour):
                for minute in sorted(when.minute):
                    instant = day + timedelta(hours=hour, minutes=minute)
                    if after < instant <= until:
                        yield instant
        day += timedelta(days=1)


def _last(record: FireRecord) -> datetime:
    return record.until or record.due_at


@pytest.mark.timeout(120)
def test_the_examples_run(procs: Procs, redis_url: str, docs: Any, full: bool) -> None:
    """A beat takes them all, none is broken, and those that are due soon run with their arguments."""
    env = {"DOCS_BROKER": redis_url}
    beat = procs.beat(APP, env=env)
    worker = procs.worker(APP, "--pool", "threads", env=env)
    worker.wait_for_log(r"WARNING/\w+\] hello$", 40)  # every 10 seconds
    beat.wait_for_log(r"add every 10 due .*: sent", 20)
    names = {*docs.NAMES, *(name for name in docs.app.conf.beat_schedule if name.startswith("tests."))}
    with open_ledger(redis_url, NAME) as ledger:
        wait_until(
            lambda: names <= {name for name, state in ledger.run_states(sorted(names)).items() if state.last_due},
            "every example to be registered",
            20,
            explain=beat.tail,
        )
    if full:
        worker.wait_for_log(r"WARNING/\w+\] world$", 40)  # every 30 seconds, expires=10
        worker.wait_for_log(r"WARNING/\w+\] 32$", 40)
        beat.wait_for_log(r"every minute due \S+:00\+00:00: sent", 80)
    assert "broken" not in beat.text().replace("broken 0", ""), beat.tail()
    assert "Traceback" not in beat.text()


@pytest.mark.timeout(120)
def test_the_examples_are_due_when_celery_says(procs: Procs, redis_url: str, docs: Any) -> None:
    """After a long standstill the beat decides each due time that Celery's own reading of the crontab names, no other,
    each once: all but the last few minutes are missed, being too late."""
    env = {"DOCS_BROKER": redis_url}
    crontabs: Mapping[str, Any] = {
        **docs.CRONTABS,
        "add-every-monday-morning": docs.app.conf.beat_schedule["add-every-monday-morning"]["schedule"],
    }
    wanted = [*crontabs, "add-at-melbourne-sunset"]
    days = {name: YEAR if name in RARE else WEEK for name in wanted}
    backdate = procs.python("backdate", "-m", "tests.e2e.apps.backdate", APP, json.dumps(days), env=env)
    assert backdate.wait(30) == 0, backdate.tail()
    marks = {name: datetime.fromisoformat(at) for name, at in json.loads(backdate.text().splitlines()[-1]).items()}
    assert set(marks) == set(wanted)
    beat = procs.beat(APP, env=env)
    with open_ledger(redis_url, NAME) as ledger:

        def decided() -> bool:
            states = ledger.run_states(wanted)
            return all(state.last_due and state.last_due > marks[name] for name, state in states.items())

        wait_until(decided, "every backlog to be decided", 60, interval=0.5, explain=beat.tail)
        reached = {name: state.last_due for name, state in ledger.run_states(wanted).items()}
        history = {name: ledger.fires(name) for name in wanted}
    for name, when in crontabs.items():
        records = [record for record in history[name] if _last(record) <= reached[name]]  # type: ignore[operator]
        last = max(map(_last, records))
        expected = list(_crontab_between(when, marks[name], last))
        assert sum(record.count for record in records) == len(expected), name
        assert min(record.due_at for record in records) == expected[0], name
        assert last == expected[-1], name
        assert not list(_crontab_between(when, last, datetime.fromtimestamp(beat_started(beat), UTC))), name
    sunsets = history["add-at-melbourne-sunset"]
    assert sum(record.count for record in sunsets) in (YEAR - 1, YEAR, YEAR + 1)
    for record in sunsets:
        assert 6 <= record.due_at.hour <= 10, f"no hour for a sunset in Melbourne: {record.due_at}"


def beat_started(beat: Any) -> float:
    """When its process began, seconds since 1970."""
    import psutil

    return psutil.Process(beat.pid).create_time()
