"""Tables for people, JSON for programs."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from celery_parrot.cli.commands.fires import as_fields
from celery_parrot.cli.output import aligned, instant, plain, seconds
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.model.schedule import Policy, Schedule

DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def test_columns_are_aligned_and_nothing_is_cut() -> None:
    assert aligned(["name", "n"], [["a-long-name", "1"], ["b", ""]]) == ["name         n", "a-long-name  1", "b"]


def test_instants_are_shown_in_the_zone_with_its_offset() -> None:
    madrid = ZoneInfo("Europe/Madrid")
    assert instant(DUE, madrid) == "2026-03-29 01:30:00 +01:00"
    assert instant(DUE.replace(hour=1, microsecond=250_000), madrid) == "2026-03-29 03:30:00.250 +02:00"
    assert instant(None, madrid) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.0124, "12 ms"), (-0.5, "-500 ms"), (1.44, "1.4 s"), (300, "5 min"), (9000, "2.5 h"), (1e6, "12 d")],
)
def test_durations_read_as_people_say_them(value: float | None, text: str) -> None:
    assert seconds(value) == text


def test_json_has_the_python_names() -> None:
    """Enums by value, instants in ISO 8601, nested objects as objects; what JSON does not know as its repr."""
    schedule = Schedule(
        schedule_id="s", name="s", target="t", schedule_type="daily", schedule_config={"hour": 1}, args=(1, {2}, object)
    )
    fields = plain(schedule)
    assert fields["schedule_config"] == {"hour": 1}
    assert fields["policy"]["missed"] == "coalesce"
    assert fields["policy"] == plain(Policy())
    assert fields["args"] == [1, [2], "<class 'object'>"]


def test_a_fire_has_its_key_as_fields() -> None:
    record = FireRecord(
        fire_id="f", key=FireKey("s", DUE), name="s", kind="task", status=Status.SUCCESS, origin=Origin.CATCH_UP
    )
    fields = as_fields(record)
    assert fields["schedule_id"] == "s"
    assert fields["due_at"] == "2026-03-29T00:30:00+00:00"
    assert (fields["status"], fields["origin"]) == ("success", "catch_up")
    assert "key" not in fields
