"""The grammar of cron expressions: what each spelling means, and what is refused under which field's name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import build
from celery_parrot.triggers.cron import Cron

from .walks import following

START = datetime(2026, 1, 1, tzinfo=UTC)  # a Thursday


def cron(expr: str, **config: object) -> Cron:
    found = build("cron", {"expr": expr, **config}, schedule_id="nightly-report")
    assert isinstance(found, Cron)
    return found


def dues(trigger: Cron, count: int, form: str = "%m-%d", start: datetime = START) -> list[str]:
    return [due.strftime(form) for due in following(trigger, start, count)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("0 0 * * 0", "0 0 * * 7"),
        ("0 0 * * sun", "0 0 * * SUN"),
        ("0 0 * * mon-fri", "0 0 * * 1-5"),
        ("0 0 * * Monday-friday", "0 0 * * 1-5"),
        ("0 0 * * fri-sun", "0 0 * * 5,6,0"),
        ("0 0 * * sat-mon", "0 0 * * 6,0,1"),
        ("0 0 * * fri-tue/2", "0 0 * * 5,0,2"),
        ("0 0 1 nov-feb *", "0 0 1 11,12,1,2 *"),
        ("0 0 1 JAN,Jul *", "0 0 1 1,7 *"),
        ("5/15 * * * *", "5,20,35,50 * * * *"),
        ("0 4/6 * * *", "0 4,10,16,22 * * *"),
        ("0 0 10-20/5 * *", "0 0 10,15,20 * *"),
        ("0 0 * * L5", "0 0 * * 5L"),
        ("0 0 * * friL", "0 0 * * 5L"),
        ("0 0 * * fridayl", "0 0 * * 5L"),
        ("0 0 * * Lfri", "0 0 * * 5L"),
        ("0 0 * * fri#2", "0 0 * * 5#2"),
        ("0 0 * * 7#2", "0 0 * * 0#2"),
        ("0 0 * * 2/2", "0 0 * * 2,4,6"),
        ("0 0 * * 1/3", "0 0 * * 1,4,7"),
        ("  0   0\t* *  1 ", "0 0 * * 1"),
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * 0"),
        ("@monthly", "0 0 1 * *"),
        ("@Yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
    ],
)
def test_two_spellings_of_one_schedule(one: str, other: str) -> None:
    assert dues(cron(one), 40, "%F %T") == dues(cron(other), 40, "%F %T")


@pytest.mark.parametrize(
    ("expr", "right"),
    [
        ("0 0 * * 1", ["01-05", "01-12", "01-19"]),
        ("0 0 L * *", ["01-31", "02-28", "03-31"]),
        ("0 0 LW * *", ["01-30", "02-27", "03-31", "04-30", "05-29"]),
        ("0 0 1W * *", ["02-02", "03-02", "04-01", "05-01", "06-01", "07-01", "08-03"]),
        ("0 0 31W * *", ["01-30", "03-31", "05-29"]),
        ("0 0 15W,L * *", ["01-15", "01-31", "02-16", "02-28"]),
        ("0 0 * * fri#5", ["01-30", "05-29", "07-31"]),
        ("0 0 * * fri#2,monL", ["01-09", "01-26", "02-13", "02-23"]),
        ("0 0 13 * fri", ["01-02", "01-09", "01-13", "01-16"]),
        ("0 0 1,15 * mon", ["01-05", "01-12", "01-15", "01-19"]),
        ("0 0 */10 * mon", ["05-11", "06-01", "08-31"]),
        ("0 0 1-7 * */7,mon", None),
        ("0 0 31 4 0", ["04-05", "04-12"]),
        ("0 0 L * mon", ["01-05", "01-12", "01-19", "01-26", "01-31"]),
    ],
)
def test_days(expr: str, right: list[str] | None) -> None:
    if right is None:
        with pytest.raises(InvalidSchedule, match="step of 7"):
            cron(expr)
    else:
        assert dues(cron(expr), len(right)) == right


def test_day_fields_unite_or_intersect() -> None:
    """Day 13 or Friday by crontab(5); Friday the 13th by Celery."""
    assert dues(cron("0 0 13 * fri", day_rule="crontab"), 3) == ["01-02", "01-09", "01-13"]
    assert dues(cron("0 0 13 * fri", day_rule="intersection"), 3) == ["02-13", "03-13", "11-13"]
    assert cron("0 0 13 * fri") != cron("0 0 13 * fri", day_rule="intersection")


@pytest.mark.parametrize(
    ("expr", "field", "value"),
    [
        ("monkey * * * *", "minute", "monkey"),
        ("dec * * * *", "minute", "dec"),
        ("60 * * * *", "minute", "60"),
        ("-1 * * * *", "minute", "-1"),
        ("*/0 * * * *", "minute", "*/0"),
        ("*/60 * * * *", "minute", "*/60"),
        ("1,,2 * * * *", "minute", "1,,2"),
        ("1- * * * *", "minute", "1-"),
        ("50-10 * * * *", "minute", "50-10"),
        ("1/ * * * *", "minute", "1/"),
        ("1/x * * * *", "minute", "1/x"),
        ("*5 * * * *", "minute", "*5"),
        ("L * * * *", "minute", "l"),
        ("٣ * * * *", "minute", "٣"),
        ("h( * * * *", "minute", "h("),
        ("h(5-2) * * * *", "minute", "h(5-2)"),
        ("h(0-9)/20 * * * *", "minute", "h(0-9)/20"),
        ("0 24 * * *", "hour", "24"),
        ("0 22-2 * * *", "hour", "22-2"),
        ("0 mon * * *", "hour", "mon"),
        ("0 */24 * * *", "hour", "*/24"),
        ("0 0 32 * *", "day_of_month", "32"),
        ("0 0 0 * *", "day_of_month", "0"),
        ("0 0 0W * *", "day_of_month", "0w"),
        ("0 0 31 2 *", "day_of_month", "31"),
        ("0 0 30,31 feb *", "day_of_month", "30,31"),
        ("0 0 31 4,6,9,11 *", "day_of_month", "31"),
        ("0 0 31W 2 *", "day_of_month", "31w"),
        ("0 0 * 13 *", "month_of_year", "13"),
        ("0 0 * mon *", "month_of_year", "mon"),
        ("0 0 * 11-2 *", "month_of_year", "11-2"),
        ("0 0 * * 8", "day_of_week", "8"),
        ("0 0 * * jan", "day_of_week", "jan"),
        ("0 0 * * fri#6", "day_of_week", "fri#6"),
        ("0 0 * * fri#0", "day_of_week", "fri#0"),
        ("0 0 * * #2", "day_of_week", "#2"),
        ("0 0 * * L", "day_of_week", "l"),
        ("0 0 * * 5-1", "day_of_week", "5-1"),
        ("0 0 * feb mon#5", None, None),
        ("* * * *", "expr", "* * * *"),
        ("", "expr", ""),
        ("* * * * * *", "expr", "* * * * * *"),
        ("* * * * * * *", "expr", "* * * * * * *"),
        ("@reboot", "expr", "@reboot"),
    ],
)
def test_refused_with_the_field_named(expr: str, field: str | None, value: str | None) -> None:
    if field is None:
        assert dues(cron(expr), 1, "%F") == ["2044-02-29"]
        return
    with pytest.raises(InvalidSchedule, match=field) as refused:
        cron(expr)
    assert (refused.value.field, refused.value.value) == (field, value)
    assert isinstance(refused.value, ValueError)


def test_a_leap_day_on_a_weekday_across_2100() -> None:
    """The longest wait there is: 40 years."""
    rare = cron("0 0 29 2 mon", day_rule="intersection")
    assert dues(rare, 3, "%Y", datetime(2060, 1, 1, tzinfo=UTC)) == ["2072", "2112", "2140"]
    assert rare.latest_at(datetime(2111, 1, 1, tzinfo=UTC)) == datetime(2072, 2, 29, tzinfo=UTC)
    assert dues(cron("0 0 29 2 *"), 2, "%Y", datetime(2096, 3, 1, tzinfo=UTC)) == ["2104", "2108"]


@pytest.mark.parametrize(
    ("config", "expr"),
    [
        ({"minute": 0, "hour": 9}, "0 9 * * *"),
        ({"minute": "*/15"}, "*/15 * * * *"),
        ({"hour": 9}, "0 9 * * *"),
        ({"hour": "9", "day_of_week": "mon-fri"}, "0 9 * * mon-fri"),
        ({"day_of_week": "mon"}, "0 0 * * mon"),
        ({"day": 15}, "0 0 15 * *"),
        ({"month": 3}, "0 0 1 3 *"),
        ({"month": 3, "minute": 5}, "5 * * 3 *"),
        ({"minute": [0, 30], "hour": "9-17", "day_of_week": ["mon", "wed"]}, "0,30 9-17 * * mon,wed"),
        ({"minute": 0, "hour": 0, "day": 1, "month": "jan, jul"}, "0 0 1 jan,jul *"),
        ({"minute": " 10 - 40 / 10 ", "hour": {9, 10}}, "10-40/10 9,10 * * *"),
        ({"minute": "0", "hour": "0", "day_of_month": "L", "month_of_year": 12, "day_of_week": None}, "0 0 l 12 *"),
    ],
)
def test_separate_fields(config: dict[str, object], expr: str) -> None:
    assert build("cron", config) == build("crontab", {"expr": expr})


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({}, "expr"),
        ({"expr": None}, "expr"),
        ({"expr": 5}, "expr"),
        ({"expr": "* * * * *", "minute": 5}, "minute"),
        ({"day": 1, "day_of_month": 1}, "day"),
        ({"minute": []}, "minute"),
        ({"minute": True}, "minute"),
        ({"minute": 1.5}, "minute"),
        ({"minute": {"a": 1}}, "minute"),
        ({"minute": "  "}, "minute"),
        ({"minute": "1 5"}, "minute"),
        ({"minute": ["1 5", 7]}, "minute"),
        ({"hour": b"\x01"}, "hour"),
        ({"minute": [1] * 5_000}, "minute"),
        ({"expr": "0 0 " + "1w," * 2_000 + "1 * *"}, "expr"),
        ({"minutes": 5}, "minutes"),
        ({"minute": 5, "seconds": "first"}, "seconds"),
        ({"expr": "* * * * *", "seconds": "first"}, "expr"),
        ({"expr": "* * * * * *", "seconds": "middle"}, "seconds"),
        ({"expr": "* * * * *", "day_rule": "either"}, "day_rule"),
        ({"expr": "* * * * *", "dst_gap": "shift"}, "dst_gap"),
        ({"expr": "* * * * *", "dst_fold": "never"}, "dst_fold"),
        ({"expr": "h * * * *", "seed": 5}, "seed"),
    ],
)
def test_configs_refused_with_the_key_named(config: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidSchedule, match=field) as refused:
        build("cron", config)
    assert refused.value.field == field


def test_seconds_first_and_last() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    first, last = cron("15,45 30 9 * * *", seconds="first"), cron("30 9 * * * 15,45", seconds="last")
    right = ["01 09:30:15", "01 09:30:45", "02 09:30:15"]
    assert dues(first, 3, "%d %T", start) == dues(last, 3, "%d %T", start) == right
    assert first.latest_at(datetime(2026, 1, 1, 9, 30, 44, 999_999, tzinfo=UTC)) == datetime(
        2026, 1, 1, 9, 30, 15, tzinfo=UTC
    )
    assert cron("@hourly", seconds="first") == cron("@hourly")


def test_h_is_a_stable_hash_of_the_schedule() -> None:
    """These values are part of the contract: a change would move everybody's schedules."""
    found = build("cron", {"expr": "H H(9-16) H * H"}, schedule_id="nightly-report")
    assert found.to_config() == ("cron", {"expr": "h h(9-16) h * h", "tz": "UTC", "seed": "nightly-report"})
    assert found.next_after(START) == datetime(2026, 1, 5, 15, 50, tzinfo=UTC)
    assert found == build("cron", {"expr": "h h(9-16) h * h", "seed": "nightly-report"}, schedule_id="another")
    assert found != build("cron", {"expr": "H H(9-16) H * H"}, schedule_id="another")


