"""What holds for every trigger, whatever its type, zone and policy."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_parrot.triggers import Bounded, Trigger, build

from .strategies import instants, triggers

MICROSECOND = timedelta(microseconds=1)
MANY = settings(max_examples=400)


@MANY
@given(triggers(), instants())
def test_next_and_latest_enclose_the_instant(trigger: Trigger, t: datetime) -> None:
    latest, following = trigger.latest_at(t), trigger.next_after(t)
    assert latest is None or latest <= t
    assert following is None or following > t
    assert all(due is None or due.tzinfo is UTC for due in (latest, following))


@MANY
@given(triggers(), instants())
def test_nothing_is_due_between_latest_and_next(trigger: Trigger, t: datetime) -> None:
    latest, following = trigger.latest_at(t), trigger.next_after(t)
    if latest is not None:
        assert trigger.next_after(latest) == following
        assert trigger.latest_at(latest) == latest
    if following is not None:
        assert trigger.latest_at(following) == following
        assert trigger.latest_at(following - MICROSECOND) == latest


@MANY
@given(triggers(), instants(), st.integers(-23, 23))
def test_the_zone_of_the_question_does_not_matter(trigger: Trigger, t: datetime, hours: int) -> None:
    elsewhere = t.astimezone(timezone(timedelta(hours=hours)))
    assert trigger.next_after(elsewhere) == trigger.next_after(t)
    assert trigger.latest_at(elsewhere) == trigger.latest_at(t)


@MANY
@given(triggers())
def test_a_trigger_is_the_value_of_its_config(trigger: Trigger) -> None:
    schedule_type, config = trigger.to_config()
    again = build(schedule_type, json.loads(json.dumps(config)))
    assert again == trigger
    assert hash(again) == hash(trigger)
    assert again.to_config() == (schedule_type, config)
    assert pickle.loads(pickle.dumps(trigger)) == copy.deepcopy(trigger) == trigger


@MANY
@given(triggers())
def test_a_description_is_one_sentence(trigger: Trigger) -> None:
    text = trigger.describe()
    assert text.endswith(".")
    assert "\n" not in text
    assert not text[0].islower()
    assert trigger.deterministic


@MANY
@given(triggers(), instants(), instants(), instants())
def test_bounds_cut_and_change_nothing_else(trigger: Trigger, t: datetime, one: datetime, other: datetime) -> None:
    start, end = sorted((one, other))
    bounded = Bounded(trigger, start, end)
    following, latest = bounded.next_after(t), bounded.latest_at(t)
    if following is None:
        unbounded = trigger.next_after(max(t, start - MICROSECOND))
        assert unbounded is None or unbounded > end
    else:
        assert start <= following <= end
        assert following == trigger.next_after(max(t, start - MICROSECOND))
    assert latest is None or (start <= latest <= end and latest == trigger.latest_at(min(t, end)))


SCRIPT = """
import json, sys
from datetime import datetime, timedelta
from celery_parrot.triggers import build, jitter_of
answers = []
for schedule_type, config, schedule_id in json.load(sys.stdin):
    trigger = build(schedule_type, config, schedule_id=schedule_id)
    due = datetime.fromisoformat("2026-03-28T20:00:00+00:00")
    for _ in range(30):
        due = trigger.next_after(due)
        if due is None:
            break
        answers.append((due + jitter_of(schedule_id, due, 600)).isoformat())
print(json.dumps([answers, sorted(sys.modules.keys() & {"celery", "kombu", "redis", "ephem"})]))
"""
QUESTIONS = [
    ("cron", {"expr": "H H(1-3) * * *", "tz": "Europe/Berlin"}, "report"),
    ("cron", {"expr": "*/20 2 * * fri-mon", "tz": "America/Havana"}, "a"),
    ("daily", {"hour": 2, "minute": 30, "tz": "Australia/Lord_Howe"}, "b"),
    ("random_within_window", {"start_hour": 22, "end_hour": 5, "fires_per_day": 4, "tz": "Europe/Berlin"}, "c"),
    ("rrule", {"rule": "FREQ=WEEKLY;BYDAY=SU;BYHOUR=2", "dtstart": "2026-01-01T02:30:00", "tz": "Europe/Berlin"}, "d"),
    ("once", {"run_date": "2026-03-29T02:30:00", "tz": "Europe/Berlin"}, "e"),
    ("interval", {"minutes": 7}, "f"),
]


@pytest.fixture(scope="module")
def answers() -> list[str]:
    return [
        _ask({"TZ": zone, "PYTHONHASHSEED": seed})
        for zone, seed in (("UTC", "0"), ("Asia/Kathmandu", "1"), ("America/New_York", "random"))
    ]


def _ask(environment: dict[str, str]) -> str:
    asked = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(QUESTIONS),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return asked.stdout


def test_every_process_gives_the_same_answers(answers: list[str]) -> None:
    due, _ = json.loads(answers[0])
    assert len(due) == 181
    assert answers[1:] == answers[:-1]


def test_neither_celery_nor_a_backend_is_imported(answers: list[str]) -> None:
    assert json.loads(answers[0])[1] == []
