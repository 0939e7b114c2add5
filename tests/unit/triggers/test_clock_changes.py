"""Every minute of the days on which clocks change, and the policies for them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest

from celery_parrot.triggers import build

from .walks import MICROSECOND, following, within, within_backwards
from .witness import ZONES, Named, any_day, by_policy, days_with_changes, month_length, scan, weekday

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
YEARS = {"Pacific/Apia": (2011, 2011), "America/Sao_Paulo": (2018, 2018), "Europe/Istanbul": (2016, 2016)}


def every(start: int, stop: int, step: int = 1) -> frozenset[int]:
    return frozenset(range(start, stop, step))


EXPRESSIONS = {
    "30 2 * * *": Named(frozenset({30}), frozenset({2}), any_day, continuous=False),
    "0 0 * * *": Named(frozenset({0}), frozenset({0}), any_day, continuous=False),
    "0,45 0-3 * * *": Named(frozenset({0, 45}), every(0, 4), any_day, continuous=False),
    "*/15 * * * *": Named(every(0, 60, 15), every(0, 24), any_day, continuous=True),
    "*/20 0-2 * * *": Named(every(0, 60, 20), every(0, 3), any_day, continuous=True),
    "50 */2 * * *": Named(frozenset({50}), every(0, 24, 2), any_day, continuous=True),
}


def changes(zone: str) -> list[datetime]:
    """Two days with a change each: of 2026 if it has any, else the last two since 1990."""
    first, last = YEARS.get(zone, (2026, 2026))
    return (days_with_changes(zone, first, last) or days_with_changes(zone, 1990, 2026))[-2:]


@pytest.mark.parametrize("zone", [zone for zone in ZONES if zone != "UTC"])
def test_every_minute_of_both_days(zone: str, full: bool) -> None:
    days = changes(zone)
    for text, named in EXPRESSIONS.items():
        trigger = build("cron", {"expr": text, "tz": zone})
        for day in days:
            right = list(scan(named, zone, day - DAY, day + 4 * DAY))
            # Coprime to every expression: over its zones and days the short form meets each minute of an hour.
            for minute in range(0, 2 * 24 * 60, 1 if full else 7):
                t = day + minute * MINUTE
                at = bisect_right(right, t)
                assert trigger.latest_at(t) == right[at - 1], (text, t)
                assert trigger.next_after(t) == right[at], (text, t)


def dues(config: dict[str, object], begin: datetime, end: datetime, schedule_type: str = "cron") -> list[str]:
    """The due times in between as local readings with their offset."""
    trigger = build(schedule_type, config)
    info = ZoneInfo(str(config["tz"]))
    return [due.astimezone(info).strftime("%d %H:%M%z") for due in within(trigger, begin, end)]


BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 28, 23, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expr", "gap", "right"),
    [
        ("30 2 * * *", "next_valid", ["29 03:00+0200"]),
        ("30 2 * * *", "skip", []),
        ("0,30 2 * * *", "next_valid", ["29 03:00+0200"]),
        ("0 2,3 * * *", "next_valid", ["29 03:00+0200"]),
        ("0 2,3 * * *", "skip", ["29 03:00+0200"]),
        ("30 2,3 * * *", "next_valid", ["29 03:00+0200", "29 03:30+0200"]),
        ("*/30 2 * * *", "next_valid", []),
        (
            "30 */2 * * *",
            "next_valid",
            [f"29 {hour:02}:30+0{1 if hour < 2 else 2}00" for hour in range(0, 24, 2) if hour != 2],
        ),
    ],
)
def test_gap(expr: str, gap: str, right: list[str]) -> None:
    assert dues({"expr": expr, "tz": BERLIN, "dst_gap": gap}, SPRING, SPRING + 23 * timedelta(hours=1)) == right


@pytest.mark.parametrize(
    ("expr", "fold", "right"),
    [
        ("30 2 * * *", "first", ["25 02:30+0200"]),
        ("30 2 * * *", "last", ["25 02:30+0100"]),
        ("30 2 * * *", "both", ["25 02:30+0200", "25 02:30+0100"]),
        ("0,30 1,2 * * *", "first", ["25 01:00+0200", "25 01:30+0200", "25 02:00+0200", "25 02:30+0200"]),
        ("0,30 1,2 * * *", "last", ["25 01:00+0200", "25 01:30+0200", "25 02:00+0100", "25 02:30+0100"]),
        ("*/30 2 * * *", "first", ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]),
        ("*/30 2 * * *", "last", ["25 02:00+0200", "25 02:30+0200", "25 02:00+0100", "25 02:30+0100"]),
    ],
)
def test_fold(expr: str, fold: str, right: list[str]) -> None:
    assert dues({"expr": expr, "tz": BERLIN, "dst_fold": fold}, AUTUMN, AUTUMN + 25 * timedelta(hours=1)) == right


@pytest.mark.parametrize(
    ("schedule_type", "config"),
    [
        ("daily", {"hour": 2, "minute": 30}),
        ("weekly", {"day_of_week": "sunday", "hour": 2, "minute": 30}),
        ("monthly", {"day": [25, 29], "hour": 2, "minute": 30}),
        ("rrule", {"rule": "FREQ=DAILY", "dtstart": "2020-01-01T02:30:00"}),
    ],
)
def test_calendar_types_are_wall(schedule_type: str, config: dict[str, object]) -> None:
    config = {**config, "tz": BERLIN}
    assert dues(config, SPRING, SPRING + timedelta(hours=23), schedule_type) == ["29 03:00+0200"]
    assert dues(config, AUTUMN, AUTUMN + timedelta(hours=25), schedule_type) == ["25 02:30+0200"]
    assert dues({**config, "dst_fold": "both"}, AUTUMN, AUTUMN + timedelta(hours=25), schedule_type) == [
        "25 02:30+0200",
        "25 02:30+0100",
    ]


def test_a_daily_nine_oclock_is_23_24_or_25_hours_apart() -> None:
    found = following(build("daily", {"hour": 9, "tz": "America/New_York"}), datetime(2027, 1, 1, tzinfo=UTC), 365)
    steps = [(later - earlier) // timedelta(hours=1) for earlier, later in pairwise(found)]
    assert sorted(set(steps)) == [23, 24, 25]
    assert (steps.count(23), steps.count(25)) == (1, 1)


def test_continuous_runs_on_in_real_time() -> None:
    """In New York 05:00Z to 07:00Z of 7 November 2027 is one hour twice, 14 March has its gap at 07:00Z."""
    quarter = build("cron", {"expr": "*/15 * * * *", "tz": "America/New_York"})
    t = datetime(2027, 11, 7, 5, tzinfo=UTC)
    assert following(quarter, t - MICROSECOND, 8) == [t + n * timedelta(minutes=15) for n in range(8)]
    t = datetime(2027, 3, 14, 6, 45, tzinfo=UTC)
    assert quarter.next_after(t) == t + timedelta(minutes=15)
    half = build("cron", {"expr": "30 * * * *", "tz": "America/New_York"})
    t = datetime(2027, 11, 7, 5, 30, tzinfo=UTC)
    assert following(half, t - MICROSECOND, 2) == [t, t + timedelta(hours=1)]


def test_from_within_the_second_pass_the_answer_lies_ahead() -> None:
    """06:10Z is 01:10 for the second time; 01:30 has been, the next one is tomorrow's."""
    trigger = build("daily", {"hour": 1, "minute": 30, "tz": "America/New_York"})
    inside = datetime(2027, 11, 7, 6, 10, tzinfo=UTC)
    assert trigger.next_after(inside) == datetime(2027, 11, 8, 6, 30, tzinfo=UTC)
    assert trigger.latest_at(inside) == datetime(2027, 11, 7, 5, 30, tzinfo=UTC)


