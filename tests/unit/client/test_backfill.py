"""``parrot.schedules.backfill``."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from celery_parrot import InvalidSchedule
from celery_parrot.client import Backfill
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.model.plan import NotFired
from celery_parrot.planning import around
from celery_parrot.protocols import Delivery, Lease, Outcome, Timing
from celery_parrot.testing import ManualBeat
from celery_parrot.triggers import build
from tests.unit.client.conftest import World
from tests.unit.client.why_world import BEGIN, Night, at, defined

MINUTES = ("by the minute", "interval", {"minutes": 1})


class Work:
    """A beat and a worker who do their part whenever the backfill tells how far it has come.

    :ivar active: the most that were on their way at once. ``order``: the due times, as they were sent.
    """

    def __init__(self, beat: ManualBeat, coordinator: Any, status: Status = Status.SUCCESS, *, after: int = 0) -> None:
        self.beat, self.coordinator, self.status, self.after = beat, coordinator, status, after
        self.seen: list[Backfill] = []
        self.order: list[datetime] = []

    def __call__(self, state: Backfill) -> None:
        self.seen.append(state)
        self.beat.ticker.woken()
        self.beat.tick()
        done = len(self.order)
        for message in self.beat.sent:
            header = message.headers["parrot"]
            key = FireKey(header["schedule_id"], datetime.fromisoformat(header["due_at"]), header.get("nonce", ""))
            if header["origin"] == "backfill" and key.due_at not in self.order:
                self.order.append(key.due_at)
                delivery = Delivery(
                    key=key, name=header["name"], kind="task", token="t", worker="w", origin=Origin.BACKFILL,
                    attempt=header["attempt"],
                )  # fmt: skip
                self.coordinator.start([delivery])
                self.coordinator.finish([Outcome(lease=Lease(key, "t"), status=self.status)])
        if self.after and done < self.after <= len(self.order):
            raise KeyboardInterrupt

    @property
    def active(self) -> int:
        return max(len(state.active) for state in self.seen)


@pytest.fixture
def night() -> Night:
    """One schedule by the minute; its beat was away from 03:00 to 03:20, so that what was due until then was missed
    but for the latest."""
    night = Night(defined(*MINUTES, misfire_grace=60.0))
    night.until("03:00")
    night.away_until("03:20:30")
    night.until("03:22")
    return night


def _entries(night: Night) -> dict[str, tuple[str, int]]:
    """What the history says: due times with a status, and how many they are."""
    return {
        f"{one.due_at:%H:%M}" + (f"-{one.until:%H:%M}" if one.until else ""): (str(one.status), one.count)
        for one in reversed(night.client.fires("by the minute"))
    }


def _minutes(*texts: str) -> tuple[datetime, ...]:
    return tuple(at(text) for text in texts)


def test_the_gap(night: Night) -> None:
    """Before anything: what the others build on."""
    assert _entries(night) == {
        "02:59": ("sent", 1), "03:00": ("sent", 1), "03:01-03:19": ("missed", 19), "03:20": ("sent", 1),
        "03:21": ("sent", 1), "03:22": ("sent", 1),
    }  # fmt: skip


def test_a_dry_run_only_tells(night: Night) -> None:
    """Which would fire, both ends included; nothing is written."""
    before = night.client.fires("by the minute")
    told = night.client.backfill("by the minute", at("02:59"), at("03:03"), dry_run=True)
    assert (told.due_times, told.fired, told.asked, told.dry_run) == (_minutes("03:01", "03:02", "03:03"), 2, 0, True)
    assert night.client.fires("by the minute") == before


def test_missed_ones_become_fires(night: Night) -> None:
    """Each once, one after the other; every due time stays in the history once."""
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", at("03:03"), at("03:05"), progress=work)
    assert (done.asked, dict(done.outcomes), done.active, done.ended) == (3, {"success": 3}, (), 3)
    assert work.order == list(_minutes("03:03", "03:04", "03:05"))
    assert work.active == 1
    assert _entries(night) == {
        "02:59": ("sent", 1), "03:00": ("sent", 1), "03:01-03:02": ("missed", 2), "03:03": ("success", 1),
        "03:04": ("success", 1), "03:05": ("success", 1), "03:06-03:19": ("missed", 14), "03:20": ("sent", 1),
        "03:21": ("sent", 1), "03:22": ("sent", 1),
    }  # fmt: skip
    state = night.client.get("by the minute").run_state
    assert (state.run_count, state.auto_count) == (8, 5)


def test_reverse_and_several_at_once(night: Night) -> None:
    """The latest first; never more on their way than allowed, and asked for one at a time."""
    work = Work(night.beat, night.coordinator)
    work.after = 0
    idle: list[Backfill] = []
    night.client.backfill("by the minute", at("03:10"), at("03:12"), reverse=True, progress=work)
    assert work.order == list(_minutes("03:12", "03:11", "03:10"))
    with pytest.raises(StopAsking):
        night.client.backfill("by the minute", at("03:01"), at("03:09"), max_active=3, progress=_stop_when(3, idle))
    assert [len(state.active) for state in idle] == [0, 1, 2, 3]


class StopAsking(Exception):
    pass


def _stop_when(active: int, seen: list[Backfill]) -> Callable[[Backfill], None]:
    def progress(state: Backfill) -> None:
        seen.append(state)
        if len(state.active) == active:
            raise StopAsking

    return progress


def test_stopped_it_goes_on_where_it_stopped(night: Night) -> None:
    """What was asked for runs; nothing runs twice."""
    work = Work(night.beat, night.coordinator, after=4)
    with pytest.raises(KeyboardInterrupt):
        night.client.backfill("by the minute", at("03:01"), at("03:10"), progress=work)
    again = Work(night.beat, night.coordinator)
    again.order = list(work.order)
    done = night.client.backfill("by the minute", at("03:01"), at("03:10"), progress=again)
    assert (done.fired, done.asked) == (4, 6)
    assert again.order == [at("03:00") + timedelta(minutes=n) for n in range(1, 11)]


def test_stopped_from_another_thread(night: Night) -> None:
    """Nothing more is asked for, and how far it has come is the answer."""
    stop = Event()
    work = Work(night.beat, night.coordinator)

    def progress(state: Backfill) -> None:
        work(state)
        if len(work.order) == 4:
            stop.set()

    state = night.client.backfill("by the minute", at("03:01"), at("03:10"), progress=progress, stop=stop)
    assert (state.asked, len(state.due_times)) == (4, 10)


def test_it_ends_at_the_mark(night: Night) -> None:
    """What comes after is the schedule's own, also with an end in the future, or none."""
    for end in (None, at("05:00")):
        told = night.client.backfill("by the minute", at("03:15"), end, dry_run=True)
        assert told.end == at("03:22")
        assert told.due_times == _minutes("03:15", "03:16", "03:17", "03:18", "03:19")
    told = night.client.backfill("by the minute", at("04:00"), at("05:00"), dry_run=True)
    assert (told.due_times, told.end) == ((), None)


