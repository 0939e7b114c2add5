"""Every example of Celery's own page on periodic tasks, unchanged, under a real beat."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from tests.chaos.ledger import open_ledger
from tests.support.procs import Procs
from tests.support.waiting import wait_until, wall_clock

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
    assert "(0 broken)" in beat.text(), beat.tail()
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

    def caught_up() -> bool:
        found = {name: _decided(beat.text(), name) for name in wanted}
        now = datetime.fromtimestamp(wall_clock() - 5, UTC)
        return all(
            found[name] and not list(_crontab_between(when, found[name][-1].last, now))
            for name, when in crontabs.items()
        )

    wait_until(caught_up, "every backlog to be decided", 60, interval=0.5, explain=beat.tail)
    for name, when in crontabs.items():
        decided = _decided(beat.text(), name)
        expected = list(_crontab_between(when, marks[name], decided[-1].last))
        assert sum(one.number for one in decided) == len(expected), name
        assert decided[0].first == expected[0], name
        assert decided[-1].last == expected[-1], name
    sunsets = _decided(beat.text(), "add-at-melbourne-sunset")
    assert sum(one.number for one in sunsets) in (YEAR - 1, YEAR, YEAR + 1)
    for one in sunsets:
        assert 6 <= one.first.hour <= 10, f"no hour for a sunset in Melbourne: {one.first}"


class _Decided(NamedTuple):
    first: datetime
    last: datetime
    number: int


def _decided(log: str, name: str) -> list[_Decided]:
    """What a beat says it has sent or missed of a schedule, in order."""
    found: list[_Decided] = []
    for line in log.splitlines():
        if missed := re.search(rf"\] {re.escape(name)}: (\d+) due time\(s\) missed .*, (\S+) to (\S+)$", line):
            count, first, last = missed.groups()
            found.append(_Decided(datetime.fromisoformat(first), datetime.fromisoformat(last), int(count)))
        elif sent := re.search(rf"\] {re.escape(name)} due (\S+): sent$", line):
            due_at = datetime.fromisoformat(sent.group(1))
            found.append(_Decided(due_at, due_at, 1))
    return sorted(found)