def test_h_spreads_over_the_whole_range_and_keeps_its_step() -> None:
    minutes: set[int] = set()
    for number in range(2_000):
        due = build("cron", {"expr": "H 0 * * *"}, schedule_id=f"s{number}").next_after(START)
        assert due is not None
        minutes.add(due.minute)
    assert minutes == set(range(60))
    quarter = cron("H/15 * * * *")
    found = [int(text) for text in dues(quarter, 4, "%M")]
    assert len({minute % 15 for minute in found}) == 1
    assert len(set(found)) == 4
    assert {cron("H H H * *", seed=str(n)).next_after(START) for n in range(50)} != {
        cron("H H H * *").next_after(START)
    }


@pytest.mark.parametrize(
    ("expr", "words"),
    [
        ("*/5 * * * *", "Every 5 minutes (UTC)."),
        ("30 9 * * mon-fri", "At 09:30, Monday through Friday (UTC)."),
        ("0 */7 * * *", "Every 7 hours; the hours start over at midnight (UTC)."),
        ("0 0 15,L * *", "As cron '0 0 15,l * *' says (UTC)."),
        ("0 0 13 * 5", "either the day of the month or the weekday must match (UTC)."),
        ("0 0 */2 * 5", "both the day of the month and the weekday must match (UTC)."),
        ("H 3 * * *", "As cron 'h 3 * * *' says (UTC)."),
    ],
)
def test_described(expr: str, words: str) -> None:
    assert cron(expr).describe().endswith(words)


def test_a_description_names_the_zone_and_the_class() -> None:
    assert "(Europe/Berlin, continuous: runs on in real time" in cron("0 * * * *", tz="Europe/Berlin").describe()
    wall = cron("0 9 * * *", tz="Europe/Berlin", dst_gap="skip", dst_fold="last").describe()
    assert "Europe/Berlin, wall:" in wall
    assert "is skipped" in wall
    assert "second time" in wall
