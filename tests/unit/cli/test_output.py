"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from celery_parrot.cli.commands.listing import brief, last_due
from celery_parrot.cli.output import aligned, distance, instant, seconds, show
from celery_parrot.client import ScheduleView, fire_fields
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status
from celery_parrot.model.plain import plain
from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.model.state import RunState
from celery_parrot.triggers import build

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


def test_what_cannot_be_written_is_told_in_its_place() -> None:
    """The code may give a schedule anything; a list is shown all the same."""

    class Wordless:
        def __repr__(self) -> str:
            raise RuntimeError

    own: list[object] = [1, Wordless(), -(10**5000)]
    own.append(own)
    shown = plain(own)
    assert shown[:3] == [1, "<Wordless>", "a number of 16610 bits"]
    assert "…" in json.dumps(shown, ensure_ascii=False)


def test_a_fire_has_its_key_as_fields() -> None:
    record = FireRecord(
        fire_id="f", key=FireKey("s", DUE), name="s", kind="task", status=Status.SUCCESS, origin=Origin.CATCH_UP
    )
    fields = fire_fields(record)
    assert fields["schedule_id"] == "s"
    assert fields["due_at"] == "2026-03-29T00:30:00+00:00"
    assert (fields["status"], fields["origin"]) == ("success", "catch_up")
    assert "key" not in fields


@pytest.mark.parametrize(
    ("seconds_ahead", "text"), [(0, "in 0 ms"), (5400, "in 90 min"), (-3, "3.0 s ago"), (-200_000, "2 d ago")]
)
def test_distances_say_which_way(seconds_ahead: float, text: str) -> None:
    assert distance(DUE + timedelta(seconds=seconds_ahead), DUE) == text
    assert distance(None, DUE) == ""


@pytest.mark.parametrize(
    ("schedule_type", "config", "text"),
    [
        ("daily", {"hour": 3}, "Every day at 03:00"),
        ("daily", {"hour": 3, "tz": "Asia/Tokyo"}, "Every day at 03:00 (Asia/Tokyo)"),
        ("interval", {"seconds": 30}, "Every 30 seconds"),
        ("once", {"run_date": "2030-01-01T00:00:00+00:00"}, "Once, at 2030-01-01 00:00:00 UTC"),
    ],
)
def test_the_list_says_when_in_few_words(schedule_type: str, config: dict[str, object], text: str) -> None:
    """What clock changes do is told where one schedule is looked at."""
    assert brief(build(schedule_type, config, timezone="Europe/Madrid").describe(), "Europe/Madrid") == text


@pytest.mark.parametrize("width", [80, 120])
def test_on_a_terminal_only_prose_is_folded(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times, names and statuses stay whole at 80 columns."""
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    row = (
        "2026-11-30 20:27:41",
        "success",
        "5 ms",
        "17 ms",
        1,
        "660aec34",
        "celery@host",
        "ZeroDivisionError: division",
    )
    show(["due (Europe/Madrid)", "status", "late", "took", "try", "beat", "worker", "what"], [row], empty="")
    text = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert max(map(len, text.splitlines())) <= width
    for cell in row[:-1]:
        assert str(cell) in text


@pytest.mark.parametrize(
    ("mark", "sent", "expected"),
    [(None, None, None), (0, None, None), (0, 9, None), (5, 6, 5), (8, 6, 6)],
    ids=["new", "made", "made, and run by hand", "fired", "fired, then resumed"],
)
def test_when_a_schedule_was_last_due(mark: int | None, sent: int | None, expected: int | None) -> None:
    """No instant at which nothing was due; it was made at 0."""

    def at(hour: int | None) -> datetime | None:
        return None if hour is None else datetime(2026, 3, 2, hour, tzinfo=UTC)

    state = RunState(last_due=at(mark), last_run=at(sent))
    view = ScheduleView(schedule_id="n", name="n", store="db", created_at=at(0), run_state=state)
    assert last_due(view) == at(expected)
