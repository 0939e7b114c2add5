"""The due times of the next 24 hours: counted rightly, whatever the schedules are, and never by the one who asks."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.client import SchedulePage, ScheduleView
from celery_parrot.client.view import trigger_from
from celery_parrot.errors import Unreachable
from celery_parrot.flower.counting import MOST_IN_A_CELL, Counts, Span, at_most, counts_of
from celery_parrot.flower.timeline import KEPT, REST, TRIED_AGAIN, Snapshot, Tally, Timeline, spec_of
from celery_parrot.model.state import RunState
from celery_parrot.protocols import State
from celery_parrot.testing import FakeClock
from celery_parrot.triggers import Bounded, Trigger, build
from tests.support.waiting import wait_until

NOW = datetime(2026, 3, 4, 10, 3, 20, tzinfo=UTC)
START = NOW.replace(minute=0, second=0)
DAY = Span(START, 1440, NOW)


def view(name: str = "one", **fields: Any) -> ScheduleView:
    given = {"kind": "task", "schedule_type": "interval", "schedule_config": {"hours": 1}, "timezone": "UTC"}
    return ScheduleView(schedule_id=name, name=name, store="redis", **given | {"created_at": NOW} | fields)


def counted(*views: ScheduleView) -> Snapshot:
    tally = Tally(NOW)
    for one in views:
        tally.add(one, tally.count(one, trigger_from))
    return tally.snapshot()


def slowly(trigger: Trigger, span: Span) -> dict[int, int]:
    """By asking for each due time."""
    found: dict[int, int] = {}
    at = span.after
    while (due := trigger.next_after(at)) is not None and due < span.end:
        cell = (due - span.start) // timedelta(minutes=1)
        found[cell] = found.get(cell, 0) + 1
        at = due
    return found


class TestCounting:
    @pytest.mark.parametrize(
        ("kind", "config"),
        [
            ("interval", {"seconds": 0.7, "offset": 0.3}),
            ("interval", {"seconds": 7}),
            ("interval", {"seconds": 59.9}),
            ("interval", {"minutes": 7}),
            ("cron", {"expr": "*/7 9-17 * * *", "tz": "Asia/Kathmandu"}),
            ("daily", {"hour": 9}),
        ],
    )
    def test_each_due_time_is_in_its_minute(self, kind: str, config: Mapping[str, Any]) -> None:
        """Counting by arithmetic and one by one give what asking for each due time gives."""
        trigger = build(kind, config, created_at=NOW)
        span = Span(START, 120 if "seconds" in config else 1440, NOW)
        assert counts_of(trigger, span) == Counts(slowly(trigger, span))

    def test_bounds_hold_for_intervals(self) -> None:
        """Both bounds are inclusive, also where intervals are counted by arithmetic."""
        bounded = Bounded(
            build("interval", {"seconds": 1}), NOW + timedelta(minutes=1), NOW + timedelta(minutes=2, seconds=5)
        )
        assert counts_of(bounded, DAY).cells == {4: 40, 5: 26}
        assert counts_of(Bounded(build("interval", {"seconds": 1}), NOW + timedelta(days=3)), DAY).cells == {}

    def test_others_are_capped(self) -> None:
        """What is due each second and is no interval is looked at in part, and says so."""
        counts = counts_of(build("cron", {"expr": "* * * * * *", "seconds": "first"}), Span(START, 10, START))
        assert counts.capped
        assert set(counts.cells.values()) == {MOST_IN_A_CELL}
        assert list(counts.cells) == list(range(10))

    def test_at_most(self) -> None:
        """The first ones are kept."""
        assert at_most(Counts({3: 2, 5: 2, 9: 1}), 3).cells == {3: 2, 5: 1}
        assert at_most(Counts({3: 2}), 0).cells == {}

    def test_a_trigger_that_stands_still_is_refused(self) -> None:
        """It would be counted for ever."""

        class Still:
            def next_after(self, t: datetime) -> datetime:
                return t

        with pytest.raises(ValueError, match="its due time after"):
            counts_of(Still(), DAY)  # type: ignore[arg-type]  # only what is asked of it


class TestTally:
    def test_buckets_are_aligned_to_the_hour(self) -> None:
        """The first bucket began before now; what was due in it by now is not counted."""
        snapshot = counted(view(schedule_config={"minutes": 1}))
        assert snapshot.start == START
        assert snapshot.kinds["task"] == [6] + [10] * 143

    def test_kinds_are_apart_and_peaks_are_of_all(self) -> None:
        """A pile-up in one minute is seen, though its bucket spans ten."""
        noon = {"schedule_type": "cron", "schedule_config": {"expr": "0 12 * * *"}}
        snapshot = counted(view("a", **noon), view("b", kind="report", **noon), view("c", schedule_config={"hours": 1}))
        assert snapshot.kinds["report"][12] == 1
        assert snapshot.kinds["task"][12] == 2
        first = snapshot.peaks[0]
        assert (first.at, first.count) == (START + timedelta(hours=2), 3)
        assert first.kinds == (("task", 2), ("report", 1))
        assert [peak.at for peak in snapshot.peaks[1:]] == sorted(peak.at for peak in snapshot.peaks[1:])

    def test_only_active_ones_count(self) -> None:
        """The others are told by state."""
        snapshot = counted(*(view(state, state=state) for state in State))
        assert snapshot.left_out == {"paused": 1, "disabled": 1, "completed": 1, "broken": 1}
        assert sum(snapshot.kinds["task"]) == 23

    def test_one_that_cannot_be_computed_stops_nothing(self) -> None:
        """It is counted as such."""
        snapshot = counted(view("a", schedule_type="cron", schedule_config={"expr": "monkey"}), view("b"))
        assert snapshot.left_out == {"uncountable": 1}
        assert (snapshot.counted, sum(snapshot.kinds["task"])) == (2, 23)

    def test_max_fires_is_heeded(self) -> None:
        """Only what is left of it comes, for each schedule of the same spec by itself."""
        snapshot = counted(
            view("a", max_fires=5, run_state=RunState(auto_count=3)),
            view("b", kind="b", max_fires=7),
            view("c", kind="c"),
        )
        assert {kind: sum(counts) for kind, counts in snapshot.kinds.items()} == {"task": 2, "b": 7, "c": 23}

    def test_a_mark_ahead_is_heeded(self) -> None:
        """What is decided already does not come again, and others of the same spec do not inherit that."""
        decided = RunState(last_due=START + timedelta(hours=5))
        snapshot = counted(view("a", run_state=decided), view("b", kind="b"))
        assert {kind: sum(counts) for kind, counts in snapshot.kinds.items()} == {"task": 18, "b": 23}

    def test_specs_that_hash_the_id_are_their_own(self) -> None:
        """Schedules with equal due times share a count; those whose id decides do not."""
        assert spec_of(view("a")) == spec_of(view("b"))
        assert spec_of(view("a")) != spec_of(view("a", end_at=NOW))
        assert spec_of(view(schedule_type="cron", schedule_config={"expr": "H * * * *"})) == ""
        assert spec_of(view(schedule_type="relative_delay", schedule_config={"delay": "1h"})) == ""


class Client:
    """``pages`` of schedules, each given when let. :ivar threads: who asked."""

    def __init__(self, *pages: list[ScheduleView] | Exception) -> None:
        self.pages = list(pages)
        self.let = threading.Semaphore(0)
        self.threads: set[str] = set()

    def find(self, *, after: str = "", limit: int = 100) -> SchedulePage:
        self.threads.add(threading.current_thread().name)
        self.let.acquire(timeout=10)
        index = int(after or 0)
        page = self.pages[index]
        if isinstance(page, Exception):
            raise page
        return SchedulePage(page, str(index + 1) if index + 1 < len(self.pages) else "")

    @staticmethod
    def trigger_of(view: ScheduleView) -> Trigger:
        return trigger_from(view)


class TestTimeline:
    def test_asking_never_waits(self) -> None:
        """A count grows page by page in a thread of its own, is kept for five minutes, then begun anew."""
        client, clock = Client([view("a")], [view("b"), view("c")]), FakeClock(NOW)
        timeline = Timeline(lambda: client, clock)
        first = timeline.snapshot()
        assert (first.counted, first.complete) == (0, False)
        client.let.release()
        wait_until(lambda: timeline.snapshot().counted == 1, "the first page")
        assert not timeline.snapshot().complete
        client.let.release()
        wait_until(lambda: timeline.snapshot().complete, "the count")
        assert timeline.snapshot().counted == 3
        assert client.threads == {"parrot-timeline"}

        clock.advance(KEPT - 1)
        assert timeline.snapshot().complete
        clock.advance(1)
        anew = timeline.snapshot()
        assert (anew.complete, anew.as_of) == (False, NOW + timedelta(seconds=KEPT))
        client.let.release(2)
        wait_until(lambda: timeline.snapshot().complete, "the second count")

    def test_nobody_waits_for_a_trigger_that_takes_long(self) -> None:
        """Those of the code may be the user's; requests that stood behind one would use up all threads."""
        begun, go_on = threading.Event(), threading.Event()

        class Thinking(Client):
            @staticmethod
            def trigger_of(view: ScheduleView) -> Trigger:
                begun.set()
                assert go_on.wait(10)
                return trigger_from(view)

        client = Thinking([view("a")])
        client.let.release()
        timeline = Timeline(lambda: client, FakeClock(NOW))
        timeline.snapshot()
        assert begun.wait(10)
        asked = threading.Thread(target=timeline.snapshot, daemon=True)
        asked.start()
        asked.join(5)
        answered = not asked.is_alive()
        go_on.set()
        assert answered
        wait_until(lambda: timeline.snapshot().complete, "the count")

    def test_a_store_out_of_reach(self) -> None:
        """The count says why it ended, and is begun anew a little later."""
        client, clock = Client([view("a")], Unreachable("redis://:hunter2@cache/0: no answer")), FakeClock(NOW)
        timeline = Timeline(lambda: client, clock)
        client.let.release(2)
        wait_until(lambda: timeline.snapshot().failed, "the failure")
        failed = timeline.snapshot()
        assert (failed.failed, failed.complete, failed.counted) == ("redis://:**@cache/0: no answer", False, 1)
        client.pages[1] = [view("b")]
        client.let.release(2)
        assert timeline.snapshot().failed
        clock.advance(TRIED_AGAIN)
        wait_until(lambda: timeline.snapshot().complete, "the second try")

    def test_others_get_their_turn(self) -> None:
        """After each page it rests in proportion to what the page took."""
        clock, rests = FakeClock(NOW), []

        class Resting(FakeClock):
            def sleep(self, seconds: float) -> None:
                rests.append(seconds)

        resting = Resting(source=clock)

        class Slow(Client):
            def find(self, *, after: str = "", limit: int = 100) -> SchedulePage:
                clock.advance(0.25)
                return super().find(after=after, limit=limit)

        client = Slow([view("a")], [view("b")], [view("c")])
        client.let.release(3)
        timeline = Timeline(lambda: client, resting)
        wait_until(lambda: timeline.snapshot().complete, "the count")
        assert rests == [0.25 * REST, 0.25 * REST]
