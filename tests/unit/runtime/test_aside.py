"""A database that hangs or is away costs the beat one wait, not one a tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from celery_parrot import StoreUnreachable, Unreachable
from celery_parrot.clock import SystemClock
from celery_parrot.runtime.aside import Aside, Rows
from celery_parrot.testing import FakeClock
from tests.support.waiting import monotonic, wait_until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Backend:
    """Answers, hangs or is away."""

    def __init__(self) -> None:
        self.back = threading.Event()
        self.away = False
        self.asked = 0

    def ask(self) -> str:
        self.asked += 1
        if self.away:
            raise Unreachable("gone")
        return "answer"

    def hang(self) -> str:
        self.back.wait(20)
        return "late"

    def probe(self) -> None:
        self.ask()


@pytest.fixture
def backend() -> Iterator[Backend]:
    made = Backend()
    yield made
    made.back.set()


@pytest.fixture
def aside(backend: Backend) -> Iterator[Aside]:
    made = Aside("db", backend.probe, SystemClock(), patience=0.3)
    yield made
    made.close()


def reachable(aside: Aside, backend: Backend) -> bool:
    try:
        return aside(backend.ask) == "answer"
    except StoreUnreachable:
        return False


def test_it_answers_and_raises_as_the_call_itself(aside: Aside, backend: Backend) -> None:
    assert aside(backend.ask) == "answer"
    with pytest.raises(ZeroDivisionError):
        aside(lambda: 1 // 0)
    assert aside(backend.ask) == "answer"


def test_a_call_that_hangs_is_waited_for_once(aside: Aside, backend: Backend) -> None:
    with pytest.raises(StoreUnreachable, match=r"did not answer within 0\.3 s"):
        aside(backend.hang)
    started = monotonic()
    for _ in range(100):
        with pytest.raises(StoreUnreachable):
            aside(backend.ask)
    assert monotonic() - started < 0.25
    assert backend.asked == 0
    backend.back.set()
    wait_until(lambda: reachable(aside, backend), "it to be back")


def test_one_that_is_away_is_looked_for_in_the_background(aside: Aside, backend: Backend) -> None:
    backend.away = True
    with pytest.raises(StoreUnreachable, match="store db: gone"):
        aside(backend.ask)
    wait_until(lambda: backend.asked >= 2, "a look")
    backend.away = False
    wait_until(lambda: reachable(aside, backend), "it to be back")


class Store:
    """A store whose tables may be missing."""

    name = "db"

    def __init__(self) -> None:
        self.problems: list[str] = ["there is no table service_scheduler"]
        self.looked = 0

    def look(self) -> list[str]:
        self.looked += 1
        return self.problems

    def now(self) -> datetime:
        return NOW

    def due(self, *_: Any) -> list[Any]:
        return ["something"]

    def next_due(self, *_: Any) -> datetime:
        return NOW

    def prune(self, *, limit: int) -> int:
        return limit


def test_tables_that_are_missing_are_named_and_looked_for_now_and_then() -> None:
    store, clock = Store(), FakeClock()
    rows = Rows(store, store.look, clock, aside=lambda work: work())
    for _ in range(10):
        with pytest.raises(StoreUnreachable, match=r"no table service_scheduler \(celery .* parrot db upgrade\)"):
            rows.due(NOW, ["task"], 10)
    assert store.looked == 1
    assert rows.next_due(["task"]) is None
    assert rows.prune(limit=5) == 0
    store.problems = []
    clock.advance(5)
    assert len(rows.due(NOW, ["task"], 10)) == 1
    assert rows.next_due(["task"]) == NOW
    assert rows.prune(limit=5) == 5
    store.problems = ["gone again"]
    clock.advance(60)
    rows.due(NOW, ["task"], 10)
    assert store.looked == 2
