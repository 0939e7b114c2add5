"""Random-looking times: evenly spread, inside their slots, and the same everywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Bounded, Trigger, actual_at, build, jitter_of

from .strategies import instants, triggers

IDS = [f"schedule-{number}" for number in range(10_000)]
START = datetime(2026, 1, 1, tzinfo=UTC)
# 99.99 % of the chi-square distribution with 49 degrees of freedom; the ids are fixed, so is the outcome.
CELLS, CRITICAL = 50, 95.0


def chi_square(shares: Iterable[float]) -> float:
    """Of numbers in [0, 1) sorted into equal cells, against an even spread."""
    cells = Counter(int(share * CELLS) for share in shares)
    assert set(cells) <= set(range(CELLS))
    expected = cells.total() / CELLS
    return sum((cells[cell] - expected) ** 2 / expected for cell in range(CELLS))


def test_the_measure_sees_an_uneven_spread() -> None:
    assert chi_square(number / 10_000 for number in range(10_000)) < 1
    assert chi_square((number / 10_000) ** 1.1 for number in range(10_000)) > CRITICAL


@pytest.mark.parametrize(("fires", "slot"), [(1, 0), (4, 0), (4, 3)])
def test_windows_are_even_over_ten_thousand_schedules(fires: int, slot: int) -> None:
    length = timedelta(hours=8) / fires
    begin = START + timedelta(hours=22) + slot * length
    shares = []
    for name in IDS:
        config = {"start_hour": 22, "end_hour": 6, "fires_per_day": fires}
        due = build("random_within_window", config, schedule_id=name).next_after(begin - timedelta(microseconds=1))
        assert due is not None
        shares.append((due - begin) / length)
    assert chi_square(shares) < CRITICAL


def test_jitter_is_even_over_ten_thousand_schedules() -> None:
    shares = [jitter_of(name, START, 90.0, timedelta(days=1)) / timedelta(seconds=90) for name in IDS]
    assert chi_square(shares) < CRITICAL


def test_jitter_is_even_over_ten_thousand_due_times() -> None:
    shares = [
        jitter_of("a", START + timedelta(minutes=n), 600, timedelta(minutes=1)) / timedelta(minutes=1)
        for n in range(10_000)
    ]
    assert chi_square(shares) < CRITICAL


def test_values_that_must_never_change() -> None:
    """A beat of the next version must meet a beat of this one in the same claim, and send at the same time."""
    window = build(
        "random_within_window", {"start_hour": 9, "end_hour": 17, "fires_per_day": 2}, schedule_id="nightly-report"
    )
    first = window.next_after(START)
    assert first is not None
    assert [first, window.next_after(first)] == [
        datetime(2026, 1, 1, 10, 51, 32, tzinfo=UTC),
        datetime(2026, 1, 1, 16, 47, 49, tzinfo=UTC),
    ]
    assert jitter_of("nightly-report", START, 60) == timedelta(seconds=36, microseconds=87_451)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    ("start", "end", "fires"), [(22, 6, 3), (0, 24, 24), (0, 1, 7), (23, 0, 1), (9, 17, 1), (1, 4, 10_800)]
)
def test_one_fire_in_each_slot(zone: str, start: int, end: int, fires: int) -> None:
    config = {"start_hour": start, "end_hour": end, "fires_per_day": fires, "tz": zone}
    trigger = build("random_within_window", config, schedule_id="x")
    info = ZoneInfo(zone)
    length = timedelta(hours=(end - start) % 24 or 24)
    for day in range(1, 3):
        opens = datetime(2026, 6, day, start, tzinfo=info)
        due = trigger.next_after(opens.astimezone(UTC) - timedelta(microseconds=1))
        for slot in range(fires):
            assert due is not None
            within = due.astimezone(info).replace(tzinfo=None) - opens.replace(tzinfo=None)
            # Slots are cut at whole seconds.
            assert slot * length // fires - timedelta(seconds=1) <= within < (slot + 1) * length / fires
            due = trigger.next_after(due)


def test_window_fires_differ_from_day_to_day() -> None:
    trigger = build("random_within_window", {"start_hour": 0, "end_hour": 24}, schedule_id="x")
    found = [START]
    for _ in range(30):
        due = trigger.next_after(found[-1])
        assert due is not None
        found.append(due)
    assert len({due.time() for due in found[1:]}) > 25
    assert all(timedelta(0) < later - earlier < timedelta(days=2) for earlier, later in pairwise(found))


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "start_hour"),
        ({"start_hour": 5}, "end_hour"),
        ({"start_hour": 5, "end_hour": 5}, "end_hour"),
        ({"start_hour": 24, "end_hour": 5}, "start_hour"),
        ({"start_hour": 5, "end_hour": 25}, "end_hour"),
        ({"start_hour": 5, "end_hour": 6, "fires_per_day": 0}, "fires_per_day"),
        ({"start_hour": 5, "end_hour": 6, "fires_per_day": 3_601}, "fires_per_day"),
    ],
)
def test_window_refuses(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSchedule, match=field) as refused:
        build("random_within_window", config)
    assert refused.value.field == field


@given(triggers(), instants(), st.floats(0, 10**6), st.text(max_size=5))
def test_jitter_stays_before_the_next_due_time(trigger: Trigger, t: datetime, jitter: float, name: str) -> None:
    """Never early, never as late as the jitter or the following due time, and its own due time's."""
    due = trigger.next_after(t)
    if due is None:
        return
    actual, following = actual_at(trigger, name, due, jitter), trigger.next_after(due)
    assert due <= actual
    assert actual == due or actual < due + timedelta(seconds=jitter)
    assert following is None or actual < following
    assert actual_at(trigger, name, due.astimezone(ZoneInfo("Asia/Kathmandu")), timedelta(seconds=jitter)) == actual


