"""Interval, calendar and one-shot types: keys, defaults, aliases and what is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from random import Random

import pytest

from celery_parrot.triggers import SCHEDULE_TYPES, Trigger, build

from .walks import following, refusal

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday
CREATED = datetime(2026, 5, 1, 12, 30, 15, 250_000, tzinfo=UTC)
NAMES = (
    *("cron", "crontab", "daily", "daily_at", "every_n_hours", "interval", "monthly", "once", "one_shot_at"),
    *("random_within_window", "relative_delay", "rrule", "solar", "weekly"),
)


def dues(trigger: Trigger, count: int, form: str = "%m-%d %H:%M", start: datetime = START) -> list[str]:
    return [due.strftime(form) for due in following(trigger, start, count)]


def refused(schedule_type: str, config: dict[str, object], **more: object) -> str:
    return refusal(schedule_type, config, **more).field


def test_every_type_is_known() -> None:
    assert sorted(SCHEDULE_TYPES) == sorted(NAMES)
    assert refused("hourly", {}) == "schedule_type"
    assert refused("daily", []) == "schedule_config"  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [[], {}, None, 5, True, float("nan"), b"daily", ("daily",)])
def test_what_is_no_text_is_refused_wherever_text_belongs(bad: object) -> None:
    assert refused(bad, {}) == "schedule_type"  # type: ignore[arg-type]
    assert refused("daily", {}, schedule_id=bad) == "schedule_id"
    assert refused("daily", {}, timezone=bad) == "timezone"
    assert refused("daily", {}, timezone=bad, created_at=CREATED) == "timezone"


@pytest.mark.parametrize("bad", ["2026-01-01", 5, True, [], START.date()])
def test_the_instant_of_creation_is_a_datetime(bad: object) -> None:
    assert refused("once", {}, created_at=bad) == "created_at"


def test_interval_sums_its_units_from_1970() -> None:
    rng = Random(7)
    units = {"weeks": 604_800, "days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}
    for _ in range(2_000):
        config: dict[str, object] = {unit: rng.randint(0, 5) for unit in rng.sample(sorted(units), 3)}
        config["seconds"] = rng.choice((1, 0.1, 0.25, 7, 1_000.5))
        every = round(sum(float(str(value)) * units[unit] for unit, value in config.items()) * 10**6)
        offset = rng.randrange(every)
        trigger = build("interval", {**config, "offset": offset / 10**6})
        t = START + timedelta(microseconds=rng.randint(-(10**16), 10**16))
        due = trigger.next_after(t)
        assert due is not None
        since = (due - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        assert (since - offset) % every == 0
        assert trigger.latest_at(t) == due - timedelta(microseconds=every) <= t < due


def test_interval_shapes() -> None:
    assert build("every_n_hours", {"n": 6}) == build("interval", {"hours": 6}) == build("interval", {"minutes": "360"})
    assert build("interval", {"seconds": 90}).describe().startswith("Every 90 seconds, ")
    assert build("interval", {"days": 1}).describe().startswith("Every day, ")
    assert build("interval", {"weeks": 2, "offset": 30}).describe() == (
        "Every 2 weeks, counted from 1970-01-01 00:00 UTC and 30 s; clock changes do not move it."
    )
    assert build("interval", {"seconds": 0.1}).to_config() == ("interval", {"seconds": 0.1})
    assert dues(build("interval", {"hours": 6, "offset": 1800}), 2) == ["01-01 00:30", "01-01 06:30"]


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "seconds"),
        ({"seconds": 0}, "seconds"),
        ({"minutes": -1}, "minutes"),
        ({"seconds": 0.099}, "seconds"),
        ({"weeks": 1e300}, "weeks"),
        ({"days": 20_000}, "days"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": float("inf")}, "seconds"),
        ({"seconds": "soon"}, "seconds"),
        ({"seconds": True}, "seconds"),
        ({"seconds": [5]}, "seconds"),
        ({"seconds": 5, "offset": 5}, "offset"),
        ({"seconds": 5, "offset": -1}, "offset"),
        ({"hour": 5}, "hour"),
        ({"weeks": 10_000, "seconds": 1}, "weeks"),
        ({"minutes": -1, "seconds": 5}, "minutes"),
        ({"seconds": "1_0"}, "seconds"),
        ({"seconds": "٣"}, "seconds"),
        ({"seconds": "--5"}, "seconds"),
    ],
)
def test_interval_refuses(config: dict[str, object], field: str) -> None:
    assert refused("interval", config) == field


def test_daily() -> None:
    assert dues(build("daily", {}), 2) == ["01-02 00:00", "01-03 00:00"]
    assert dues(build("daily_at", {"hour": "9", "minute": 5.0, "second": 7}), 2, "%d %T") == [
        "01 09:05:07",
        "02 09:05:07",
    ]
    assert build("daily_at", {"hour": 9}) == build("daily", {"hour": 9, "second": None})
    assert build("daily", {"hour": 9}).describe() == "Every day at 09:00 (UTC)."
    assert refused("daily", {"hour": 24}) == "hour"
    assert refused("daily", {"minute": -1}) == "minute"
    assert refused("daily", {"second": "x"}) == "second"
    assert refused("daily", {"hour": True}) == "hour"
    assert refused("daily", {"hour": 9.5}) == "hour"
    for text in ("--5", "5-", "٣", "1_0", "9" * 5_000):
        assert refused("daily", {"hour": text}) == "hour"


@pytest.mark.parametrize(
    ("given", "right"),
    [
        (None, ["01-05", "01-12"]),
        ("mon", ["01-05", "01-12"]),
        (1, ["01-05", "01-12"]),
        (0, ["01-04", "01-11"]),
        (7, ["01-04", "01-11"]),
        ("Sunday", ["01-04", "01-11"]),
        (["tue", 4], ["01-06", "01-08", "01-13"]),
        ("fri,mon", ["01-02", "01-05", "01-09"]),
        ("sat-mon", ["01-03", "01-04", "01-05", "01-10"]),
    ],
)
def test_weekly(given: object, right: list[str]) -> None:
    assert dues(build("weekly", {"day_of_week": given}), len(right), "%m-%d") == right


def test_weekly_words_and_refusals() -> None:
    words = build("weekly", {"day_of_week": ["wed", "mon", 0], "hour": 9}).describe()
    assert words == "Every Sunday, Monday and Wednesday at 09:00 (UTC)."
    bads: tuple[object, ...] = ("funday", [], 8, -1, True, 1.5, "fri#2", "5L", ["mon", None], {}, {"mon": 1}, b"\x01")
    for bad in bads:
        assert refused("weekly", {"day_of_week": bad}) == "day_of_week"
    # H would be the same day for everybody, as nothing is hashed here.
    for text in ("H", "mon tue", "1 5", [1] * 5_000):
        assert refused("weekly", {"day_of_week": text}) == "day_of_week"


@pytest.mark.parametrize(
    ("config", "right"),
    [
        ({}, ["02-01", "03-01"]),
        ({"day": 31}, ["01-31", "02-28", "03-31", "04-30"]),
        ({"day": 31, "on_short_month": "skip"}, ["01-31", "03-31", "05-31"]),
        ({"day": -1}, ["01-31", "02-28", "03-31"]),
        ({"day": -1, "on_short_month": "skip"}, ["01-31", "02-28", "03-31"]),
        ({"day": [1, 15, 30]}, ["01-15", "01-30", "02-01", "02-15", "02-28", "03-01"]),
        ({"day": [29, 30, 31]}, ["01-29", "01-30", "01-31", "02-28", "03-29"]),
        ({"day": "5, 20"}, ["01-05", "01-20", "02-05"]),
    ],
)
def test_monthly(config: dict[str, object], right: list[str]) -> None:
    assert dues(build("monthly", config), len(right), "%m-%d") == right


def test_monthly_words_and_refusals() -> None:
    words = build("monthly", {"day": [-1, 2, 23], "hour": 9}).describe()
    assert words == "On the 2nd, 23rd and last day of every month at 09:00 (UTC)."
    assert "in shorter months on the last day" in build("monthly", {"day": 31}).describe()
    assert "not in shorter months" in build("monthly", {"day": 31, "on_short_month": "skip"}).describe()
    for bad in (0, 32, -2, [], "x", [1, 0], True, 1.5, {"1": 1}, b"\x01"):
        assert refused("monthly", {"day": bad}) == "day"
    assert refused("monthly", {"on_short_month": "first"}) == "on_short_month"


def test_once() -> None:
    due = datetime(2026, 5, 1, 9, tzinfo=UTC)
    for text in ("2026-05-01T09:00:00Z", "2026-05-01T11:00:00+02:00", "2026-05-01 09:00"):
        for key, name in (("run_date", "once"), ("fire_at_iso", "one_shot_at"), ("fire_at_iso", "once")):
            trigger = build(name, {key: text})
            assert trigger.to_config() == ("once", {"run_date": "2026-05-01T09:00:00+00:00"})
            assert trigger.next_after(due) is None
            assert trigger.next_after(due - timedelta(microseconds=1)) == due == trigger.latest_at(due)
            assert trigger.latest_at(due - timedelta(microseconds=1)) is None
    assert build("once", {"run_date": due}) == build("once", {"run_date": due.astimezone(timezone(timedelta(hours=5)))})
    assert build("once", {"run_date": "2026-05-01T09:00"}, timezone="Asia/Tokyo").latest_at(due) == due - timedelta(
        hours=9
    )
    assert build("once", {}, created_at=CREATED).latest_at(CREATED) == CREATED
    assert build("once", {"run_date": due}).describe() == "Once, at 2026-05-01 09:00:00 UTC."


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "run_date"),
        ({"run_date": "tomorrow"}, "run_date"),
        ({"run_date": 1_777_000_000}, "run_date"),
        ({"fire_at_iso": "2026-13-01"}, "fire_at_iso"),
        ({"run_date": "2026-05-01", "fire_at_iso": "2026-05-01"}, "fire_at_iso"),
        ({"run_date": "0001-01-01T00:00:00+14:00"}, "run_date"),
        ({"run_date": "9999-12-31T23:59:59-12:00"}, "run_date"),
        ({"run_date": "9999-12-31T23:59:59", "tz": "America/New_York"}, "run_date"),
        ({"run_date": "2026-03-29T02:30:00", "tz": "Europe/Berlin", "dst_gap": "skip"}, "run_date"),
    ],
)
def test_once_refuses(config: dict[str, object], field: str) -> None:
    assert refused("once", config) == field


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("30m", 1_800),
        ("45s", 45),
        ("2h", 7_200),
        ("1d", 86_400),
        ("1h 30m", 5_400),
        ("1.5h", 5_400),
        (90, 90),
        ("90", 90),
        (0, 0),
    ],
)
def test_relative_delay(delay: object, seconds: int) -> None:
    due = CREATED + timedelta(seconds=seconds)
    trigger = build("relative_delay", {"delay": delay}, created_at=CREATED)
    assert trigger.latest_at(due) == due
    assert trigger.to_config() == ("once", {"run_date": due.isoformat()})


@pytest.mark.parametrize(
    "delay", [None, "", "soon", "-5m", -5, "5w", "5m extra", float("nan"), True, [5], "1e400", "٣m"]
)
def test_relative_delay_refuses(delay: object) -> None:
    assert refused("relative_delay", {"delay": delay}, created_at=CREATED) == "delay"


def test_relative_delay_needs_an_instant_of_creation_within_the_calendar() -> None:
    assert refused("relative_delay", {"delay": "5m"}) == "delay"
    assert refused("relative_delay", {"delay": "9999999d"}, created_at=CREATED) == "delay"
    naive = build("relative_delay", {"delay": "1h"}, created_at=datetime(2026, 1, 1), timezone="Asia/Tokyo")  # noqa: DTZ001
    assert naive.next_after(datetime(2025, 1, 1, tzinfo=UTC)) == datetime(2025, 12, 31, 16, tzinfo=UTC)
