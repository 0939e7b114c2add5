"""Solar events: every one found once, polar gaps as gaps, the same instant whoever asks and from whenever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from random import Random

import pytest

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Trigger, build
from celery_parrot.triggers.solar import EVENTS

START = datetime(2026, 1, 1, tzinfo=UTC)
TROMSO = {"lat": 69.6492, "lon": 18.9553}


def solar(event: str, lat: float, lon: float) -> Trigger:
    return build("solar", {"event": event, "lat": lat, "lon": lon})


def year(trigger: Trigger) -> list[datetime]:
    found: list[datetime] = []
    due = trigger.next_after(START)
    while due is not None and due < START + timedelta(days=365):
        found.append(due)
        due = trigger.next_after(due)
    return found


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize(("lat", "lon"), [(0, 0), (40.4, -3.7), (-33.9, 151.2), (21.3, -157.9), (0, 180), (10, -180)])
def test_once_a_day_where_day_and_night_take_turns(event: str, lat: float, lon: float) -> None:
    found = year(solar(event, lat, lon))
    assert 364 <= len(found) <= 366
    assert all(timedelta(hours=23.8) < later - earlier < timedelta(hours=24.2) for earlier, later in pairwise(found))


@pytest.mark.parametrize("event", ["sunrise", "sunset"])
def test_a_polar_night_and_a_polar_day_are_gaps(event: str) -> None:
    found = year(solar(event, **TROMSO))
    gaps = [later - earlier for earlier, later in pairwise(found) if later - earlier > timedelta(days=5)]
    assert len(gaps) == 1  # the summer; winter lies across the year's end
    assert timedelta(days=60) < gaps[0] < timedelta(days=75)
    assert 230 < len(found) < 260


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("lat", [69.6492, -78.5, 59.9, 48.6])
def test_backwards_finds_what_forwards_finds(event: str, lat: float) -> None:
    trigger = solar(event, lat, 18.9553)
    found = year(trigger)
    back: list[datetime] = []
    due = trigger.latest_at(START + timedelta(days=365) - timedelta(microseconds=1))
    while due is not None and due > START:
        back.append(due)
        due = trigger.latest_at(due - timedelta(microseconds=1))
    assert back[::-1] == found
    assert len(set(found)) == len(found)


def test_the_answer_does_not_depend_on_the_question() -> None:
    rng = Random(5)
    for _ in range(300):
        trigger = solar(rng.choice(EVENTS), rng.uniform(-85, 85), rng.uniform(-180, 180))
        t = START + timedelta(seconds=rng.randint(0, 10**8))
        due = trigger.next_after(t)
        assert due is not None
        assert due.microsecond == 0
        for _ in range(5):
            between = t + (due - t) * rng.random()
            assert trigger.next_after(between) == due or between >= due
            assert trigger.latest_at(due + timedelta(seconds=rng.randint(0, 3_600))) == due


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "event"),
        ({"event": "moonrise", "lat": 0, "lon": 0}, "event"),
        ({"event": ["sunrise"], "lat": 0, "lon": 0}, "event"),
        ({"event": "sunrise", "lon": 0}, "lat"),
        ({"event": "sunrise", "lat": 91, "lon": 0}, "lat"),
        ({"event": "sunrise", "lat": 0, "lon": -181}, "lon"),
        ({"event": "sunrise", "lat": "north", "lon": 0}, "lat"),
        ({"event": "sunset", "lat": -90, "lon": 0}, "lat"),
    ],
)
def test_refused(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"\w") as refused:
        build("solar", config)
    assert refused.value.field == field


def test_without_ephem_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ephem", None)
    with pytest.raises(InvalidSchedule, match=r"celery-parrot\[solar\]"):
        solar("sunrise", 0, 0)


def test_described() -> None:
    assert solar("dusk_civil", 52.5, 13.4).describe() == (
        "Dusk civil at latitude 52.5, longitude 13.4 (the sun's time; clock changes do not move it)."
    )