@pytest.mark.parametrize("jitter", [None, 0, -5, timedelta(0), timedelta(seconds=-1)])
def test_no_jitter(jitter: float | timedelta | None) -> None:
    assert jitter_of("a", START, jitter) == timedelta(0)
    assert actual_at(build("daily", {}), "a", START, jitter) == START


def test_jitter_may_pass_the_end() -> None:
    """Bounds are on the due time; jitter comes after."""
    daily = Bounded(build("daily", {}), end_at=START)
    assert daily.latest_at(START + timedelta(days=5)) == START
    assert actual_at(daily, "a", START, 3_600) > START


def test_bounds() -> None:
    end = START + timedelta(days=2)
    daily = Bounded(build("daily", {}), START, end)
    assert daily.next_after(START - timedelta(days=9)) == START
    assert daily.next_after(end - timedelta(seconds=1)) == end
    assert daily.next_after(end) is None
    assert daily.latest_at(START - timedelta(seconds=1)) is None
    assert daily.latest_at(START) == START
    assert daily.describe() == "Every day at 00:00 (UTC), from 2026-01-01 00:00:00 UTC, until 2026-01-03 00:00:00 UTC."
    assert daily.to_config() == build("daily", {}).to_config()
    assert daily.deterministic
    assert Bounded(daily.trigger).next_after(START) == START + timedelta(days=1)
    with pytest.raises(InvalidSchedule, match="before start_at") as refused:
        Bounded(daily.trigger, end, START)
    assert refused.value.field == "end_at"
    with pytest.raises(InvalidSchedule, match="time zone"):
        Bounded(daily.trigger, datetime(2026, 1, 1))  # noqa: DTZ001


def test_an_id_that_has_no_utf8_is_hashed_too() -> None:
    """JSON can hold half a surrogate pair."""
    for config in ({"expr": "H H * * *"}, {"expr": "H H * * *", "seed": "\ud800"}):
        assert build("cron", config, schedule_id="\udfff").next_after(START) is not None
    assert jitter_of("\ud800", START, 60) != jitter_of("\ud801", START, 60)


def test_a_naive_instant_is_refused_and_never_the_hosts_local_time() -> None:
    naive, daily = START.replace(tzinfo=None), build("daily", {})
    for asked in (
        lambda: jitter_of("a", naive, 5),
        lambda: actual_at(daily, "a", naive, None),
        lambda: Bounded(daily).next_after(naive),
        lambda: Bounded(daily).latest_at(naive),
        lambda: daily.next_after(naive),
        lambda: build("once", {"run_date": START}).latest_at(naive),
    ):
        with pytest.raises(TypeError, match=r"naive"):
            asked()


@pytest.mark.parametrize("jitter", [float("nan"), float("inf"), float("-inf")])
def test_jitter_is_a_number(jitter: float) -> None:
    with pytest.raises(InvalidSchedule, match="finite") as refused:
        jitter_of("a", START, jitter)
    assert refused.value.field == "jitter"


def test_a_bound_is_a_datetime() -> None:
    with pytest.raises(InvalidSchedule, match="must be a datetime") as refused:
        Bounded(build("daily", {}), end_at="2026-01-01")  # type: ignore[arg-type]
    assert refused.value.field == "end_at"
