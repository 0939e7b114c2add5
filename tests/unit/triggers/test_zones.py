"""The changes of a zone, against the tz database itself."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from io import BytesIO
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

import pytest

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import build
from celery_parrot.triggers.instants import DAY
from celery_parrot.triggers.zones import _STEP, Zone, zone

FIRST = -2_208_988_800  # 1900
HEADER = struct.Struct(">4sc15x6l")


@cache
def databases() -> dict[bytes, str]:
    """The TZif file of every zone, those that are links to another once."""
    root = files("tzdata.zoneinfo")
    return {root.joinpath(*key.split("/")).read_bytes(): key for key in sorted(available_timezones()) if _shipped(key)}


def _shipped(key: str) -> bool:
    return files("tzdata.zoneinfo").joinpath(*key.split("/")).is_file()


def changes(data: bytes) -> list[tuple[int, int, int]]:
    """``(instant, offset before, offset after)`` of each change of offset listed in a TZif file (RFC 8536)."""
    _, _, isut, isstd, leap, times, types, chars = HEADER.unpack_from(data)
    at = HEADER.size + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    _, _, isut, isstd, leap, times, types, chars = HEADER.unpack_from(data, at)
    at += HEADER.size
    instants = struct.unpack_from(f">{times}q", data, at)
    kinds = struct.unpack_from(f">{times}B", data, at + times * 8)
    offsets = [struct.unpack_from(">l", data, at + times * 9 + number * 6)[0] for number in range(types)]
    before = [offsets[0], *(offsets[kind] for kind in kinds)]
    return [
        (instant, before[number], before[number + 1])
        for number, instant in enumerate(instants)
        if before[number] != before[number + 1]
    ]


def test_every_change_since_1970_is_found_in_every_zone() -> None:
    checked = 0
    for data, key in databases().items():
        here = Zone(key, ZoneInfo.from_file(BytesIO(data), key))
        for instant, before, after in changes(data):
            if instant >= 0:
                stretch = here.stretch(instant)
                assert (stretch.start, stretch.before, stretch.offset) == (instant, before, after), key
                checked += 1
                # A change is known from a day before it, also where two of the years that are probed meet in between.
                earlier = here.stretch(instant - DAY)
                assert earlier.end <= instant, key
                assert earlier.after != earlier.offset, key
                assert here.stretch(instant + DAY).before != here.stretch(instant + DAY).offset, key
    assert checked > 10_000


def test_no_zone_returns_to_an_offset_within_the_step_of_the_search() -> None:
    shortest = min(
        later[0] - earlier[0]
        for data in databases()
        for earlier, later in pairwise(change for change in changes(data) if change[0] >= FIRST)
        if earlier[1] == later[2]
    )
    assert shortest > _STEP


@pytest.mark.parametrize("key", ["Europe/Berlin", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"])
def test_stretches_meet_without_a_hole(key: str) -> None:
    here, second = zone(key), FIRST
    end = int(datetime(2100, 1, 1, tzinfo=UTC).timestamp())
    while second < end:
        stretch = here.stretch(second)
        assert stretch.start == second or second == FIRST
        assert stretch.end > second
        assert here.stretch(stretch.end).before == stretch.offset
        assert here.stretch(stretch.end).offset == stretch.after
        second = stretch.end


@pytest.mark.parametrize(
    "key",
    [
        *("Mars/Olympus", "", "Europe", "../etc/passwd", "UTC+25:00", "Europe/Berlin\0", "a" * 5000, "\ud800"),
        # Of the host, not of the tz database: another thing on each, and with leap seconds.
        *("localtime", "posixrules", "right/UTC", "posix/Europe/Berlin", "UTC+٠٢:٠٠"),
    ],
)
def test_unknown_zones_are_refused_by_name(key: str) -> None:
    with pytest.raises(InvalidSchedule, match="no such time zone") as refused:
        build("daily", {"tz": key})
    assert (refused.value.field, refused.value.value) == ("tz", key)


@pytest.mark.parametrize(
    ("schedule_type", "config"),
    [("daily", {}), ("interval", {"seconds": 5}), ("once", {"run_date": "2026-05-01T00:00Z"})],
)
def test_an_unknown_zone_is_refused_by_every_type(schedule_type: str, config: dict[str, object]) -> None:
    with pytest.raises(InvalidSchedule, match="no such time zone") as refused:
        build(schedule_type, config, timezone="Mars/Olympus")
    assert refused.value.field == "timezone"
    with pytest.raises(InvalidSchedule, match="must be one of") as refused:
        build(schedule_type, {**config, "dst_fold": "third"})
    assert refused.value.field == "dst_fold"


def test_the_zone_is_the_configs_then_the_schedules() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    assert build("daily", {}).next_after(start) == start + timedelta(days=1)
    assert build("daily", {}, timezone="Asia/Tokyo").next_after(start) == start + timedelta(hours=15)
    for key in ("tz", "timezone"):
        assert build("daily", {key: "UTC+05:45"}, timezone="Asia/Tokyo").next_after(start) == start + timedelta(
            hours=18.25
        )
    assert build("daily", {"tz": "utc"}) == build("daily", {"tz": "UTC"})
    assert build("daily", {"tz": "utc+0545"}) == build("daily", {"tz": "UTC+05:45"})
    assert build("daily", {"tz": None}, timezone="Asia/Tokyo") == build("daily", {"tz": "Asia/Tokyo"})


def test_a_zone_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidSchedule, match="name of a time zone"):
        build("daily", {"tz": 5})
