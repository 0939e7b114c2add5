"""What a person is shown: due times, and what clock changes do to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from celery_parrot.triggers import Bounded, build, preview

SPRING = datetime(2026, 3, 28, 12, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 12, tzinfo=UTC)


def shown(expr: str, after: datetime, n: int, **policy: str) -> list[str]:
    trigger = build("cron", {"expr": expr, "tz": "Europe/Berlin", **policy})
    found = preview(trigger, after, n)
    assert sum(occurrence.fires for occurrence in found) == n
    assert all(occurrence.local.astimezone(UTC) == occurrence.due_at for occurrence in found)
    return [
        f"{occurrence.due_at:%d %H:%M} for {occurrence.reading:%d %H:%M} {occurrence.mark}"
        + (f" {occurrence.count}" if occurrence.mark == "dropped" else "")
        for occurrence in found
    ]


@pytest.mark.parametrize(
    ("expr", "policy", "right"),
    [
        ("30 2 * * *", {}, ["29 01:00 for 29 02:30 moved", "30 00:30 for 30 02:30 "]),
        (
            "30 2 * * *",
            {"dst_gap": "skip"},
            ["29 01:00 for 29 02:30 dropped 1", "30 00:30 for 30 02:30 ", "31 00:30 for 31 02:30 "],
        ),
        (
            "0,20,40 2 * * *",
            {},
            ["29 01:00 for 29 02:20 dropped 2", "29 01:00 for 29 02:00 moved", "30 00:00 for 30 02:00 "],
        ),
        ("0 2,3 * * *", {}, ["29 01:00 for 29 02:00 dropped 1", "29 01:00 for 29 03:00 ", "30 00:00 for 30 02:00 "]),
        ("*/30 2 * * *", {}, ["29 01:00 for 29 02:00 dropped 2", "30 00:00 for 30 02:00 ", "30 00:30 for 30 02:30 "]),
        ("0 9 * * *", {}, ["29 07:00 for 29 09:00 ", "30 07:00 for 30 09:00 "]),
    ],
)
def test_gap(expr: str, policy: dict[str, str], right: list[str]) -> None:
    assert shown(expr, SPRING, 2, **policy) == right


@pytest.mark.parametrize(
    ("expr", "policy", "right"),
    [
        (
            "30 2 * * *",
            {},
            ["25 00:30 for 25 02:30 repeated", "25 01:00 for 25 02:30 dropped 1", "26 01:30 for 26 02:30 "],
        ),
        (
            "30 2 * * *",
            {"dst_fold": "last"},
            ["25 01:00 for 25 02:30 dropped 1", "25 01:30 for 25 02:30 repeated", "26 01:30 for 26 02:30 "],
        ),
        ("30 2 * * *", {"dst_fold": "both"}, ["25 00:30 for 25 02:30 repeated", "25 01:30 for 25 02:30 repeated"]),
        ("*/30 2 * * *", {}, ["25 00:00 for 25 02:00 repeated", "25 00:30 for 25 02:30 repeated"]),
        ("0 4 * * *", {}, ["25 03:00 for 25 04:00 ", "26 03:00 for 26 04:00 "]),
    ],
)
def test_fold(expr: str, policy: dict[str, str], right: list[str]) -> None:
    assert shown(expr, AUTUMN, 2, **policy) == right


def test_types_without_a_clock() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = preview(build("interval", {"hours": 6}), start, 3)
    assert [occurrence.due_at for occurrence in found] == [start + n * timedelta(hours=6) for n in (1, 2, 3)]
    assert not any(occurrence.mark for occurrence in found)
    assert len(preview(build("once", {"run_date": "2026-05-01T00:00Z"}), start, 3)) == 1
    assert preview(build("once", {"run_date": "2025-05-01T00:00Z"}), start, 3) == ()


def test_bounds_hold_for_what_is_dropped_too() -> None:
    skipping = build("cron", {"expr": "30 2 * * *", "tz": "Europe/Berlin", "dst_gap": "skip"})
    late = Bounded(skipping, SPRING + timedelta(days=1))
    assert [occurrence.mark for occurrence in preview(late, SPRING - timedelta(days=5), 2)] == ["", ""]
    assert [occurrence.mark for occurrence in preview(Bounded(skipping), SPRING, 1)] == ["dropped", ""]


def test_a_skipped_day_is_counted() -> None:
    apia = build("cron", {"expr": "0 */6 * * *", "tz": "Pacific/Apia"})
    found = preview(apia, datetime(2011, 12, 30, 5, tzinfo=UTC), 1)
    assert [(occurrence.mark, occurrence.count) for occurrence in found] == [("dropped", 4), ("", 1)]