def test_due_times_before_the_schedule_was_there(night: Night) -> None:
    """Nobody decided them, so they have not fired."""
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", at("02:50"), at("02:51"), progress=work)
    assert work.order == list(_minutes("02:50", "02:51"))
    assert done.outcomes == {"success": 2}


def test_failures_are_counted(night: Night) -> None:
    work = Work(night.beat, night.coordinator, Status.ERROR)
    done = night.client.backfill("by the minute", at("03:01"), at("03:02"), progress=work)
    assert done.outcomes == {"error": 2}
    done = night.client.backfill("by the minute", at("03:01"), at("03:02"), dry_run=True)
    assert (done.due_times, done.fired) == ((), 2)  # it has run: whoever wants it again has run-now


def test_what_never_started_is_filled(night: Night) -> None:
    """As the next attempt of the same fire."""
    night.clock.advance(timedelta(days=1, seconds=60).total_seconds())
    for _ in range(20):  # a silence is forgiven first
        night.coordinator.reap()
        night.clock.advance(1)
    assert _entries(night)["03:20"] == ("unknown", 1)
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", at("03:20"), at("03:20"), progress=work)
    assert done.outcomes == {"success": 1}
    (entry,) = [one for one in night.client.fires("by the minute") if one.due_at == at("03:20")]
    assert (entry.attempt, entry.status, entry.origin) == (2, "success", "backfill")


