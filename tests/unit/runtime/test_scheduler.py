"""The scheduler class as Celery's service drives it: no processes, a clock driven by hand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery
from celery.beat import Service
from celery.schedules import crontab

from celery_parrot import Parrot, ParrotScheduler
from celery_parrot.runtime.scheduler import SLICE
from celery_parrot.testing import FakeClock, RecordingSender

START = datetime(2026, 1, 1, tzinfo=UTC)


def make_app(**settings: Any) -> Celery:
    app = Celery("test", set_as_current=False, broker="memory://")
    app.conf.update({"result_expires": None, **settings})
    return app


class Driven:
    """A scheduler over a fake clock, and the messages it sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, max_interval: Any = None, **settings: Any) -> None:
        self.clock = FakeClock(START)
        self.sent = RecordingSender()
        monkeypatch.setattr("celery_parrot.runtime.wiring.CelerySender", lambda *_: self.sent)
        self.app = make_app(**settings)
        Parrot(self.app, clock=self.clock)
        self.scheduler = ParrotScheduler(self.app, max_interval=max_interval)

    def run(self, seconds: float) -> None:
        """Tick, as the service would, until ``seconds`` have passed (waiting moves the clock)."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            assert self.scheduler.tick() == 0.0

    @property
    def ids(self) -> list[str]:
        return [message.headers["parrot"]["schedule_id"] for message in self.sent.sent]


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made: list[Driven] = []

    def make(**settings: Any) -> Driven:
        made.append(Driven(monkeypatch, **settings))
        return made[-1]

    yield make
    for one in made:
        one.scheduler.close()


def test_it_sends_what_is_due_when_it_is_due(drive: Any) -> None:
    driven = drive(beat_schedule={"it": {"task": "t", "schedule": 10.0}})
    driven.run(9)
    assert driven.ids == []
    driven.run(22)
    assert driven.ids == ["it", "it", "it"]
    dues = [message.headers["parrot"]["due_at"] for message in driven.sent.sent]
    assert dues == [f"2026-01-01T00:00:{second}+00:00" for second in (10, 20, 30)]


def test_one_tick_waits_for_a_part_of_a_second_only(drive: Any) -> None:
    """So that Celery's service notices a stop that reaches it in another way than by a signal."""
    driven = drive()
    before = driven.clock.monotonic()
    driven.scheduler.tick()
    assert driven.clock.monotonic() - before <= SLICE


def test_max_interval_bounds_the_sleep(drive: Any) -> None:
    driven = drive(max_interval=0.1)
    ticks: list[float] = []
    beat = driven.scheduler._beat
    assert beat is not None
    real = beat.ticker.tick

    def tick() -> float:
        ticks.append(driven.clock.monotonic())
        return float(real())

    beat.ticker.tick = tick
    driven.run(2)
    assert len(ticks) >= 19
    assert max(later - earlier for earlier, later in pairwise(ticks)) <= 0.11


def test_the_defaults_of_celery_for_the_interval_are_kept() -> None:
    assert ParrotScheduler(make_app(), lazy=True).max_interval == 1
    assert ParrotScheduler(make_app(), max_interval=7, lazy=True).max_interval == 7
    assert ParrotScheduler(make_app(beat_max_loop_interval=9), lazy=True).max_interval == 9


def test_lazy_sets_nothing_up_and_shows_the_banner_lines() -> None:
    app = make_app(broker_url="redis://:s3cret@h/0", parrot_name="billing")
    scheduler = ParrotScheduler(app, lazy=True)
    assert scheduler._beat is None
    assert "coordination -> redis (redis://:**@h/0)" in scheduler.info
    assert "registered name -> billing" in scheduler.info
    assert "s3cret" not in scheduler.info


