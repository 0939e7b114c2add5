"""APScheduler's cron fields as cron expressions: what can be said is said, what cannot is named."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from celery_parrot.importers.ap_cron import cron, crontab_fields
from celery_parrot.importers.ap_triggers import cron_timing
from celery_parrot.importers.items import CannotMap
from celery_parrot.triggers import build


@pytest.mark.parametrize(
    ("fields", "expr"),
    [
        ({"hour": 9}, "0 9 * * *"),
        ({"minute": 30}, "30 * * * *"),
        ({"month": 6}, "0 0 1 6 *"),
        ({"day": "last"}, "0 0 l * *"),
        ({"day_of_week": 0}, "0 0 * * mon"),
        ({"day_of_week": "0-4", "hour": 9}, "0 9 * * mon,tue,wed,thu,fri"),
        ({"day_of_week": "mon-fri", "hour": 9}, "0 9 * * mon,tue,wed,thu,fri"),
        ({"day_of_week": "5/1"}, "0 0 * * sat,sun"),
        ({"day_of_week": "*/3"}, "0 0 * * mon,thu,sun"),
        ({"day_of_week": "*"}, "0 0 * * *"),
        ({"day": "2nd fri"}, "0 0 * * fri#2"),
        ({"day": "last sun, 1st mon"}, "0 0 * * sunl,mon#1"),
        ({"day": "1,3rd wed"}, "0 0 1 * wed#3"),
        ({}, "* * * * *"),
        ({"second": 0, "minute": "*/5"}, "*/5 * * * *"),
    ],
)
def test_expressions(fields: dict[str, Any], expr: str) -> None:
    config = cron(fields).config
    assert (config["expr"], "seconds" in config) == ((f"* {expr}", True) if not fields else (expr, False))
    build("cron", config)


def test_numbers_of_weekdays_are_told() -> None:
    assert cron({"day_of_week": "0"}).renumbered
    assert not cron({"day_of_week": "mon"}).renumbered
    assert not cron({"day_of_week": "*/2"}).renumbered


def test_seconds() -> None:
    assert cron({"second": "5,35"}).config == {"expr": "5,35 * * * * *", "day_rule": "intersection", "seconds": "first"}


def test_items_of_one_field_unite_and_fields_intersect() -> None:
    assert cron({"day": "1,3rd wed"}).config["day_rule"] == "crontab"
    assert cron({"day": "1-7", "day_of_week": "mon"}).config["day_rule"] == "intersection"


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"week": 7}, "week"),
        ({"year": "2027/2"}, "2027/2"),
        ({"year": "2027,2029"}, "2027,2029"),
        ({"day": "2nd fri", "day_of_week": "mon"}, "2nd fri"),
        ({"day": "*/2,2nd fri"}, "2nd fri"),
        ({"day_of_week": "7"}, "7"),
        ({"day_of_week": "moon"}, "moo"),
        ({"day_of_week": "*/0"}, r"\*/0"),
    ],
)
def test_what_cannot_be_said_is_named(fields: dict[str, Any], names: str) -> None:
    with pytest.raises(CannotMap, match=names) as raised:
        cron(fields)
    assert raised.value.fix


def test_years_become_bounds() -> None:
    fields = cron_timing({"year": "2028-2029", "month": 1}, {"timezone": "Asia/Tokyo"}).fields
    assert fields["start_at"] == datetime(2027, 12, 31, 15, tzinfo=UTC)
    assert fields["end_at"].isoformat() == "2029-12-31T14:59:59.999999+00:00"


def test_a_crontab_has_five_fields() -> None:
    assert crontab_fields("1 2 3 4 5") == {"minute": "1", "hour": "2", "day": "3", "month": "4", "day_of_week": "5"}
    with pytest.raises(CannotMap, match="4 fields"):
        crontab_fields("1 2 3 4")
