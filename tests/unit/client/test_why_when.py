"""What a person may write for the instant that they ask about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from celery_parrot import InvalidSchedule
from celery_parrot.client.why_when import moment_of
from celery_parrot.client.why_words import Words, span

MADRID = ZoneInfo("Europe/Madrid")
NOW = datetime(2026, 3, 1, 23, 30, tzinfo=UTC)
"""Past midnight in Madrid: there it is the 2nd."""


@pytest.mark.parametrize(
    ("text", "first", "size"),
    [
        ("03:00", "2026-03-02T02:00", 60),
        ("3:00", "2026-03-02T02:00", 60),
        ("03:00:07", "2026-03-02T02:00:07", 1),
        ("today 03:00", "2026-03-02T02:00", 60),
        ("Yesterday 03:00", "2026-03-01T02:00", 60),
        ("tomorrow 03:00", "2026-03-03T02:00", 60),
        ("2026-02-01", "2026-01-31T23:00", 86400),
        ("2026-02-01T03:00", "2026-02-01T02:00", 60),
        ("2026-02-01 03:00:00", "2026-02-01T02:00", 1),
        ("2026-02-01T03:00Z", "2026-02-01T03:00", 60),
        ("2026-02-01T03:00:00+05:30", "2026-01-31T21:30", 1),
        ("2026-02-01T03:00:00.250Z", "2026-02-01T03:00:00.250", 1e-6),
    ],
)
def test_an_instant_is_as_exact_as_it_was_written(text: str, first: str, size: float) -> None:
    """Naive ones are in the schedule's zone, and so is today."""
    moment = moment_of(text, NOW, MADRID)
    assert moment.starts == (datetime.fromisoformat(first).replace(tzinfo=UTC),)
    assert moment.size == timedelta(seconds=size)
    assert moment.covers(moment.first)
    assert not moment.covers(moment.first + moment.size)


def test_a_datetime_is_taken_to_the_second() -> None:
    """Or to the microsecond, where it has some."""
    exact = datetime(2026, 2, 1, 3, tzinfo=UTC)
    assert moment_of(exact, NOW, MADRID).size == timedelta(seconds=1)
    assert moment_of(exact.replace(microsecond=5), NOW, MADRID).size == timedelta(microseconds=1)


@pytest.mark.parametrize(
    "text",
    [
        "", "3 o'clock", "25:00", "03:60", "2026-02-30", "2026-13-01T03:00", "now", "03:00 x", "0001-01-01",
        "9999-12-31", "9999-12-31T23:59:59+00:00",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(InvalidSchedule, match=r"must be an instant such as 2026-03-02T03:00.*or 'yesterday 03:00'"):
        moment_of(text, NOW, MADRID)


def test_readings_around_clock_changes() -> None:
    """One that was never shown, and one that was shown twice."""
    gone = moment_of("2026-03-29T02:30", NOW, MADRID)
    assert gone.absent
    assert len(gone.starts) == 1
    twice = moment_of("2026-10-25T02:30", NOW, MADRID)
    assert twice.starts == (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), datetime(2026, 10, 25, 1, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0004, "0 ms"), (0.12, "120 ms"), (0.9996, "1 s"), (1.94, "1.9 s"), (9.94, "9.9 s"), (9.96, "10 s"),
        (59.4, "59 s"),
        (60, "1 min"), (200, "3 min 20 s"), (3599.6, "1 h"), (7500, "2 h 5 min"), (86400, "1 d"), (273600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_spans_as_people_say_them(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_the_schedules_zone_stands_beside_the_viewers_only_where_it_differs() -> None:
    due = datetime(2026, 1, 10, 23, 30, tzinfo=UTC)
    words = Words(viewer=ZoneInfo("UTC"), own=MADRID, now=due, base=due)
    assert words.due(due) == "Sat 2026-01-10 23:30:00 UTC (Sun 2026-01-11 00:30:00 Europe/Madrid)"
    words = Words(viewer=ZoneInfo("Europe/Paris"), own=MADRID, now=due, base=due)
    assert words.due(due) == "Sun 2026-01-11 00:30:00 Europe/Paris"
    assert words.at(due + timedelta(days=1)) == "Mon 2026-01-12 00:30:00"
