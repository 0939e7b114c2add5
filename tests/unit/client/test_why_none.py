"""Why a schedule did not run: missed, skipped, held, not due, not yet, or too long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from celery_parrot import InvalidSchedule, ParrotError, ScheduleNotFound
from celery_parrot.client import why_none
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Timing
from tests.unit.client.why_world import BEGIN, Night, at, defined

QUARTER = {"minutes": 15}
MADRID = "Europe/Madrid"
RESUME = "What comes due meanwhile is recorded as skipped when it is resumed."


def due(what: str, name: str = "nightly", time: str = "03:00:00") -> str:
    return f"{name}, due Mon 2026-03-02 {time} UTC, {what}"


# --- missed and skipped ---


def test_too_late_by_its_grace() -> None:
    """When the first beat came, how late that was, and since when there has been one."""
    night = Night()
    night.away_until("03:22")
    night.beat = night.new_beat("beat-two")
    night.away_until("2026-03-02T04:30")  # the beat before is forgotten
    night.until("2026-03-02T04:30:01")
    assert night.told(at="03:00") == [
        due("was missed: it was too late when a beat could see to it."),
        "The first beat to look at it was beat test (process 0), at 03:22:00, 22 min after it was due; later than 5 "
        "min is "
        "too late (misfire_grace). Every beat that is alive now was started after that, the first at 03:22:00.",
    ]


def test_left_out_by_policy() -> None:
    night = Night(defined("n", "interval", QUARTER, missed="skip", misfire_grace=None))
    night.away_until("03:31")
    night.until("03:31:01")
    assert night.told("n", "03:15") == [
        due("was missed: it was too late when a beat could see to it.", "n", "03:15:00"),
        "The first beat to look at it was beat test (process 0), at 03:31:00, 16 min after it was due, and its "
        "policy is "
        "to leave out what was missed (missed: skip).",
        "The same holds for 3 due times from 03:00:00 to 03:30:00.",
    ]


def test_coalesced_into_a_later_one() -> None:
    """Into which, and what came of that."""
    night = Night(defined("n", "interval", QUARTER, misfire_grace=None))
    night.away_until("03:31")
    night.until("03:31:01")
    night.starts("03:30", "n")
    night.ends("03:30", name="n")
    assert night.told("n", "03:15") == [
        due("was missed: only a later one of a backlog was run.", "n", "03:15:00"),
        "At 03:31:00, 16 min after it was due, beat test (process 0) found a backlog of due times. Of one only the "
        "latest "
        "is run (missed: coalesce), which was that of 03:30:00: success.",
        "The same holds for 2 due times from 03:00:00 to 03:15:00.",
    ]


def test_one_too_many_of_a_backlog() -> None:
    night = Night(defined("n", "interval", QUARTER, misfire_grace=None, missed="catch_up", catch_up_limit=2))
    night.away_until("03:31")
    night.until("03:31:01")
    assert night.told("n", "03:00") == [
        due("was missed: it was one of too many in a backlog.", "n"),
        "At 03:31:00, 31 min after it was due, beat test (process 0) found a backlog of due times. Of one only the "
        "newest "
        "2 are caught up on (catch_up_limit).",
    ]


def test_skipped_because_the_fire_before_was_in_flight() -> None:
    night = Night(defined("n", "interval", {"minutes": 1}, overlap="skip"))
    night.until("02:59:01")
    night.starts("02:59", "n")
    night.until("03:00:05", leases=[("n", "02:59")])
    assert night.told("n") == [
        due("was skipped: the fire before it was still in flight.", "n"),
        "Beat test (process 0) claimed it at 03:00:00, on time.",
        "At 03:00:00 its fire of 02:59:00, which celery@w1 had been running since 02:59:01, had not ended, and the "
        "schedule must not overlap (overlap: skip).",
    ]


def test_paused_then_and_resumed_since() -> None:
    night = Night()
    night.client.pause("nightly", "stocktaking", "ann")
    night.until("03:01")
    night.client.resume("nightly")
    night.until("03:02")
    assert night.told(at="03:00") == [
        due("was skipped: its schedule was paused."),
        "It was resumed at 03:01:00. What comes due in a pause is not made up for.",
    ]


# --- held ---


def test_paused_by_whom_since_when_and_why() -> None:
    night = Night()
    night.client.pause("nightly", "stocktaking", "ann")
    night.until("03:01")
    told = f"It has been paused by a person since 02:58:00 (3 min), with the note 'ann: stocktaking'. {RESUME}"
    assert night.told() == [due("has not run: it is paused."), told]
    assert night.why().verdict == "paused"
    assert night.told(at="tomorrow 03:00") == [
        "nightly is due Tue 2026-03-03 03:00:00 UTC, in 23 h 59 min, but it is paused.",
        told.replace("since 02:58:00", "since Mon 2026-03-02 02:58:00"),
    ]


def test_switched_off_by_its_definition() -> None:
    night = Night(defined(enabled=False))
    night.until("03:01")
    assert night.told(at="tomorrow 03:00")[-1] == "Its definition says enabled: false."


def test_disabled_by_failures_with_the_last_error() -> None:
    night = Night(defined("n", "interval", {"seconds": 20}))
    for time in ("02:58:20", "02:58:40", "02:59:00"):
        night.until(time)
        night.starts(time, "n")
        night.ends(time, Status.ERROR, "n", error="OSError: disk full")
    night.coordinator.hold(["n"], "failures", "3 failures in a row")
    night.until("03:00:01")
    assert night.told("n", "03:00:00") == [
        due("has not run: failures have disabled it.", "n"),
        "It has been disabled since 02:59:00 (1 min 1 s), after 3 failures in a row, the first at 02:58:20. The "
        "last error, 1 min 1 s ago: "
        "OSError: disk full. Once its cause is mended, resume it.",
    ]


def test_a_broken_definition_says_what_is_wrong_with_it() -> None:
    night = Night(defined(broken="hour = 25: must be 0 to 23"))
    night.until("03:01")
    assert str(night.why()) == (
        "nightly is not due at any time: its definition is broken.\n"
        "  Its definition cannot be used, and nothing is fired until it is mended: hour = 25: must be 0 to 23."
    )


def test_a_kind_that_nobody_routes() -> None:
    night = Night(defined(kind="ghost"))
    night.until("03:00:30")
    assert night.told() == [
        due("has not run: its kind is not routed."),
        "Its kind 'ghost' is not in parrot_kinds here (there is task), so beats with these settings do not fire it. "
        "Its due "
        "times are kept until one does, or until they are 5 min late (misfire_grace).",
    ]


def test_no_beat_is_alive() -> None:
    night = Night()
    night.away_until("03:02")
    assert night.told() == [
        due("has not run: no beat is alive."),
        "No beat is alive: the last one, on test (process 0), was seen 4 min ago. When one starts, it fires what is "
        "at most "
        "5 min late (misfire_grace).",
    ]


def test_no_beat_has_been_here_for_long() -> None:
    """Or the last one was stopped a moment ago: it took itself off the list."""
    night = Night(defined(misfire_grace=None))
    night.coordinator.flush()
    night.coordinator.attach()
    night.away_until("03:02")
    assert night.told(at="03:00")[-1] == (
        "No beat is alive: those that were have been stopped, or not seen for an hour. When one starts, it fires what "
        "is not too late."
    )


# --- nothing more ---


def test_all_its_fires_are_used_up() -> None:
    night = Night(defined("n", "interval", {"minutes": 1}, max_fires=1))
    night.until("03:00:01")
    assert night.told("n", "03:00") == [
        due("has not run: it is completed.", "n"),
        "It has had as many fires as it may have: 1 (max_fires).",
    ]
    assert night.why("n").next is None


def test_a_one_shot_is_over() -> None:
    night = Night(defined("o", "once", {"run_date": "2026-03-02T02:59:00Z"}))
    night.until("03:00:01")
    assert night.told("o", "03:00") == [
        "o was not due at Mon 2026-03-02 03:00:00 UTC.",
        "It is due only once, Mon 2026-03-02 02:59:00 UTC.",
    ]
    assert night.told("o")[-1] == "Nothing more will come: it has no further due times."


def test_outside_its_bounds() -> None:
    night = Night(defined(start_at=at("2026-03-03T00:00"), end_at=at("2026-03-05T00:00")))
    night.until("02:58:05")
    assert night.told(at="03:00")[-1] == "Its due times begin with its start_at, Tue 2026-03-03 00:00:00 UTC."
    assert night.told(at="2026-03-06T03:00")[-1] == "Its due times end with its end_at, Thu 2026-03-05 00:00:00 UTC."


# --- not due ---


def test_not_due_at_that_time_names_the_nearest() -> None:
    """And what came of the one before."""
    night = Night()
    night.until("03:00:01")
    night.starts()
    night.ends()
    night.until("03:00:10")
    story = night.why(at="02:00")
    assert (story.verdict, story.sentence) == ("not_due", "nightly was not due at Mon 2026-03-02 02:00:00 UTC.")
    assert story.closing == ("The due time before: Sun 2026-03-01 03:00:00 UTC. The next: Mon 2026-03-02 03:00:00 UTC.")
    story = night.why(at="05:30")
    assert story.sentence == "nightly is not due at Mon 2026-03-02 05:30:00 UTC."
    assert story.closing == (
        "The due time before: Mon 2026-03-02 03:00:00 UTC, succeeded. "
        "The next: Tue 2026-03-03 03:00:00 UTC, in 23 h 59 min."
    )
    assert (story.previous, story.next) == (at("03:00"), at("2026-03-03T03:00"))


def test_in_the_future() -> None:
    night = Night()
    night.until("02:58:05")
    assert night.told(at="03:00") == ["nightly is due Mon 2026-03-02 03:00:00 UTC, in 1 min 55 s."]
    assert night.why().verdict == "future"


def test_moved_by_a_clock_change() -> None:
    """Asked for by the reading that was never shown, the story is that of the instant after."""
    begin = datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC)
    night = Night(defined(config={"hour": 2, "minute": 30}, timezone=MADRID), zone=MADRID, begin=begin)
    night.until("2026-03-29T01:00:10")
    told = night.told(at="2026-03-29T02:30")
    assert told[:2] == [
        "nightly, due Sun 2026-03-29 03:00:00 Europe/Madrid, was sent, and no worker has started it yet.",
        "The clock in Europe/Madrid never showed 02:30:00 on that day: it went forward over it. So it was due at the "
        "first "
        "instant after, 03:00:00.",
    ]
    assert night.told() == told


def test_dropped_by_a_clock_change() -> None:
    begin = datetime(2026, 3, 29, 0, 59, 30, tzinfo=UTC)
    fixed = defined(config={"hour": 2, "minute": 30}, timezone=MADRID, dst_gap="skip")
    going = defined("often", "cron", {"expr": "*/10 * * * *"}, timezone=MADRID)
    night = Night(fixed, going, begin=begin)
    night.until("2026-03-29T01:00:10")
    headline = "was not due at Sun 2026-03-29 02:30:00 Europe/Madrid: there was no such time."
    assert night.told(at="2026-03-29T02:30") == [
        f"nightly {headline}",
        "The clock in Europe/Madrid went forward over 02:30:00, and such due times are dropped (dst_gap: skip).",
    ]
    assert night.told("often", at="2026-03-29T02:30") == [
        f"often {headline}",
        "The clock in Europe/Madrid went forward over 02:30:00, and this schedule goes by real time.",
    ]


def test_a_reading_that_was_shown_twice() -> None:
    """The one that counts is told, and that the other does not."""
    begin = datetime(2026, 10, 25, 0, 29, 30, tzinfo=UTC)
    first = defined(config={"hour": 2, "minute": 30}, timezone=MADRID)
    last = defined("last", config={"hour": 2, "minute": 30}, timezone=MADRID, dst_fold="last")
    night = Night(first, last, zone=MADRID, begin=begin)
    night.until("2026-10-25T00:30:05")
    told = night.told(at="2026-10-25T02:30")
    assert told[0].startswith("nightly, due Sun 2026-10-25 02:30:00 +02:00 Europe/Madrid, was sent")
    assert told[1] == "The clock in Europe/Madrid showed 02:30:00 twice on that day; this was the first of the two."
    assert night.told(at="2026-10-25T02:30+01:00") == [
        "nightly is not due at Sun 2026-10-25 02:30:00 +01:00 Europe/Madrid.",
        "The clock in Europe/Madrid showed 02:30:00 twice on that day, and only the first of the two counts "
        "(dst_fold).",
    ]
    assert night.told("last", at="2026-10-25T02:30+02:00")[-1].endswith(
        "and only the second of the two counts (dst_fold)."
    )
    assert night.why("last", at="2026-10-25T02:30").due_at == at("2026-10-25T01:30")


# --- decided, and nothing known ---


def test_before_the_code_had_it() -> None:
    """When that was nobody knows: the stamp of a schedule of the code is the start of the process that asks."""
    night = Night(defined(created_at=BEGIN - timedelta(hours=1)))
    night.until("03:00:05")
    assert night.told(at="yesterday 03:00") == [
        "nightly, due Sun 2026-03-01 03:00:00 UTC, is not in the history.",
        "The beats met the schedule, as it is now, only after that: it was neither fired nor missed. To create, edit, "
        "enable or deploy a schedule never makes up for earlier due times.",
    ]


def test_before_it_existed(monkeypatch: pytest.MonkeyPatch) -> None:
    night = Night(defined(created_at=BEGIN - timedelta(hours=1)))
    night.until("03:00:05")
    monkeypatch.setattr(why_none, "_CODE", "another store")
    assert night.told(at="yesterday 03:00") == [
        "nightly did not run at Sun 2026-03-01 03:00:00 UTC: it did not exist yet.",
        "It was created Mon 2026-03-02 01:58:00 UTC. To create, edit, enable or deploy a schedule never makes up for "
        "earlier due times.",
    ]


def test_before_any_beat_met_it() -> None:
    night = Night()
    night.until("03:00:05")
    assert night.told(at="yesterday 03:00")[-1] == (
        "The beats met the schedule, as it is now, only after that: it was neither fired nor missed. To create, "
        "edit, enable "
        "or deploy a schedule never makes up for earlier due times."
    )


def test_older_than_the_history() -> None:
    night = Night()
    night.until("03:00:05")
    assert night.told(at="2026-01-02T03:00") == [
        "nightly, due Fri 2026-01-02 03:00:00 UTC, is not in the history.",
        "History is kept for 30 days (parrot_history_days), and that was 59 d ago.",
    ]


def test_pushed_out_of_the_history_by_newer_fires() -> None:
    night = Night(defined("n", "interval", {"seconds": 20}), timing=Timing(history_limit=3))
    night.until("03:00:05")
    assert night.told("n", "02:58:20")[-1] == (
        "History is kept of the newest 3 (parrot_history_limit), and the oldest of them was due Mon 2026-03-02 "
        "02:59:20 UTC."
    )


# --- the question ---


def test_a_question_that_cannot_be_answered_says_how_to_ask() -> None:
    night = Night()
    with pytest.raises(
        InvalidSchedule, match="at = 'half past three': must be an instant such as 2026-03-02T03:00"
    ) as error:
        night.why(at="half past three")
    assert error.value.field == "at"
    with pytest.raises(ParrotError, match="the history of 'nightly' has no fire 'x'; fires shows the ids"):
        night.why(fire="x")
    with pytest.raises(ScheduleNotFound, match="did you mean 'nightly'"):
        night.why("nightl")
    with pytest.raises(ParrotError, match="either a time or a fire"):
        night.why(at="03:00", fire="x")


def test_a_minute_may_cover_several_due_times() -> None:
    night = Night(defined("n", "interval", {"seconds": 20}))
    night.until("03:00:50")
    story = night.why("n", "03:00")
    assert story.due_at == at("03:00")
    assert "That covers 3 due times; this is the first of them." in night.told("n", "03:00")
    assert night.why("n", "03:00:20").due_at == at("03:00:20")
