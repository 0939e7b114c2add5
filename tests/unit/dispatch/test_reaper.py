"""Looking for fires without a sign of life: how often, what is said, and that it keeps nothing else from its work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from celery_parrot.dispatch import reaper
from celery_parrot.dispatch.reaper import Reaper
from celery_parrot.dispatch.telling import Teller
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model import events
from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.protocols import Coordinator, Reaped
from celery_parrot.testing import FakeClock, RecordingEvents
from tests.simulation.rig import NAMESPACE, Rig, every, sent, wire_of

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def _reaped(status: Status = Status.ABANDONED, reason: str = "worker lost", **more: Any) -> Reaped:
    fire = Fire(
        key=FireKey("s", NOW), name="s", kind="agent", status=status, reason=reason, owned_at=NOW, committed_at=NOW,
        worker="w1@host", attempt=2 if more.get("again") else 1,
    )  # fmt: skip
    return Reaped(fire=fire, **more)


class Scripted:
    """A coordinator that only reaps."""

    def __init__(self) -> None:
        self.calls: list[bool] = []
        self.answer: Sequence[Reaped] = ()
        self.fault: Exception | None = None

    def reap(self, *, limit: int, holding: bool = False) -> Sequence[Reaped]:
        self.calls.append(holding)
        if self.fault is not None:
            raise self.fault
        return self.answer[:limit]


class Limiting(Scripted):
    """One that keeps limits besides."""

    def request(self, requests: object) -> None: ...


class Scene:
    def __init__(self, coordinator: Scripted) -> None:
        self.coordinator, self.clock, self.told = coordinator, FakeClock(), RecordingEvents()
        real = cast(Coordinator, coordinator)
        self.reaper = Reaper(real, self.clock, self.told, Teller(NAMESPACE, self.told), 30.0)

    def ticks(self, seconds: int) -> None:
        for _ in range(seconds):
            self.reaper.run()
            self.clock.advance(1)


def test_what_holds_limits_is_judged_every_second_and_all_of_it_every_interval() -> None:
    scene = Scene(Limiting())
    scene.ticks(60)
    assert scene.coordinator.calls == [False] + [True] * 29 + [False] + [True] * 29


def test_it_is_not_asked_more_often_than_that() -> None:
    scene = Scene(Limiting())
    for _ in range(20):
        scene.reaper.run()
        scene.clock.advance(0.1)
    assert len(scene.coordinator.calls) == 2


def test_without_limits_nobody_waits_for_it() -> None:
    scene = Scene(Scripted())
    scene.ticks(60)
    assert scene.coordinator.calls == [False, False]


@pytest.mark.parametrize("fault", [Unreachable("gone"), RuntimeError("odd")])
def test_a_fault_is_said_once_and_tried_again_in_its_time(fault: Exception) -> None:
    scene = Scene(Limiting())
    scene.coordinator.fault = fault
    scene.ticks(10)
    assert len(scene.coordinator.calls) == 10
    (event,) = scene.told.events
    assert (event.name, event.level) == (reaper.REAPER_FAILED, logging.ERROR)
    scene.coordinator.fault = None
    scene.ticks(1)
    scene.coordinator.fault = fault
    scene.ticks(3)
    assert len(scene.told.events) == 2


def test_a_loss_of_memory_is_the_ticks_to_mend() -> None:
    scene = Scene(Limiting())
    scene.coordinator.fault = MemoryLost("gone")
    with pytest.raises(MemoryLost):
        scene.reaper.run()


@pytest.mark.parametrize(
    ("reaped", "name", "level", "text"),
    [
        (_reaped(), events.FIRE_REAPED, logging.ERROR, "abandoned: worker lost, worker w1@host"),
        (_reaped(reason="silent"), events.FIRE_REAPED, logging.ERROR, "abandoned: silent, worker w1@host"),
        (
            _reaped(Status.PENDING, again=True), events.FIRE_REAPED, logging.WARNING,
            "worker lost, worker w1@host; sent again as attempt 2",
        ),
        (
            _reaped(Status.EXPIRED, "queue deadline"), events.FIRE_EXPIRED, logging.WARNING,
            "expired (queue deadline): it was never started",
        ),
        (
            _reaped(Status.ERROR, "expired waiting for group gpu"), events.FIRE_EXPIRED, logging.ERROR,
            "error (expired waiting for group gpu): it was never started",
        ),
        (
            _reaped(Status.UNKNOWN, ""), reaper.FIRE_UNKNOWN, logging.WARNING,
            "outcome unknown: no worker reported a start",
        ),
    ],
)  # fmt: skip
def test_each_end_is_said_in_its_own_words(reaped: Reaped, name: str, level: int, text: str) -> None:
    scene = Scene(Limiting())
    scene.coordinator.answer = [reaped]
    scene.reaper.run()
    (event,) = scene.told.events
    assert (event.name, event.level) == (name, level)
    assert event.text == f"s due {NOW.isoformat()}: {text}"
    assert event.fields["fire_id"] == NAMESPACE.fire_id(reaped.fire.key)


def test_a_wave_of_them_is_not_a_wave_of_log_lines() -> None:
    scene = Scene(Limiting())
    scene.coordinator.answer = [_reaped()] * 180
    scene.reaper.run()
    assert len(scene.told.events) == 51
    fields = {"kind": "agent", "status": "abandoned", "reason": "worker lost", "count": 130}
    assert scene.told.events[-1].fields == fields


def test_a_full_page_means_that_there_may_be_more() -> None:
    scene = Scene(Limiting())
    scene.coordinator.answer = [_reaped()] * 1000
    scene.reaper.run(), scene.reaper.run()
    assert scene.coordinator.calls == [False, False]


@pytest.mark.parametrize(
    ("reaped", "news"),
    [(_reaped(), False), (_reaped(named=(FireKey("t", NOW),)), True), (_reaped(Status.PENDING, again=True), True)],
)
def test_it_says_whether_somebodys_turn_has_come(reaped: Reaped, news: bool) -> None:
    scene = Scene(Limiting())
    scene.coordinator.answer = [reaped]
    assert scene.reaper.run() is news


# --- in a tick --------------------------------------------------------------------------------------------------------


def test_a_reaper_at_fault_delays_no_fire() -> None:
    rig = Rig()
    beat = rig.beat("B1", every(5))
    wire = wire_of(beat)
    wire.client.reap = _raise  # type: ignore[method-assign]
    beat.run(21)
    assert sent(beat) == [rig.key(seconds) for seconds in (5, 10, 15, 20)]
    assert beat.ticker.health().status == "ok"


def test_a_turn_that_the_reaper_freed_is_seen_to_at_once() -> None:
    rig = Rig()
    beat = rig.beat("B1", every(3600))
    beat.tick()
    rig.clock.advance(5)
    reap: Callable[..., Sequence[Reaped]] = lambda **_: [_reaped(named=(FireKey("t", NOW),))]  # noqa: E731
    wire_of(beat).client.reap = reap  # type: ignore[method-assign]
    assert beat.tick() == 0.0
    before = wire_of(beat).calls.count("sweep")
    beat.tick()
    assert wire_of(beat).calls.count("sweep") == before + 1


def _raise(**_: object) -> Sequence[Reaped]:
    raise RuntimeError("a bug")
