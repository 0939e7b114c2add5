"""Faults reported of other schedulers, each with the right answer; the data says where it was reported."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Bounded, build

from .walks import following, preceding

CASES: dict[str, dict[str, Any]] = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "data/reported_faults.jsonl").read_text().splitlines())
}


def when(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def cases(*kinds: str) -> list[Any]:
    """The cases whose input names an expression and a list of due times."""
    return [
        pytest.param(case, id=name)
        for name, case in CASES.items()
        if case["kind"] in kinds and ("after" in case["input"] or "before" in case["input"]) and "cron" in case["input"]
    ]


@pytest.mark.parametrize("case", cases("cron", "dst"))
def test_due_times(case: dict[str, Any]) -> None:
    given, expected = case["input"], case["expected"]
    trigger = build("cron", {"expr": given["cron"], "tz": given["tz"]})
    if "before" in given:
        right = [when(text) for text in expected["previous"]]
        assert preceding(trigger, when(given["before"]), given["count"]) == right
        return
    right = [when(text) for text in expected.get("fire_once", expected.get("next"))]
    found = following(trigger, when(given["after"]), given["count"])
    assert found == right
    assert all(trigger.latest_at(later - timedelta(microseconds=1)) == earlier for earlier, later in pairwise(found))


@pytest.mark.parametrize("case", [case for case in cases("dst") if "every_match" in case.values[0]["expected"]])
def test_every_match_is_the_other_policy(case: dict[str, Any]) -> None:
    config = {"expr": case["input"]["cron"], "tz": case["input"]["tz"], "dst_gap": "skip", "dst_fold": "both"}
    found = following(build("cron", config), when(case["input"]["after"]), case["input"]["count"])
    assert found == [when(text) for text in case["expected"]["every_match"]]


def test_cron_037_day_29_never_matches_march_first() -> None:
    case = CASES["cron-037"]
    trigger = build("cron", {"expr": case["input"]["cron"], "tz": case["input"]["tz"]})
    moments = [when(text.replace("Z", "+00:00")) for text in case["input"]["match"]]
    assert [trigger.latest_at(moment) == moment for moment in moments] == case["expected"]["match"]


def test_cron_038_seconds_last() -> None:
    case = CASES["cron-038"]
    trigger = build("cron", {"expr": case["input"]["cron_with_seconds"].split(" (")[0], "seconds": "last"})
    moment = when(case["input"]["match"])
    assert (trigger.latest_at(moment) == moment) is case["expected"]["match"]
    assert trigger.next_after(moment) == moment + timedelta(seconds=1)


def test_cron_039_six_fields_are_refused_unless_told_where_the_seconds_are() -> None:
    expr = CASES["cron-039"]["input"]["cron"]
    with pytest.raises(InvalidSchedule, match="first") as refused:
        build("cron", {"expr": expr})
    assert refused.value.field == "expr"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    last, first = (build("cron", {"expr": expr, "seconds": where}).next_after(start) for where in ("last", "first"))
    assert (last, first) == (start + timedelta(seconds=5), start + timedelta(days=1))


@pytest.mark.parametrize("expr", [*CASES["cron-046"]["input"]["cron"], *CASES["cron-049"]["input"]["cron"]])
def test_cron_046_and_049_values_and_steps_out_of_range_are_refused(expr: str) -> None:
    with pytest.raises(InvalidSchedule, match=r".") as refused:
        build("cron", {"expr": expr})
    at = next(
        i
        for i, field in enumerate(expr.split())
        if field in ("0/10", "*/0", "*/60", "*/90", "*/24") or (i > 1 and field == "0")
    )
    assert refused.value.field == ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")[at]


def test_cron_052_a_day_that_never_comes_under_celerys_rule_is_refused() -> None:
    fields = CASES["cron-052"]["input"]["crontab"]
    with pytest.raises(InvalidSchedule, match="no such day") as refused:
        build("cron", {**fields, "day_rule": "intersection"})
    assert refused.value.field == "day_of_month"
    with pytest.raises(InvalidSchedule, match="no such day"):
        build("cron", {**fields, "day_of_week": "*"})


def test_crontab_001_the_latest_of_several_missed() -> None:
    case = CASES["crontab-001"]
    trigger = build("crontab", {"minute": case["input"]["minute"]})
    now, last = when(case["input"]["now"]), when(case["input"]["last_run"])
    missed = [*reversed(preceding(trigger, now, 9))]
    missed = [due for due in missed if due > last]
    assert missed[-1] == when(case["expected"]["run_due"])
    assert missed[:-1] == [when(text) for text in case["expected"]["older_skipped"]]
    assert trigger.latest_at(now) == missed[-1]


def test_crontab_003_one_fire_however_often_it_is_polled() -> None:
    case = CASES["crontab-003"]["input"]
    trigger = build("crontab", {"expr": case["crontab"], "tz": case["schedule_tz"]}, timezone=case["app_tz"])
    start = datetime(2026, 5, 1, 1, tzinfo=UTC)
    seen = {trigger.latest_at(start + timedelta(minutes=minute)) for minute in range(300)} - {trigger.latest_at(start)}
    assert len(seen) == CASES["crontab-003"]["expected"]["fires"]


def test_crontab_004_nineteen_missed_days() -> None:
    given = CASES["crontab-004"]["input"]
    trigger = build("crontab", {"expr": given["crontab"]})
    now = when(given["now"])
    since = [due for due in following(trigger, when(given["last_run"]), 30) if due <= now]
    assert len(since) == 19
    assert trigger.latest_at(now) == datetime(2026, 5, 20, 9, tzinfo=UTC)
    assert trigger.next_after(now) == datetime(2026, 5, 21, 9, tzinfo=UTC)


def test_dst_037_every_minute_of_the_repeated_hour() -> None:
    case = CASES["dst-037"]
    trigger = build("cron", {"expr": case["input"]["cron"], "tz": case["input"]["tz"]})
    first, end = when(case["input"]["from"]), when(case["input"]["until"])
    found = following(trigger, first - timedelta(microseconds=1), 200)
    assert sum(due < end for due in found) == case["expected"]["fires"]


def test_interval_002_a_restart_does_not_move_the_anchor() -> None:
    case = CASES["interval-002"]
    first, end = (when(text) for text in case["input"]["window"])
    found: set[datetime] = set()
    for restart in range(15):
        fresh = build("interval", {"seconds": case["input"]["every_s"]})
        since = first + restart * timedelta(hours=5) - timedelta(microseconds=1)
        found.update(due for due in following(fresh, since, 4) if due < end)
    assert sorted(found) == [when(text) for text in case["expected"]["due"]]


def test_interval_003_whole_multiples() -> None:
    case = CASES["interval-003"]
    trigger = build("interval", {"seconds": case["input"]["every_s"]})
    found = following(trigger, when(case["input"]["after"]), case["input"]["count"])
    assert found == [when(text) for text in case["expected"]["due"]]


@pytest.mark.parametrize("seconds", [0.05, *CASES["interval-007"]["input"]["every_s"]])
def test_interval_006_and_007_too_short_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidSchedule, match=r"0\.1 seconds") as refused:
        build("interval", {"seconds": seconds})
    assert refused.value.field == "seconds"


def test_interval_010_three_beats_share_ten_due_times() -> None:
    case = CASES["interval-010"]["input"]
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = {
        build("interval", {"seconds": case["every_s"]}).latest_at(
            start + timedelta(seconds=second, milliseconds=7 * beat)
        )
        for beat in range(case["beats"])
        for second in range(case["minutes"] * 60)
    }
    assert len(found) == CASES["interval-010"]["expected"]["sends"]


def test_interval_011_seven_hours_roll_through_the_day() -> None:
    case = CASES["interval-011"]
    trigger = build("interval", {"seconds": case["input"]["every_s"]})
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = [due for due in following(trigger, start - timedelta(microseconds=1), 5) if due < start + timedelta(days=1)]
    assert found == [when(text) for text in case["expected"]["due_on_2026-01-01"]]


def test_once_002_two_at_the_same_instant() -> None:
    due = datetime(2026, 5, 1, 9, tzinfo=UTC)
    for _ in CASES["once-002"]["input"]["entries"]:
        trigger = build("once", {"run_date": due.isoformat()})
        assert following(trigger, due - timedelta(days=1), 2) == [due]


def test_once_004_the_first_of_a_rule_counts() -> None:
    case = CASES["once-004"]
    trigger = build("rrule", {"rule": case["input"]["rrule"], "dtstart": case["input"]["dtstart"]})
    right = [when(text) for text in case["expected"]["due"]]
    assert following(trigger, right[0] - timedelta(seconds=1), 9) == right


def test_once_006_nothing_is_due_at_the_moment_of_enabling() -> None:
    trigger = build("cron", {"expr": CASES["once-006"]["input"]["cron"]})
    enabled = datetime(2026, 5, 1, 13, 50, tzinfo=UTC)
    assert trigger.next_after(enabled) == enabled.replace(hour=14, minute=0)


def test_once_007_nothing_after_the_end() -> None:
    end = datetime(2026, 5, 1, tzinfo=UTC)
    trigger = Bounded(build("interval", {"seconds": CASES["once-007"]["input"]["every_s"]}), end_at=end)
    assert trigger.next_after(end) is None
    assert trigger.next_after(end - timedelta(seconds=1)) == end
    assert trigger.latest_at(end + timedelta(days=1)) == end


def test_once_009_the_instant_stays_known_after_it() -> None:
    ran = datetime(2026, 5, 1, tzinfo=UTC)
    trigger = build("once", {"run_date": ran.isoformat()})
    assert trigger.next_after(ran) is None
    assert trigger.latest_at(ran + timedelta(days=400)) == ran
    assert CASES["once-009"]["expected"] == {"last_run_at": "T"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["kind"] == "solar"])
def test_solar(name: str) -> None:
    given, expected = CASES[name]["input"], CASES[name]["expected"]
    trigger = build("solar", {"event": given["event"], "lat": given["lat"], "lon": given["lon"]})
    due = trigger.next_after(when(given["after"]))
    assert due is not None
    assert abs((due - when(expected["next"])).total_seconds()) <= expected["tolerance_s"]


def test_every_case_is_a_test() -> None:
    """The data and this module grow together."""
    named = {param.id for param in cases("cron", "dst")}
    words = {word for name in globals() for word in [name.removeprefix("test_").replace("_", "-")]}
    missing = [
        name
        for name, case in CASES.items()
        if name not in named
        and case["kind"] != "solar"
        and not any(
            word.startswith(name) or (word.startswith(name.split("-")[0]) and f"-{name.split('-')[1]}-" in word)
            for word in words
        )
    ]
    assert missing == []
