"""The ends of the calendar, and searches that find nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import SCHEDULE_TYPES, Bounded, Trigger, actual_at, build, jitter_of, preview

from .strategies import triggers

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
EDGES = [
    FIRST,
    FIRST + timedelta(microseconds=1),
    FIRST + timedelta(days=1),
    FIRST + timedelta(days=400),
    LAST - timedelta(days=400),
    LAST - timedelta(days=1),
    LAST - timedelta(seconds=1),
    LAST,
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-12))),
]


@settings(max_examples=300)
@given(triggers(), st.sampled_from(EDGES))
def test_the_ends_of_the_calendar_never_overflow(trigger: Trigger, t: datetime) -> None:
    following, latest = trigger.next_after(t), trigger.latest_at(t)
    assert following is None or following > t
    assert latest is None or latest <= t
    bounded = Bounded(trigger, t, t)
    assert bounded.next_after(t) is None
    assert bounded.latest_at(t) in (None, min(max(t, FIRST), LAST))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles", "Pacific/Kiritimati", "Africa/Monrovia"])
def test_the_first_and_last_days_of_the_calendar(zone: str) -> None:
    trigger = build("daily", {"hour": 12, "tz": zone})
    first, last = trigger.next_after(FIRST), trigger.latest_at(LAST)
    assert first is not None
    assert last is not None
    assert first - FIRST < timedelta(days=2)
    assert LAST - last < timedelta(days=2)
    assert trigger.next_after(last) is None
    assert trigger.latest_at(first - timedelta(microseconds=1)) is None
    assert [occurrence.due_at for occurrence in preview(trigger, last - timedelta(microseconds=1), 5)] == [last]


def test_jitter_does_not_leave_the_calendar() -> None:
    once = build("once", {"run_date": "9999-12-31T23:59:59Z"})
    assert actual_at(once, "a", LAST, 10**6) == LAST
    assert jitter_of("a", LAST, 1.0, None) < timedelta(seconds=1)


@pytest.mark.parametrize(
    ("schedule_type", "config", "field"),
    [
        ("cron", {"expr": "0 0 31 2 *"}, "day_of_month"),
        ("cron", {"expr": "0 0 31 2,4,6,9,11 *"}, "day_of_month"),
        ("cron", {"expr": "0 0 30 2 mon", "day_rule": "intersection"}, "day_of_month"),
        ("cron", {"expr": "0 0 1-7 * 5L", "day_rule": "intersection"}, "day_of_week"),
        ("rrule", {"rule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}, "rule"),
        ("rrule", {"rule": "FREQ=MONTHLY;BYDAY=5MO;BYSETPOS=2"}, "rule"),
        ("rrule", {"rule": "FREQ=WEEKLY;BYMONTH=4;BYMONTHDAY=31"}, "rule"),
        ("rrule", {"rule": "FREQ=DAILY;BYSETPOS=2"}, "rule"),
        ("rrule", {"rule": "FREQ=DAILY;INTERVAL=7;BYDAY=MO", "dtstart": "2026-01-01"}, "rule"),
        ("rrule", {"rule": "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30"}, "rule"),
        ("rrule", {"rule": "FREQ=HOURLY;INTERVAL=24;BYHOUR=3"}, "rule"),
        ("rrule", {"rule": "FREQ=DAILY;UNTIL=19600101T000000Z"}, "rule"),
        ("solar", {"event": "sunrise", "lat": 90, "lon": 0}, "lat"),
        ("weekly", {"day_of_week": []}, "day_of_week"),
        ("interval", {"weeks": 10_000}, "weeks"),
    ],
)
def test_what_would_never_be_due_is_refused(schedule_type: str, config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"\w") as refused:
        build(schedule_type, config)
    assert refused.value.field == field


@settings(max_examples=300)
@given(st.text(alphabet="0123456789*/,-#LWHlwh()@monfrisatjdec ?", max_size=30))
def test_any_text_is_built_or_refused(text: str) -> None:
    try:
        trigger = build("cron", {"expr": text}, schedule_id="x")
    except InvalidSchedule as refused:
        assert refused.field in ("expr", "minute", "hour", "day_of_month", "month_of_year", "day_of_week")  # noqa: PT017
    else:
        assert trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)) is not None
        assert build(*trigger.to_config()) == trigger
        assert trigger.describe()


ODD = ("--5", "1 5", "٣", "1_0", "5\0", "\ud800", "nan", "1e999", "9" * 5_000, "*" * 5_000, "H", "@", "-", ",", "1,,2")
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(ODD),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
# For every type a config that is right, and for each key what a complaint about its value may name.
RIGHT: dict[str, dict[str, object]] = {
    "interval": {"weeks": 0, "days": 0, "hours": 1, "minutes": 0, "seconds": 5, "offset": 1},
    "every_n_hours": {"n": 6, "offset": 1},
    "cron": {"expr": "5 9 * * *", "seconds": None, "day_rule": "crontab", "seed": "a"},
    "crontab": {"minute": 5, "hour": 9, "day": 1, "month": 2, "day_of_week": "mon"},
    "daily": {"hour": 9, "minute": 5, "second": 7},
    "weekly": {"day_of_week": "mon", "hour": 9, "minute": 5, "second": 7},
    "monthly": {"day": 31, "on_short_month": "skip", "hour": 9, "minute": 5, "second": 7},
    "once": {"run_date": "2026-05-01T09:00"},
    "one_shot_at": {"fire_at_iso": "2026-05-01T09:00"},
    "relative_delay": {"delay": "5m"},
    "random_within_window": {"start_hour": 9, "end_hour": 17, "fires_per_day": 3, "seed": "a"},
    "solar": {"event": "sunrise", "lat": 52.5, "lon": 13.4},
    "rrule": {"rule": "FREQ=DAILY", "dtstart": "2026-01-01T09:30"},
}
EVERY = {"tz": "Europe/Berlin", "dst_gap": "skip", "dst_fold": "both"}
CRON_FIELDS = {"minute", "hour", "day_of_month", "month_of_year", "day_of_week"}
NAMED = {
    "expr": {"expr", *CRON_FIELDS},
    "seconds": {"seconds", "expr"},
    "day": {"day", "day_of_month"},
    "month": {"month", "month_of_year"},
    "start_hour": {"start_hour", "end_hour", "fires_per_day"},
    "end_hour": {"end_hour", "fires_per_day"},
    "run_date": {"run_date", "created_at"},
    "day_of_week": {"day_of_week", "day_of_month"},
    **{unit: {unit, "weeks", "days", "hours", "offset"} for unit in ("weeks", "days", "hours", "minutes", "n")},
}


@settings(max_examples=1_000)
@given(st.data())
def test_any_value_is_taken_or_refused_by_its_name(data: st.DataObject) -> None:
    """No input may raise anything but InvalidSchedule: a bad row must not stop the loop."""
    schedule_type = data.draw(st.sampled_from(sorted(RIGHT)))
    config = {**RIGHT[schedule_type], **EVERY}
    key = data.draw(st.sampled_from(sorted(config)))
    config[key] = data.draw(junk)
    created = datetime(2026, 1, 1, tzinfo=UTC)
    try:
        trigger = build(schedule_type, config, created_at=created)
    except InvalidSchedule as refused:
        assert refused.field in NAMED.get(key, {key})  # noqa: PT017
    else:
        assert build(*trigger.to_config()) == trigger
        following, latest = trigger.next_after(created), trigger.latest_at(created)
        assert following is None or following > created
        assert latest is None or latest <= created


def test_every_type_has_a_right_config() -> None:
    assert RIGHT.keys() == set(SCHEDULE_TYPES) - {"daily_at"}
    for schedule_type, config in RIGHT.items():
        build(schedule_type, {**config, **EVERY}, created_at=datetime(2026, 1, 1, tzinfo=UTC))


def test_a_window_on_the_last_day_of_the_calendar() -> None:
    trigger = build("random_within_window", {"start_hour": 6, "end_hour": 8})
    last = trigger.latest_at(LAST)
    assert last is not None
    assert LAST - last < timedelta(days=1)
    assert trigger.next_after(last) is None
