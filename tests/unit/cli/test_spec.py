"""What a person types for a schedule on one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from celery_parrot.cli.spec import read_spec
from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import SCHEDULE_TYPES, build


@pytest.mark.parametrize(
    ("schedule_type", "text", "config"),
    [
        ("cron", "30 2 * * mon-fri", {"expr": "30 2 * * mon-fri"}),
        ("crontab", "*/10 * * * * *", {"expr": "*/10 * * * * *", "seconds": "first"}),
        ("interval", "30", {"seconds": 30.0}),
        ("interval", "90s", {"seconds": 90.0}),
        ("interval", "1h30m", {"hours": 1.0, "minutes": 30.0}),
        ("interval", "2 days, 1 hour", {"days": 2.0, "hours": 1.0}),
        ("every_n_hours", "4h", {"n": 4}),
        ("daily", "9:30", {"hour": 9, "minute": 30, "second": 0}),
        ("daily_at", "23:59:30", {"hour": 23, "minute": 59, "second": 30}),
        ("weekly", "mon,thu 9:30", {"day_of_week": ["mon", "thu"], "hour": 9, "minute": 30, "second": 0}),
        ("weekly", "fri", {"day_of_week": "fri"}),
        ("weekly", "", {}),
        ("monthly", "1,-1 0:05", {"day": [1, -1], "hour": 0, "minute": 5, "second": 0}),
        ("once", "2030-01-01T09:00", {"run_date": "2030-01-01T09:00"}),
        ("one_shot_at", "2030-01-01T09:00", {"fire_at_iso": "2030-01-01T09:00"}),
        ("relative_delay", "30m", {"delay": "30m"}),
        ("rrule", "FREQ=DAILY", {"rule": "FREQ=DAILY"}),
        ("daily", ' {"hour": 3} ', {"hour": 3}),
    ],
)
def test_short_forms_and_json(schedule_type: str, text: str, config: dict[str, object]) -> None:
    """Each becomes a config that builds."""
    assert read_spec(schedule_type, text) == config
    build(schedule_type, config, created_at=datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("schedule_type", "text", "says"),
    [
        ("interval", "soon", "such as 90s, 15m or 1h30m"),
        ("interval", "5 apples", "such as 90s, 15m or 1h30m"),
        ("daily", "noon", "a time of day such as 9:30"),
        ("daily", "{hour: 3}", "is not valid JSON"),
        ("random_within_window", "5", '"fires_per_day": 4'),
        ("solar", "sunrise", '"lat": 40.4'),
    ],
)
def test_what_cannot_be_read_says_what_can(schedule_type: str, text: str, says: str) -> None:
    """With an example to copy."""
    with pytest.raises(InvalidSchedule, match="SPEC") as caught:
        read_spec(schedule_type, text)
    assert says in str(caught.value)


def test_a_type_that_does_not_exist() -> None:
    """It is the type that is wrong, not what follows it."""
    with pytest.raises(InvalidSchedule, match=r"TYPE = 'crn': must be one of .*cron"):
        read_spec("crn", "0 7 * * *")


def test_every_type_has_a_short_form_or_an_example() -> None:
    """A new type must not be forgotten here."""
    without_either = []
    for schedule_type in SCHEDULE_TYPES:
        try:
            read_spec(schedule_type, "x")
        except InvalidSchedule as error:
            without_either += [schedule_type] if '{"key": "value"}' in str(error) else []
    assert without_either == []
