"""Recurrence rules: equal to a plain walk by dateutil, without its cost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrule, rrulestr

from celery_parrot.triggers import Trigger, build
from celery_parrot.triggers.readings import Between, CalendarReadings
from celery_parrot.triggers.rule import Rule

from .walks import MICROSECOND, following, refusal

RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=DAILY;INTERVAL=10;BYMONTH=1,2",
    "FREQ=DAILY;BYHOUR=9,17;BYMINUTE=0,30",
    "FREQ=DAILY;BYDAY=MO,WE;COUNT=20",
    "FREQ=WEEKLY",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU;WKST=SU",
    "FREQ=WEEKLY;BYDAY=TU,TH;BYSETPOS=1",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;INTERVAL=5",
    "FREQ=MONTHLY;BYMONTHDAY=-1",
    "FREQ=MONTHLY;BYDAY=1FR,-1MO",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=MONTHLY;INTERVAL=2;BYMONTHDAY=13;BYDAY=FR",
    "FREQ=YEARLY",
    "FREQ=YEARLY;INTERVAL=3;BYMONTH=3,11",
    "FREQ=YEARLY;BYWEEKNO=1,53",
    "FREQ=YEARLY;BYYEARDAY=1,100,-1",
    "FREQ=YEARLY;BYDAY=20MO",
    "FREQ=YEARLY;BYEASTER=-2",
    "FREQ=YEARLY;COUNT=5",
    "FREQ=HOURLY;INTERVAL=5",
    "FREQ=HOURLY;BYMINUTE=0,20;BYHOUR=8,9",
    "FREQ=HOURLY;INTERVAL=7;BYDAY=SA,SU",
    "FREQ=MINUTELY;INTERVAL=90;BYMONTHDAY=1,-1",
    "FREQ=MINUTELY;INTERVAL=7;BYHOUR=3;BYSECOND=5,50",
    "FREQ=SECONDLY;INTERVAL=3607",
    "FREQ=SECONDLY;INTERVAL=50;BYHOUR=3;BYMINUTE=10,40",
    "FREQ=MINUTELY;INTERVAL=3;COUNT=40",
    "FREQ=YEARLY;BYHOUR=1,9;BYDAY=MO,FR;BYSETPOS=2,-1",
    "FREQ=DAILY;INTERVAL=30;BYMONTH=2;BYHOUR=4,5;COUNT=9",
    "FREQ=DAILY;UNTIL=20220401T000000",
    "FREQ=DAILY;UNTIL=20220401T093000Z",
]
STARTS = [datetime(2021, 10, 31, 9, 30, 15), datetime(2020, 2, 29, 0, 0)]  # noqa: DTZ001 - readings


@pytest.mark.parametrize("text", RULES)
@pytest.mark.parametrize("start", STARTS)
def test_equal_to_a_walk_by_dateutil(text: str, start: datetime) -> None:
    plain = rrulestr(text.removesuffix("Z"), dtstart=start)
    assert isinstance(plain, rrule)
    right = [at.replace(tzinfo=UTC) for at in islice(plain, 400) if at.year < 2060]
    trigger = build("rrule", {"rule": text, "dtstart": start.isoformat()})
    ends = len(right) < 400
    for earlier, later in zip([start.replace(tzinfo=UTC) - MICROSECOND, *right], [*right, None], strict=False):
        if later is not None or (ends and right[-1].year < 2050):
            assert trigger.next_after(earlier) == later
        if later is not None:
            assert trigger.latest_at(later) == later
            assert trigger.latest_at(later - MICROSECOND) == (earlier if earlier in right else None)


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=DAILY",
        "RRULE:FREQ=DAILY",
        "freq=daily;",
        "DTSTART:20260501T093000\nRRULE:FREQ=DAILY",
        "FREQ=DAILY\nDTSTART:20260501T093000Z",
    ],
)
def test_spellings(rule: str) -> None:
    config: dict[str, object] = {"rule": rule}
    if "DTSTART" not in rule:
        config["dtstart"] = "2026-05-01T09:30:00"
    trigger = build("rrule", config)
    assert trigger == build("rrule", {"rule": "FREQ=DAILY", "dtstart": "2026-05-01T09:30:00"})
    assert trigger.describe() == "As recurrence rule FREQ=DAILY says, from 2026-05-01 09:30:00 (UTC)."


def test_without_a_start_it_counts_from_1970() -> None:
    trigger = build("rrule", {"rule": "FREQ=DAILY;INTERVAL=2;BYHOUR=9", "tz": "Europe/Berlin"})
    assert trigger.next_after(datetime(1970, 1, 1, tzinfo=UTC)) == datetime(1970, 1, 1, 8, tzinfo=UTC)
    assert trigger.next_after(datetime(2026, 1, 1, tzinfo=UTC)) == datetime(2026, 1, 1, 8, tzinfo=UTC)


def test_an_instant_as_start_is_read_on_the_schedules_clock() -> None:
    for start in ("2026-05-01T09:30:00+00:00", "20260501T093000Z"):
        config = {"rule": "FREQ=DAILY", "dtstart": start, "tz": "America/New_York"}
        assert first(build("rrule", config)) == datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
    in_text = build("rrule", {"rule": "DTSTART:20260501T093000Z RRULE:FREQ=DAILY", "tz": "America/New_York"})
    assert in_text == build("rrule", config)


def first(trigger: Trigger) -> datetime | None:
    return trigger.next_after(datetime(2000, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "rule"),
        ({"rule": ""}, "rule"),
        ({"rule": 5}, "rule"),
        ({"rule": "every day"}, "rule"),
        ({"rule": "FREQ=OFTEN"}, "rule"),
        ({"rule": "INTERVAL=2"}, "rule"),
        ({"rule": "FREQ=DAILY;FREQ=DAILY"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=0"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=x"}, "rule"),
        ({"rule": "FREQ=DAILY;SOMETIMES=1"}, "rule"),
        ({"rule": "FREQ=DAILY;BYHOUR=25"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMINUTE=70"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYDAY=1MO"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYSETPOS=1"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMONTHDAY=-2"}, "rule"),
        ({"rule": "FREQ=DAILY;UNTIL=soon"}, "rule"),
        ({"rule": "FREQ=DAILY;COUNT=5;UNTIL=20300101"}, "rule"),
        ({"rule": "FREQ=DAILY;COUNT=20000", "dtstart": "2026-01-01"}, "rule"),
        ({"rule": "FREQ=DAILY;COUNT=-1", "dtstart": "2026-01-01"}, "rule"),
        ({"rule": "FREQ=DAILY;COUNT=5"}, "dtstart"),
        ({"rule": "FREQ=YEARLY;COUNT=600", "dtstart": "2026-01-01"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYHOUR=30"}, "rule"),
        ({"rule": "FREQ=MINUTELY;BYHOUR=24,3"}, "rule"),
        ({"rule": "FREQ=SECONDLY;BYSECOND=60"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMONTHDAY=100000000000"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMONTHDAY=99999999"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMONTHDAY=0,1"}, "rule"),
        ({"rule": "FREQ=HOURLY;BYMONTH=0,1"}, "rule"),
        ({"rule": "FREQ=YEARLY;BYMONTH=13;BYDAY=1MO"}, "rule"),
        ({"rule": "FREQ=YEARLY;BYEASTER=500"}, "rule"),
        ({"rule": "FREQ=YEARLY;BYDAY=100MO"}, "rule"),
        ({"rule": "FREQ=MONTHLY;BYDAY=6MO"}, "rule"),
        ({"rule": "FREQ=WEEKLY;BYDAY=1MO"}, "rule"),
        ({"rule": "FREQ=DAILY;BYDAY=MO;BYWEEKDAY=TU"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=999999"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=1_0"}, "rule"),
        ({"rule": "FREQ=DAILY;INTERVAL=٣"}, "rule"),
        ({"rule": "DTSTART:20260101\nDTSTART:20260102\nRRULE:FREQ=DAILY"}, "rule"),
        ({"rule": "DTSTART:99991231T235959Z\nRRULE:FREQ=DAILY", "tz": "Asia/Tokyo"}, "rule"),
        ({"rule": "FREQ=DAILY", "dtstart": "0001-01-01T00:00:00Z", "tz": "America/New_York"}, "dtstart"),
        ({"rule": "FREQ=DAILY;BYMONTHDAY=" + "1," * 5_000 + "1"}, "rule"),
        ({"rule": "FREQ=DAILY\nEXDATE:20260101T000000"}, "rule"),
        ({"rule": "RRULE:FREQ=DAILY\nRRULE:FREQ=WEEKLY"}, "rule"),
        ({"rule": f"FREQ=DAILY;BYHOUR=1,2;BYMINUTE={','.join(map(str, range(60)))}"}, "rule"),
        ({"rule": "FREQ=DAILY", "dtstart": "soon"}, "dtstart"),
        ({"rule": "DTSTART:20260101T000000\nFREQ=DAILY", "dtstart": "2026-01-01"}, "dtstart"),
    ],
)
def test_refused(config: dict[str, object], field: str) -> None:
    assert refusal("rrule", config).field == field


def test_a_sub_daily_rule_is_continuous_and_a_daily_one_is_wall() -> None:
    begin = datetime(2026, 10, 24, 23, 59, tzinfo=UTC)
    hourly = build("rrule", {"rule": "FREQ=MINUTELY;INTERVAL=30", "tz": "Europe/Berlin"})
    found = following(hourly, begin, 5)
    assert found == [begin + timedelta(minutes=1 + 30 * n) for n in range(5)]
    daily = build("rrule", {"rule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "tz": "Europe/Berlin"})
    assert daily.next_after(begin) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert daily.next_after(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("rule", "start"),
    [
        ("FREQ=HOURLY;INTERVAL=3;BYHOUR=14", datetime(2026, 1, 1, 2)),  # noqa: DTZ001 - a reading
        ("FREQ=MINUTELY;INTERVAL=20;BYMINUTE=44", datetime(2026, 1, 1, 0, 4)),  # noqa: DTZ001
        ("FREQ=SECONDLY;INTERVAL=15;BYSECOND=53", datetime(2026, 1, 1, 0, 0, 8)),  # noqa: DTZ001
    ],
)
def test_whether_a_rule_is_empty_depends_on_its_start(rule: str, start: datetime) -> None:
    """From 1970-01-01T00:00 none of them names a time."""
    trigger = build("rrule", {"rule": rule, "dtstart": start.isoformat()})
    right = [at.replace(tzinfo=UTC) for at in islice(rrulestr(rule, dtstart=start), 5)]
    assert following(trigger, start.replace(tzinfo=UTC) - MICROSECOND, 5) == right
    assert refusal("rrule", {"rule": rule}).field == "rule"


@pytest.mark.parametrize("form", ["key", "line"])
def test_a_start_without_an_offset_is_a_reading_even_where_it_does_not_exist(form: str) -> None:
    """Daily at 02:30 from the day without 02:30: only that day is made up for at 03:00."""
    config = {"rule": "FREQ=DAILY", "tz": "Europe/Berlin", "dtstart": "2026-03-29T02:30:00"}
    if form == "line":
        config = {"rule": "DTSTART:20260329T023000 RRULE:FREQ=DAILY", "tz": "Europe/Berlin"}
    trigger = build("rrule", config)
    found = following(trigger, datetime(2026, 3, 1, tzinfo=UTC), 2)
    assert found == [datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 3, 30, 0, 30, tzinfo=UTC)]
    assert build(*trigger.to_config()) == trigger
    assert build("rrule", {**config, "dst_gap": "skip"}).next_after(datetime(2026, 3, 1, tzinfo=UTC)) == found[1]


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/New_York"])
def test_an_end_beyond_the_calendar_is_no_end(zone: str) -> None:
    endless = build("rrule", {"rule": "FREQ=DAILY;UNTIL=99991231T235959Z", "tz": zone})
    t = datetime(2026, 1, 1, tzinfo=UTC)
    assert endless.next_after(t) == build("rrule", {"rule": "FREQ=DAILY", "tz": zone}).next_after(t)


def test_dateutil_is_asked_for_days_and_not_for_times() -> None:
    """36,000 times a year would be expanded and kept for each year that is asked about."""
    minutes = "0,6,12,18,24,30,36,42,48,54"
    trigger = build("rrule", {"rule": f"FREQ=DAILY;BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE={minutes}"})
    assert isinstance(trigger, Rule)
    between = trigger.clock.readings
    assert isinstance(between, Between)
    assert isinstance(between.within, CalendarReadings)
    assert trigger.next_after(datetime(2031, 3, 1, 9, 54, tzinfo=UTC)) == datetime(2031, 3, 2, tzinfo=UTC)


def test_a_long_wait_within_a_counted_rule_is_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listing 500 leap days took 2,000 expansions."""
    made: list[object] = []

    def counting(text: str, **more: object) -> object:
        made.append(text)
        return rrulestr(text, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("celery_parrot.triggers.rule.rrulestr", counting)
    config = {"rule": "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;COUNT=100", "dtstart": "2026-01-01"}
    assert len(following(build("rrule", config), datetime(2026, 1, 1, tzinfo=UTC), 200)) == 100
    assert len(made) == 1