def test_a_bad_setting_is_one_critical_line_and_exit_code_1(caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(parrot_sync_interval=30)
    assert "cannot start: parrot_sync_interval = 30" in ParrotScheduler(app, lazy=True).info
    with pytest.raises(SystemExit) as stopped:
        ParrotScheduler(app)
    assert stopped.value.code == 1
    (record,) = caplog.records
    assert (record.levelname, record.exc_info) == ("CRITICAL", None)
    assert "parrot_sync_interval = 30" in record.getMessage()


def test_a_grace_of_an_entry_longer_than_a_claim_stops_the_start(caplog: pytest.LogCaptureFixture) -> None:
    entries = {"weekly": {"task": "t", "schedule": 5, "misfire_grace": 100_000}}
    with pytest.raises(SystemExit):
        ParrotScheduler(make_app(beat_schedule=entries))
    assert "parrot_fire_lock_ttl = 86400.0: is shorter than the longest misfire_grace (100000 s, weekly)" in caplog.text


def test_one_ready_line(drive: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "celery_parrot")
    entries = {"good": {"task": "t", "schedule": 5}, "bad": {"task": "t", "schedule": "x"}}
    drive(beat_schedule=entries, parrot_kinds={"agent": {"task": "t.agent"}}).run(3)
    ready = [record for record in caplog.records if getattr(record, "event", "") == "beat-ready"]
    assert [record.getMessage() for record in ready] == [
        "beat ready: scheduler_manager, coordination none (this process only), 1 schedules (1 broken), kinds agent task"
    ]
    broken = [record.getMessage() for record in caplog.records if getattr(record, "event", "") == "schedule-broken"]
    assert len(broken) == 1
    assert broken[0].startswith("bad: broken, all others run: schedule = 'x'")


def test_what_others_keep_in_the_process_is_left_to_the_collector(drive: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A beat that is a thread of a worker is a guest there."""
    frozen: list[str] = []
    monkeypatch.setattr("gc.freeze", lambda: frozen.append(threading.current_thread().name))
    guest = threading.Thread(target=drive().run, args=(1,), name="guest")
    guest.start()
    guest.join()
    assert frozen == []
    drive().run(1)
    assert frozen == [threading.main_thread().name]


def test_the_schedule_is_there_to_be_looked_at(drive: Any) -> None:
    driven = drive(
        beat_schedule={"a": {"task": "t", "schedule": crontab(minute="5"), "timezone": "UTC"}, "b": "broken"}
    )
    assert list(driven.scheduler.schedule) == ["a"]
    assert driven.scheduler.schedule["a"].task == "t"


def test_schedules_may_be_added_while_it_runs(drive: Any) -> None:
    driven = drive()
    driven.run(1)
    entry = driven.scheduler.add(name="late", task="t", schedule=5.0, options={"queue": "q"})
    assert entry.name == "late"
    driven.run(6)
    assert "late" in driven.ids
    driven.scheduler.update_from_dict({"late": {"task": "t", "schedule": 3600.0}})
    count = len(driven.ids)
    driven.run(20)
    assert len(driven.ids) == count


def test_lazy_arguments_are_evaluated_for_each_fire(drive: Any) -> None:
    from celery.beat import BeatLazyFunc

    numbers = iter(range(100))
    lazy = BeatLazyFunc(lambda: next(numbers))
    driven = drive(beat_schedule={"it": {"task": "t", "schedule": 1.0, "args": [lazy], "kwargs": {"n": lazy}}})
    driven.run(3)
    assert [message.args[0] for message in driven.sent.sent[:2]] == [0, 2]
    assert [message.kwargs["n"] for message in driven.sent.sent[:2]] == [1, 3]


def test_a_bug_in_a_tick_does_not_end_the_beat(drive: Any, caplog: pytest.LogCaptureFixture) -> None:
    driven = drive(beat_schedule={"it": {"task": "t", "schedule": 1.0}})
    beat = driven.scheduler._beat
    assert beat is not None
    real, failures = beat.ticker.tick, [ZeroDivisionError("oops")]

    def tick() -> float:
        if failures:
            raise failures.pop()
        return float(real())

    beat.ticker.tick = tick
    driven.run(4)
    assert "it" in driven.ids
    assert "a tick failed" in caplog.text


# --- ending ---


def test_close_leaves_and_may_be_repeated(drive: Any) -> None:
    driven = drive()
    driven.run(1)
    beat = driven.scheduler._beat
    assert beat is not None
    assert len(beat.coordinator.beats()) == 1
    driven.scheduler.close()
    driven.scheduler.close()
    assert driven.sent.closed
    assert beat.coordinator.beats() == () or list(beat.coordinator.beats()) == []
    assert driven.scheduler.tick() > 0


def test_a_close_from_a_signal_handler_in_the_middle_of_a_tick_waits_for_its_end(drive: Any) -> None:
    """Celery closes in its handler, raises SystemExit out of the tick, and closes again."""
    driven = drive()
    beat = driven.scheduler._beat
    assert beat is not None

    def tick() -> float:
        driven.scheduler.close()
        assert driven.scheduler._beat is beat
        raise SystemExit

    beat.ticker.tick = tick
    with pytest.raises(SystemExit):
        driven.scheduler.tick()
    driven.scheduler.close()
    assert driven.sent.closed


def test_the_scheduler_is_found_by_each_of_its_names() -> None:
    app = make_app()
    names: tuple[Any, ...] = (
        "parrot",
        "celery_parrot:ParrotScheduler",
        "celery_parrot.runtime.scheduler:ParrotScheduler",
    )
    for name in names:
        service = Service(app, scheduler_cls=name)
        assert isinstance(service.get_scheduler(lazy=True), ParrotScheduler)
