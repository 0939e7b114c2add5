"""What a due time costs: against cronsim and croniter, after a long gap, and when a trigger is built.

Each figure is the median of single calls, so that a busy neighbour does not decide. The two sides of a comparison take
turns, call by call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from statistics import median
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim
from pytest_benchmark.fixture import BenchmarkFixture

from celery_parrot.triggers import build

START = datetime(2026, 3, 27, 12, 34, 56, 789_000, tzinfo=UTC)
EXPRESSIONS = ["* * * * *", "*/5 * * * *", "30 9 * * mon-fri", "15 2 * * *", "0 0 1 * *", "0 12 13 * 5", "0 0 29 2 *"]
ZONES = ["UTC", "Europe/Berlin"]
TYPES: list[tuple[str, Mapping[str, object]]] = [
    ("interval", {"seconds": 30}),
    ("every_n_hours", {"n": 5}),
    ("cron", {"expr": "*/5 * * * *"}),
    ("cron", {"expr": "30 9 * * mon-fri"}),
    ("cron", {"expr": "0 0 15W,L * fri#2,monL"}),
    ("cron", {"minute": "0", "hour": "9", "day_rule": "intersection"}),
    ("cron", {"expr": "* * * * * *", "seconds": "first"}),
    ("daily", {"hour": 9}),
    ("weekly", {"day_of_week": ["mon", "fri"]}),
    ("monthly", {"day": [1, -1]}),
    ("once", {"run_date": "2020-01-01T00:00:00Z"}),
    ("relative_delay", {"delay": "30m"}),
    ("random_within_window", {"start_hour": 22, "end_hour": 6, "fires_per_day": 3}),
    ("solar", {"event": "sunrise", "lat": 52.5, "lon": 13.4}),
    ("rrule", {"rule": "FREQ=MINUTELY;INTERVAL=7"}),
    ("rrule", {"rule": "FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9", "dtstart": "2015-01-01"}),
    ("rrule", {"rule": "FREQ=DAILY;COUNT=9000", "dtstart": "2015-01-01"}),
]
NAMES = [f"{name}-{number}" for number, (name, _) in enumerate(TYPES)]


def medians(*calls: Callable[[], object], rounds: int = 400) -> list[float]:
    """Microseconds of each call, the calls taking turns."""
    spent: list[list[int]] = [[] for _ in calls]
    for call in calls:
        call()
    for _ in range(rounds):
        for call, times in zip(calls, spent, strict=True):
            begin = time.perf_counter_ns()
            call()
            times.append(time.perf_counter_ns() - begin)
    return [median(times) / 1_000 for times in spent]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expr", EXPRESSIONS)
def test_next_against_cronsim_and_croniter(expr: str, zone: str) -> None:
    trigger = build("cron", {"expr": expr}, timezone=zone)
    local = START.astimezone(ZoneInfo(zone))
    reused = croniter(expr, local)

    def by_croniter() -> object:
        reused.set_current(local, force=True)
        return reused.get_next(datetime)

    ours, cronsim, fresh_croniter, reused_croniter = medians(
        lambda: trigger.next_after(START),
        lambda: next(CronSim(expr, local)),
        lambda: croniter(expr, local).get_next(datetime),
        by_croniter,
    )
    print(
        f"{expr} {zone}: {ours:.2f} µs; cronsim {cronsim / ours:.1f}x, "
        f"croniter {fresh_croniter / ours:.1f}x fresh, {reused_croniter / ours:.1f}x reused"
    )
    assert cronsim >= 2 * ours
    assert fresh_croniter >= 4 * ours
    assert reused_croniter >= 4 * ours


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(("schedule_type", "config"), TYPES, ids=NAMES)
def test_a_years_gap_costs_as_much_as_a_minutes(schedule_type: str, config: Mapping[str, object], zone: str) -> None:
    """``latest_at`` for a beat that comes back: nothing is walked. 1.5 is for the odd month and cache line."""
    trigger = build(schedule_type, config, schedule_id="a", created_at=START - timedelta(days=400), timezone=zone)
    due = trigger.latest_at(START)
    assert due is not None
    minute, year = medians(
        lambda: trigger.latest_at(due + timedelta(minutes=1)), lambda: trigger.latest_at(due + timedelta(days=365))
    )
    print(f"{schedule_type} {zone}: after a minute {minute:.2f} µs, after a year {year:.2f} µs")
    assert year <= 1.5 * minute + 1


@pytest.mark.parametrize(("schedule_type", "config"), TYPES[:-1], ids=NAMES[:-1])
def test_building(schedule_type: str, config: Mapping[str, object]) -> None:
    """All but a counted rule, which is listed once when it is built."""
    (spent,) = medians(lambda: build(schedule_type, config, created_at=START, timezone="Europe/Berlin"))
    print(f"{schedule_type}: {spent:.1f} µs")
    assert spent <= 500


def test_next_after(benchmark: BenchmarkFixture) -> None:
    """For the record of `make bench`."""
    trigger = build("cron", {"expr": "30 9 * * mon-fri"}, timezone="Europe/Berlin")
    assert benchmark(trigger.next_after, START) is not None