def test_a_rare_continuous_schedule_is_found_in_the_second_pass() -> None:
    """The following match of the expression is a year away, that of the clock ten minutes."""
    trigger = build("cron", {"expr": "*/15 2 25 10 *", "tz": BERLIN})
    inside = datetime(2026, 10, 25, 0, 50, tzinfo=UTC)
    assert trigger.next_after(inside) == datetime(2026, 10, 25, 1, tzinfo=UTC)
    assert trigger.latest_at(datetime(2026, 10, 25, 1, 0, tzinfo=UTC) - MICROSECOND) == inside - 5 * MINUTE


def test_the_day_that_apia_skipped() -> None:
    trigger = build("cron", {"expr": "0 9 30 12 *", "tz": "Pacific/Apia"})
    assert trigger.next_after(datetime(2011, 6, 1, tzinfo=UTC)) == datetime(2011, 12, 30, 10, tzinfo=UTC)
    skipping = build("cron", {"expr": "0 9 30 12 *", "tz": "Pacific/Apia", "dst_gap": "skip"})
    assert skipping.next_after(datetime(2011, 6, 1, tzinfo=UTC)) == datetime(2012, 12, 29, 19, tzinfo=UTC)


def test_a_time_that_never_exists_does_not_search_for_ever() -> None:
    """Every second Sunday of March at 02:30 is in the gap in New York."""
    trigger = build(
        "cron", {"expr": "30 2 8-14 3 *", "tz": "America/New_York", "day_rule": "intersection", "dst_gap": "skip"}
    )
    sundays = build("cron", {"expr": "30 2 * 3 sun#2", "tz": "America/New_York", "dst_gap": "skip"})
    t = datetime(2026, 1, 1, tzinfo=UTC)
    assert trigger.next_after(t) is not None
    assert sundays.next_after(t) is None
    assert sundays.latest_at(t) == datetime(2006, 3, 12, 7, 30, tzinfo=UTC)