def test_a_paused_schedule_is_filled(night: Night) -> None:
    """A person asked for it."""
    night.client.pause("by the minute")
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", at("03:01"), at("03:01"), progress=work)
    assert done.outcomes == {"success": 1}


def test_older_than_the_history() -> None:
    """Refused, unless forced: then under an id of its own, which is remembered like any."""
    night = Night(defined(*MINUTES), timing=Timing(history_days=1))
    night.until("03:00")
    old = BEGIN - timedelta(days=2)
    with pytest.raises(InvalidSchedule, match="older than the history, which is kept from 2026-03-01T03:00:00"):
        night.client.backfill("by the minute", old, old, dry_run=True)
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", old, old, force=True, progress=work)
    assert done.outcomes == {"success": 1}
    (message,) = [one for one in night.beat.sent if one.headers["parrot"]["origin"] == "backfill"]
    assert message.headers["parrot"]["nonce"] == "forced"
    again = night.client.backfill("by the minute", old, old, force=True)
    assert (again.asked, again.left_out) == (1, 1)


def test_a_full_history_is_known_from_its_oldest_entry_on() -> None:
    """What was before it may have been there and gone."""
    night = Night(defined(*MINUTES), timing=Timing(history_limit=5))
    night.until("03:05")
    oldest = night.client.fires("by the minute")[-1].due_at
    with pytest.raises(InvalidSchedule, match="older than the history"):
        night.client.backfill("by the minute", oldest - timedelta(minutes=1), dry_run=True)
    assert night.client.backfill("by the minute", oldest, dry_run=True).due_times == ()


def test_a_coordinator_out_of_reach(night: Night) -> None:
    """It is asked again, also where the answer was lost: that fire is not left out, nor asked for twice."""
    demand = night.coordinator.demand
    left = [2]

    def lossy(demands: Any) -> Any:
        answer = demand(demands)
        if left[0]:
            left[0] -= 1
            raise Unreachable("the connection broke")
        return answer

    night.coordinator.demand = lossy  # type: ignore[method-assign,assignment]
    work = Work(night.beat, night.coordinator)
    done = night.client.backfill("by the minute", at("03:01"), at("03:02"), progress=work)
    assert (done.asked, done.left_out, dict(done.outcomes)) == (2, 0, {"success": 2})


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"start": "soon"}, "start"),
        ({"start": None}, "start"),
        ({"end": "2026-13-01"}, "end"),
        ({"start": "2026-03-02T03:00", "end": "2026-03-02T02:00"}, "end"),
        ({"max_active": 0}, "max_active"),
        ({"start": "2020-01-01"}, "end"),
    ],
)
def test_wrong_input(night: Night, given: dict[str, Any], field: str) -> None:
    """The field at fault is named."""
    with pytest.raises(InvalidSchedule) as told:
        night.client.backfill("by the minute", **{"start": "2026-03-02", **given})
    assert told.value.field == field


def test_instants_are_read_in_the_schedules_zone() -> None:
    """And a day as an end is all of it."""
    night = Night(defined("madrid", "daily", {"hour": 0}, timezone="Europe/Madrid"))
    night.away_until("2026-03-05T12:00")
    night.until("2026-03-05T12:00:05")
    told = night.client.backfill("madrid", "2026-03-03", "2026-03-04", dry_run=True)
    assert told.due_times == (datetime(2026, 3, 2, 23, tzinfo=UTC), datetime(2026, 3, 3, 23, tzinfo=UTC))


