"""One list of fields for all doors."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot import InvalidSchedule
from celery_parrot.client import ScheduleView, schedule_schema, value_of
from celery_parrot.client.view import SchedulePage
from celery_parrot.model.codec import FIELDS as READ
from celery_parrot.model.codec import from_fields, to_fields
from celery_parrot.model.fields import BY_NAME, FIELDS, REQUIRED
from celery_parrot.triggers import SCHEDULE_TYPES

WHOLE = {"name": "a", "target": "t", "schedule_type": "daily", "schedule_config": {"hour": 1}}


def test_the_list_is_that_of_what_is_read() -> None:
    """A field that a schedule may be given with is in the schema, on the command line and in what is shown."""
    assert {field.name for field in FIELDS} == set(READ)
    assert {field.name for field in FIELDS} <= set(ScheduleView.__dataclass_fields__)
    assert SchedulePage().after == ""


def test_the_schema_says_what_each_field_is() -> None:
    schema = schedule_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["required"] == list(REQUIRED)
    assert schema["additionalProperties"] is False
    assert schema["properties"]["schedule_type"]["enum"] == list(SCHEDULE_TYPES)
    for name, field in schema["properties"].items():
        assert field["description"].endswith("."), name
        assert "type" in field or "enum" in field, name


def test_the_defaults_are_those_that_a_schedule_gets() -> None:
    """Where the settings of the app do not decide."""
    made = to_fields(from_fields(WHOLE))
    for name, field in schedule_schema()["properties"].items():
        if "default" in field:
            assert made[name] == field["default"], name
            assert name not in REQUIRED
    assert "default" not in schedule_schema()["properties"]["misfire_grace"]


@pytest.mark.parametrize("name", [field.name for field in FIELDS if "enum" in field.schema and field.name != "store"])
def test_every_choice_can_be_taken(name: str) -> None:
    for choice in BY_NAME[name].schema["enum"]:
        assert to_fields(from_fields({**WHOLE, name: choice}))[name] == choice


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("target", "123", "123"),
        ("prompt", "null", None),
        ("name", "null", "null"),
        ("kwargs", '{"a": 1}', {"a": 1}),
        ("args", "[1]", [1]),
        ("enabled", "false", False),
        ("misfire_grace", "null", None),
        ("misfire_grace", "1.5", 1.5),
        ("max_fires", "3", 3),
        ("dst_fold", "null", None),
        ("start_at", "2026-01-01", "2026-01-01"),
    ],
)
def test_values_from_what_is_typed(name: str, text: str, value: Any) -> None:
    assert value_of(name, text) == value


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("kwargs", "[1]", "must be a JSON object"),
        ("args", "1", "must be a JSON list"),
        ("enabled", "yes", "must be true or false"),
        ("enabled", "1", "must be true or false"),
        ("max_fires", "true", "must be a whole number or null"),
        ("jitter", "soon", "must be a number"),
        ("kwrgs", "{}", "did you mean 'kwargs'"),
    ],
)
def test_what_is_no_value_of_a_field_is_told(name: str, text: str, says: str) -> None:
    with pytest.raises(InvalidSchedule, match=says) as caught:
        value_of(name, text)
    assert caught.value.field == name