@pytest.mark.parametrize("policy", ["first", "last", "both"])
def test_naive_instants_are_readings_under_the_same_policy(policy: str) -> None:
    hour = 1 if policy == "last" else 0
    once = build("once", {"run_date": "2026-10-25T02:30:00", "tz": BERLIN, "dst_fold": policy})
    assert once.next_after(AUTUMN) == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)
    gap = build("once", {"run_date": "2026-03-29T02:30:00.5", "tz": BERLIN})
    assert gap.next_after(SPRING) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    plain = build(
        "once",
        {"run_date": datetime.combine(date(2026, 5, 1), datetime.min.time()).replace(microsecond=7), "tz": BERLIN},
    )
    assert plain.next_after(SPRING) == datetime(2026, 4, 30, 22, microsecond=7, tzinfo=UTC)


def test_a_change_right_after_new_year_in_universal_time_is_seen_from_before() -> None:
    """Dhaka, 1 January 2010: the search takes a zone a year at a time, and the repeated hour spans two of them."""
    trigger = build("daily", {"hour": 23, "minute": 45, "tz": "Asia/Dhaka", "dst_fold": "both"})
    first = datetime(2009, 12, 31, 16, 45, tzinfo=UTC)
    assert following(trigger, first - MICROSECOND, 2) == [first, first + timedelta(hours=1)]


def _wall(rng: Random, day: datetime) -> tuple[str, dict[str, object], Callable[[datetime], bool]]:
    """A wall schedule of one of the calendar types and what it names, in our own words."""
    hour, minute = rng.choice((0, 1, 2, 3, 23, rng.randint(0, 23))), rng.choice((0, 30, 45, 59))
    time: dict[str, object] = {"hour": hour, "minute": minute}

    def at(reading: datetime) -> bool:
        return (reading.hour, reading.minute) == (hour, minute)

    kind = rng.choice(("daily", "weekly", "monthly", "rrule"))
    if kind == "weekly":
        days = rng.sample(range(7), 4)
        return kind, {**time, "day_of_week": days}, lambda reading: at(reading) and weekday(reading) in days
    if kind == "monthly":
        dates = rng.sample((-1, *range(1, 32)), 12)

        def on(reading: datetime) -> bool:
            length = month_length(reading)
            long = reading.day == length and any(date > length or date == -1 for date in dates)
            return at(reading) and (reading.day in dates or long)

        return kind, {**time, "day": dates}, on
    if kind == "rrule":
        start = day.replace(tzinfo=None, hour=hour, minute=minute) - 400 * DAY
        rule: dict[str, object] = {"rule": "FREQ=DAILY;INTERVAL=2", "dtstart": start.isoformat()}
        return kind, rule, lambda reading: at(reading) and (reading.date() - start.date()).days % 2 == 0
    return kind, time, at


def test_every_policy_is_what_reading_the_clock_says(full: bool) -> None:
    rng = Random(20_266)
    moved = 0
    for _ in range(1_500 if full else 50):
        zone = rng.choice(ZONES[:-1])
        day = rng.choice(days_with_changes(zone, *2 * (rng.randint(1972, 2037),)) or [datetime(2010, 1, 1, tzinfo=UTC)])
        gap, fold = rng.choice(("next_valid", "skip")), rng.choice(("first", "last", "both"))
        kind, config, named = _wall(rng, day)
        trigger = build(kind, {**config, "tz": zone, "dst_gap": gap, "dst_fold": fold})
        begin, end = day - DAY, day + 3 * DAY
        right = by_policy(named, zone, begin, end, gap, fold)
        assert within(trigger, begin, end) == right, (trigger, begin)
        assert within_backwards(trigger, begin, end) == right, (trigger, begin)
        moved += any(not named(due.astimezone(ZoneInfo(zone)).replace(tzinfo=None)) for due in right)
    assert moved