def test_jitter_is_left_out() -> None:
    """Due times are the schedule's own."""
    night = Night(defined(*MINUTES, jitter=50.0))
    night.away_until("03:10:59")
    night.until("03:11")
    told = night.client.backfill("by the minute", at("03:01"), at("03:02"), dry_run=True)
    assert told.due_times == _minutes("03:01", "03:02")


# --- schedules in a database ---


def test_rows(world: World, agreed: Callable[[World], None]) -> None:
    """Their history is in the database: it learns of the fires while they are pending, and its rows are split."""
    agreed(world)
    made = world.client.create(name="a", target="t.known", schedule_type="interval", schedule_config={"minutes": 1})
    beat = ManualBeat(
        world.coordinator, [world.db], clock=world.clock, namespace=world.coordinator.namespace, rows=[world.db]
    )
    beat.tick()
    world.clock.advance(1800)
    for _ in range(4):
        beat.tick()
        world.clock.advance(1)
    gap = max(world.client.fires("a"), key=lambda one: one.count)
    assert gap.until is not None
    assert gap.count > 20
    first = gap.due_at + timedelta(minutes=5)
    work = Work(beat, world.coordinator)
    done = world.client.backfill("a", first, first + timedelta(minutes=1), progress=work)
    assert done.outcomes == {"success": 2}
    for _ in range(3):
        world.clock.advance(1)
        beat.tick()
    entries = [(one.due_at, one.until, one.count, str(one.status)) for one in world.client.fires("a")][::-1]
    second, rest = first + timedelta(minutes=1), first + timedelta(minutes=2)
    assert entries[:4] == [
        (gap.due_at, first - timedelta(minutes=1), 5, "missed"),
        (first, None, 1, "success"),
        (second, None, 1, "success"),
        (rest, gap.until, gap.count - 7, "missed"),
    ]
    state = world.client.get("a").run_state
    assert (state.run_count, state.auto_count) == (len(beat.sent), len(beat.sent) - 2)
    assert world.client.backfill("a", first, second, dry_run=True).fired == 2
    assert made.run_state.last_due != state.last_due


# --- what is left of an entry ---


@pytest.mark.parametrize(
    ("n", "left"),
    [(0, [(1, 4)]), (1, [(0, 0), (2, 4)]), (2, [(0, 1), (3, 4)]), (3, [(0, 2), (4, 4)]), (4, [(0, 3)])],
)
def test_around(n: int, left: list[tuple[int, int]]) -> None:
    """Both parts end at due times, and nothing is lost."""
    trigger = build("interval", {"minutes": 1})
    run = NotFired(Status.MISSED, "too_late", BEGIN, BEGIN + timedelta(minutes=4), 5)
    parts = [part for part in around(trigger, run, BEGIN + timedelta(minutes=n)) if part is not None]
    assert [(part.first, part.last, part.count) for part in parts] == [
        (BEGIN + timedelta(minutes=a), BEGIN + timedelta(minutes=b), b - a + 1) for a, b in left
    ]


@pytest.mark.parametrize("trigger", [None, build("interval", {"hours": 7})])
def test_around_by_another_definition(trigger: Any) -> None:
    """It was edited or deleted since: nothing outside the entry is claimed, and no part is empty."""
    run = NotFired(Status.MISSED, "too_late", BEGIN, BEGIN + timedelta(minutes=4), 5)
    before, after = around(trigger, run, BEGIN + timedelta(minutes=2))
    assert before is not None
    assert after is not None
    assert before.first == run.first
    assert before.last < BEGIN + timedelta(minutes=2) < after.first
    assert after.last == run.last
    assert before.count + after.count == 4
