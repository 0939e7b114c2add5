"""Rows as definitions, without a database."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_parrot.database.types import EARLIEST, LATEST, as_instant
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.codec import to_fields
from celery_parrot.model.schedule import as_uuid
from celery_parrot.stores.sql.definitions import (
    DefinitionCache,
    dumps,
    id_forms,
    read,
    to_row,
)
from celery_parrot.testing.conformance.schedule_store import make

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def row(**columns: Any) -> dict[str, Any]:
    """A readable row."""
    return {
        "schedule_id": ID,
        "version": 3,
        "created_at": datetime(2026, 1, 1, tzinfo=UTC),
        "name": "a",
        "target_kind": "task",
        "target_name": "app.task",
        "schedule_type": "interval",
        "enabled": True,
        "method_name": None,
        "prompt": None,
        "target_id": None,
        "tenant": None,
        "schedule_config": '{"minutes": 5}',
        "args": None,
        "metadata": None,
        "options": None,
        "policy": None,
        "callbacks": None,
        "send_result": None,
        **columns,
    }


def test_the_zone_of_a_row_that_names_none_is_the_apps() -> None:
    """One that names its own keeps it."""
    plain, own = read(row(), "Europe/Madrid"), read(row(policy='{"timezone": "Asia/Tokyo"}'), "Europe/Madrid")
    assert plain.schedule is not None
    assert own.schedule is not None
    assert (plain.schedule.timezone, own.schedule.timezone) == ("Europe/Madrid", "Asia/Tokyo")


def test_keys_of_others_in_the_policy_are_no_fault() -> None:
    """What later releases add."""
    assert read(row(policy='{"later": true}'), "UTC").fault == ""


@pytest.mark.parametrize("text", ["[1]", '"log"', "{}", "not JSON", "null", '[{"type": "webhok"}]', "[[]]"])
def test_whom_to_tell_is_no_reason_not_to_fire(text: str) -> None:
    """What cannot be delivered fails when it is delivered; the schedule fires."""
    found = read(row(callbacks=text, send_result=text, policy='{"missed_callbacks": [7]}'), "UTC")
    assert found.fault == ""
    assert found.schedule is not None
    assert found.schedule.missed_callbacks == ({"type": "7"},)


def test_whom_to_tell_comes_back() -> None:
    told = {
        "callbacks": [{"type": "task", "task": "a.b", "kwargs": {"é": "😀"}}],
        "failure_callbacks": [{"type": "email", "to": "a@b.example"}],
        "missed_callbacks": [{"type": "file", "path": "x/$name"}],
        "send_result": {"to": ["a@b.example"], "include_result": False},
    }
    values = to_row(make("a", **told), {})
    columns = {name: values[name] for name in ("callbacks", "send_result", "policy")}
    found = read(row(**columns), "UTC").schedule
    assert found is not None
    assert {name: value for name, value in to_fields(found).items() if name in told} == told
    assert found.tells == {"success", "failure", "missed"}


def test_empty_texts_are_absent() -> None:
    """A form that was left blank sends no argument."""
    found = read(row(prompt="", method_name="  ", tenant="x"), "UTC").schedule
    assert found is not None
    assert (found.prompt, found.method_name, found.tenant) == (None, None, "x")


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("schedule_config", "{"),
        ("schedule_config", "null"),
        ("schedule_config", None),
        ("policy", "[" * 100_000),
        ("metadata", "[1]"),
        ("args", '"text"'),
        ("options", "7"),
    ],
)
def test_what_cannot_be_read_has_a_reason_that_fits(column: str, text: str | None) -> None:
    """Never an exception, never the whole payload."""
    found = read(row(**{column: text}), "UTC")
    assert found.trigger is None
    assert 0 < len(found.fault) <= 520


def test_a_huge_value_is_cut_in_the_reason() -> None:
    """A reason is for people."""
    found = read(row(schedule_type="x" * 100_000), "UTC")
    assert len(found.fault) < 520
    assert found.schedule is not None


@given(st.dictionaries(st.text(), st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=9)))
def test_kwargs_come_back(kwargs: dict[str, Any]) -> None:
    """Whatever JSON can hold."""
    values = to_row(make("a", kwargs=kwargs), {})
    found = read(row(**{name: values[name] for name in ("metadata", "policy", "args", "options")}), "UTC").schedule
    assert found is not None
    assert found.kwargs == kwargs


def test_what_json_cannot_hold_is_refused() -> None:
    """At the door, not when it is read."""
    for value in (float("nan"), object()):
        with pytest.raises(InvalidSchedule):
            dumps({"x": value})


def test_to_row_keeps_the_keys_of_others() -> None:
    """An edit through us must not lose them."""
    policy = json.loads(to_row(make("a"), {"later": [1], "jitter": 5})["policy"])
    assert policy["later"] == [1]
    assert policy["jitter"] == 0.0


# --- ids and instants ---


def test_spellings_of_an_id() -> None:
    """Dashes or not; PostgreSQL is asked for nothing that is no UUID."""
    assert as_uuid(ID.replace("-", "").upper()) == ID
    assert as_uuid("a code schedule") is None
    assert id_forms(["x", ID], strict=True) == [ID]
    assert set(id_forms(["x", ID], strict=False)) == {"x", ID, ID.replace("-", "")}


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("2026-05-01 09:00:00", datetime(2026, 5, 1, 9, tzinfo=UTC)),
        ("2026-05-01T09:00:00.5Z", datetime(2026, 5, 1, 9, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-05-01 09:00:00+02:00", datetime(2026, 5, 1, 7, tzinfo=UTC)),
        ("0000-00-00 00:00:00", None),
        ("tomorrow", None),
        (b"x", None),
        (None, None),
        (datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), EARLIEST),
        (datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), LATEST),
    ],
)
def test_instants_however_they_are_written(value: Any, instant: datetime | None) -> None:
    """Naive ones are UTC; what is none is None; what leads out of the calendar is its end."""
    assert as_instant(value) == instant


# --- the cache ---


def test_a_kept_definition_is_good_for_its_version_only() -> None:
    """And for its creation, from which relative times count."""
    cache = DefinitionCache()
    cache.put(row(), read(row(), "UTC"))
    created = row()["created_at"]
    assert cache.get(ID, 3, created) is not None
    assert cache.get(ID, 4, created) is None
    assert cache.get(ID, 3, created + timedelta(seconds=1)) is None


def test_the_cache_is_bounded_in_number_and_weight() -> None:
    """The oldest go first; what alone is heavy is not kept at all."""
    cache = DefinitionCache(most=3, weight=40_000)
    for number in range(5):
        one = row(schedule_id=f"s{number}")
        cache.put(one, read(one, "UTC"))
    assert len(cache) == 3
    assert cache.get("s1", 3, row()["created_at"]) is None
    heavy = row(schedule_id="heavy", prompt="x" * 30_000)
    cache.put(heavy, read(heavy, "UTC"))
    assert cache.get("heavy", 3, row()["created_at"]) is None
    for number in range(50):
        one = row(schedule_id=f"m{number}", prompt="x" * 1_500)
        cache.put(one, read(one, "UTC"))
    assert cache._weight <= 40_000
    for number in range(50):
        cache.drop(f"m{number}")
    cache.drop("s4")
    assert cache._weight >= 0
