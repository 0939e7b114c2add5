"""Until when a fire must have started, and how long its task may run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from celery_parrot.dispatch.deadlines import deadline_of, time_limits
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.model.schedule import Kind

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
PLAIN = Kind(name="task", declared=False)
AGENT = Kind(name="agent", task="t.agent")
BOUNDS = Bounds(reap_after=900.0, reap_margin=5.0, timezone=timezone(timedelta(hours=2)))


def _deadline(
    options: Mapping[str, Any], kind: Kind = AGENT, *, holds: bool = False, of_task: Mapping[str, Any] | None = None
) -> datetime | None:
    return deadline_of(options, of_task or {}, kind, BOUNDS, NOW, holds=holds)


def _at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, 900),
        ({"countdown": 60}, 960),
        ({"countdown": 0, "eta": _at(30)}, 930),
        ({"eta": _at(30).isoformat()}, 930),
        ({"eta": _at(-3600)}, 900),
        ({"eta": datetime(2026, 5, 1, 14, 1)}, 960),  # noqa: DTZ001 -- read in the zone of the app
        ({"expires": 20}, 20),
        ({"expires": 20.5, "countdown": 60}, 20.5),
        ({"expires": _at(7)}, 7),
        ({"expires": _at(7).astimezone(timezone(timedelta(hours=-5))).isoformat()}, 7),
        ({"expires": None}, 900),
        ({"expires": "soon"}, 900),
        ({"expires": 1e30}, 900),
    ],
)
def test_expires_else_the_eta_and_what_the_kind_allows(options: Mapping[str, Any], seconds: float) -> None:
    """As ``apply_async`` reads them: ``expires`` counts from now, not from the ETA."""
    assert _deadline(options) == _at(seconds)


def test_a_kinds_own_threshold_wins() -> None:
    assert _deadline({}, Kind(name="agent", task="t", reap_after=60.0)) == _at(60)


def test_a_plain_fire_has_none_unless_it_says_so_or_holds_limits() -> None:
    assert _deadline({}, PLAIN) is None
    assert _deadline({"expires": 20}, PLAIN) == _at(20)
    assert _deadline({}, PLAIN, holds=True) == _at(900)


def test_the_tasks_own_expires_counts_where_the_message_says_nothing() -> None:
    """It is what Celery would send."""
    assert _deadline({}, PLAIN, of_task={"expires": 30}) == _at(30)
    assert _deadline({"expires": 20}, PLAIN, of_task={"expires": 30}) == _at(20)


def test_it_is_told_in_utc() -> None:
    found = _deadline({"expires": datetime(2026, 5, 1, 14, 1)}, PLAIN)  # noqa: DTZ001
    assert found is not None
    assert found.isoformat() == "2026-05-01T12:01:00+00:00"


@pytest.mark.parametrize(
    ("options", "of_task", "expected"),
    [
        ({}, {}, {"time_limit": 895.0}),
        ({"time_limit": 60}, {}, {"time_limit": 60}),
        ({"time_limit": 3600}, {}, {"time_limit": 895.0}),
        ({}, {"time_limit": 60}, {"time_limit": 60}),
        ({}, {"time_limit": 3600}, {"time_limit": 895.0}),
        ({"time_limit": 120}, {"time_limit": 60}, {"time_limit": 120}),
        ({"soft_time_limit": 3600}, {}, {"time_limit": 895.0, "soft_time_limit": 895.0}),
        ({}, {"soft_time_limit": 30, "time_limit": 40}, {"time_limit": 40, "soft_time_limit": 30}),
        ({"time_limit": None}, {"time_limit": None}, {"time_limit": 895.0}),
    ],
)
def test_declared_kinds_run_under_the_smaller_limit(
    options: Mapping[str, Any], of_task: Mapping[str, Any], expected: Mapping[str, float]
) -> None:
    """The message's own comes before the task's, as in Celery; neither may be longer than the kind allows."""
    assert time_limits(options, of_task, AGENT, BOUNDS) == expected


@pytest.mark.parametrize("kind", [PLAIN, Kind(name="agent", task="t", progress=True)])
def test_plain_fires_and_kinds_with_progress_keep_theirs(kind: Kind) -> None:
    assert time_limits({"time_limit": 3600}, {}, kind, BOUNDS) == {}


def test_without_our_part_in_the_workers_nothing_about_a_task_changes() -> None:
    """Only what would be held for ever has a deadline."""
    bounds = Bounds(guarded=False)
    assert time_limits({}, {}, AGENT, bounds) == {}
    assert deadline_of({}, {}, AGENT, bounds, NOW, holds=False) is None
    assert deadline_of({}, {}, AGENT, bounds, NOW, holds=True) == _at(900)
    assert deadline_of({"expires": 5}, {}, AGENT, bounds, NOW, holds=False) == _at(5)
