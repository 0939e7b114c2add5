"""Several stores as one; a store that fails is reported and left out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.dispatch.stores import Stores
from celery_parrot.model import events
from celery_parrot.protocols import Mark
from celery_parrot.stores.memory import CodeStore
from celery_parrot.testing import FakeClock, RecordingEvents
from tests.simulation.rig import START, every

KINDS = ("task",)
NOW = START + timedelta(minutes=5)


class Flaky(CodeStore):
    """Fails every read while :attr:`error` is set."""

    def __init__(self, name: str, *definitions: Any) -> None:
        super().__init__(definitions)
        self.name = name
        self.error: Exception | None = None

    def _check(self) -> None:
        if self.error is not None:
            raise self.error

    def due(self, *args: Any) -> Sequence[Any]:
        self._check()
        return super().due(*args)

    def next_due(self, *args: Any) -> datetime | None:
        self._check()
        return super().next_due(*args)

    def registrations(self) -> Sequence[Any]:
        self._check()
        return super().registrations()


@pytest.fixture
def sink() -> RecordingEvents:
    return RecordingEvents()


def _learned(stores: Stores) -> Stores:
    stores.learn([Mark(schedule_id=name, last_due=START) for name in ("a", "b")])
    return stores


def test_all_stores_are_one(sink: RecordingEvents) -> None:
    """What is due, the earliest next instant, definitions and marks of both."""
    first, second = Flaky("one", every(60, "a")), Flaky("two", every(7, "b"))
    stores = Stores([first, second], sink, FakeClock())
    assert [one.schedule_id for one in stores.registrations()] == ["a", "b"]
    _learned(stores)
    assert [due.schedule.schedule_id for due in stores.due(NOW, KINDS, 10)] == ["a", "b"]
    assert stores.next_due(KINDS) == datetime(2026, 1, 1, 10, 0, 1, tzinfo=UTC)
    assert set(stores.definitions({"a", "b", "c"})) == {"a", "b"}
    assert [mark.schedule_id for mark in stores.remembered()[1]] == ["a", "b"]
    stores.forget_marks()
    assert stores.due(NOW, KINDS, 10) == []


def test_a_failing_store_never_stops_the_others(sink: RecordingEvents) -> None:
    """Reported when it begins and when it is over, not each time."""
    first, second = Flaky("one", every(60, "a")), Flaky("two", every(60, "b"))
    clock = FakeClock()
    stores = _learned(Stores([first, second], sink, clock))
    first.error = OSError("disk")
    for _ in range(3):
        assert [due.schedule.schedule_id for due in stores.due(NOW, KINDS, 10)] == ["b"]
        clock.advance(4)
    assert stores.failing == {"one": 12.0}
    first.error = None
    assert len(stores.due(NOW, KINDS, 10)) == 2
    assert stores.failing == {}
    said = [event.text for event in sink.named(events.STORE_FAILED)]
    assert said == ["store one cannot be asked, its schedules wait: OSError: disk", "store one is back"]


def test_no_store_at_all(sink: RecordingEvents) -> None:
    """Nothing is due, now or ever."""
    stores = Stores([], sink, FakeClock())
    assert stores.due(NOW, KINDS, 10) == []
    assert stores.next_due(KINDS) is None
    assert stores.remembered() == ([], [])
