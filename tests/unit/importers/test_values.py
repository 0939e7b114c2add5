"""Values of sources: JSON and instants, or a sentence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.importers.celery_when import CLOCK_CHANGES, NOT_READ, crontab_when, interval_when
from celery_parrot.importers.items import CannotMap, Item, guarded
from celery_parrot.importers.redbeat import Typed
from celery_parrot.importers.values import instant, json_of, options_of, plain_json
from celery_parrot.triggers import build

LAST = datetime(2027, 1, 10, 11, 23, 45, 250_000, tzinfo=UTC)


def test_instants() -> None:
    assert instant("2027-01-10 11:23:45.250000") == LAST
    assert instant("2027-01-10T12:23:45.25+01:00") == LAST
    assert instant(LAST.replace(tzinfo=None)) == LAST
    assert instant(None) is None
    for value in ("soon", 5, object()):
        with pytest.raises(CannotMap):
            instant(value)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [("[1]", list, [1]), ("", list, []), (None, dict, {}), ('{"a": null}', dict, {"a": None}), ([2], list, [2])],
)
def test_json_of_columns(value: object, kind: type, expected: object) -> None:
    assert json_of("args", value, kind) == expected


@pytest.mark.parametrize(("value", "kind"), [("[1", list), ("{}", list), ("5", dict), ("[]", dict)])
def test_what_is_no_json_is_said(value: str, kind: type) -> None:
    with pytest.raises(CannotMap, match="its args"):
        json_of("args", value, kind)


def test_arguments_are_json_or_named() -> None:
    assert plain_json("args", ((1, "a"), {"k": (None,)})) == [[1, "a"], {"k": [None]}]
    for value, name in ((LAST, "datetime.datetime"), ({1: 2}, "dict"), (float("nan"), "float"), (Typed("x.Y"), "x.Y")):
        with pytest.raises(CannotMap, match=name):
            plain_json("args", [value])


def test_options_that_cannot_be_kept_are_noted() -> None:
    notes: list[str] = []
    given: dict[str, Any] = {
        "queue": "q",
        "expires": timedelta(minutes=1),
        "eta": LAST,
        "link": object(),
        "headers": {},
    }
    assert options_of(given, notes) == {"queue": "q", "expires": 60.0, "eta": LAST.isoformat()}
    assert notes == ["option link is not kept: it is no JSON"]


def test_an_entry_that_is_not_what_its_scheduler_writes_is_told() -> None:
    def endless() -> Item:
        return endless()

    def absent() -> Item:
        raise KeyError("task")

    for make, name in ((absent, "KeyError"), (endless, "Recursion")):
        item = guarded("odd", make)
        assert (item.source_name, item.fields) == ("odd", None)
        assert name in item.reason
        assert item.fix


def test_an_interval_goes_on_from_its_last_run() -> None:
    when = interval_when(timedelta(hours=7), LAST)
    assert build(when.schedule_type, when.config).next_after(LAST) == LAST + timedelta(hours=7)


def test_a_relative_interval_is_rounded_as_celery_rounds_it() -> None:
    when = interval_when(timedelta(minutes=90), LAST, relative=True)
    trigger = build(when.schedule_type, when.config)
    assert trigger.next_after(LAST) == datetime(2027, 1, 10, 12, tzinfo=UTC)
    assert trigger.next_after(datetime(2027, 1, 10, 12, tzinfo=UTC)) == datetime(2027, 1, 10, 13, tzinfo=UTC)


def test_an_interval_without_length_is_refused() -> None:
    with pytest.raises(CannotMap, match="forward"):
        interval_when(timedelta(0), LAST)


def test_a_crontab_keeps_celerys_reading() -> None:
    """Its day fields intersect, and it takes mon#5 for every Monday."""
    when = crontab_when({"minute": "0", "hour": "0", "day_of_month": "1-7", "day_of_week": "mon"}, "UTC")
    assert when.config["day_rule"] == "intersection"
    assert when.faults == ()
    assert NOT_READ in crontab_when({"day_of_week": "mon#5"}, "UTC").faults
    assert NOT_READ not in crontab_when({"day_of_week": "sunday,wed-fri", "minute": 5, "hour": [1, 2]}, "UTC").faults
    assert CLOCK_CHANGES in crontab_when({}, "Europe/Madrid").faults
    assert CLOCK_CHANGES not in crontab_when({}, "Asia/Tokyo").faults


@pytest.mark.parametrize(("fields", "zone"), [({"minute": "99"}, "UTC"), ({"hour": "x"}, "UTC"), ({}, "Mars/Olympus")])
def test_a_crontab_that_cannot_be_read_is_said(fields: dict[str, str], zone: str) -> None:
    with pytest.raises(CannotMap) as raised:
        crontab_when(fields, zone)
    assert raised.value.fix
