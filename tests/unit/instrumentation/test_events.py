"""Celery events: which leave, with which fields, in batches, and what a broker that is away costs."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.events.receiver import EventReceiver
from celery.events.state import State

from celery_parrot.clock import SystemClock
from celery_parrot.instrumentation import Fan, LogEvents, Metrics
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.runtime.events import CeleryEvents, payload_of
from celery_parrot.runtime.metrics_feed import Feed
from celery_parrot.testing import RecordingEvents
from tests.support.services import free_port
from tests.support.waiting import monotonic

PAGE = (Path(__file__).parents[3] / "docs" / "events.md").read_text()
LOGGED_ONLY = {events.TICK_STARTED, events.TICK_COMPLETED}
OURS = {
    "tick-started", "tick-completed", "fire-claimed", "fire-waiting", "fire-sent", "fire-late", "fire-started",
    "fire-succeeded", "fire-failed", "fire-skipped", "fire-missed", "fire-expired", "fire-reaped", "fire-unrouted",
    "schedule-changed", "schedule-disabled", "schedule-broken",
}  # fmt: skip


def sent(number: int = 0, **fields: Any) -> Event:
    known = {"schedule": "nightly", "kind": "task", "fire_id": f"f{number}", "due_at": "2026-01-01T00:00:00+00:00"}
    return Event(events.FIRE_SENT, logging.INFO, "sent", {**known, **fields})


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("events", broker="memory://", set_as_current=False)
    yield app
    app.close()


def test_every_event_of_the_design_has_a_constant_and_its_line_on_the_page() -> None:
    constants = {value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}
    assert constants >= OURS
    assert events.FOR_CELERY == OURS - LOGGED_ONLY
    table = PAGE.partition("## Fields")[0]
    assert set(re.findall(r"`((?:tick|fire|schedule)-[a-z]+)`", table)) == OURS


def test_every_field_is_on_the_page_and_no_other() -> None:
    table = PAGE.partition("## Fields")[2].partition("Celery adds")[0]
    rows = "".join(line.partition("|")[2].partition("|")[0] for line in table.splitlines() if line.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", rows)) == set(events.PUBLIC_FIELDS)


def test_only_public_fields_leave_as_plain_values() -> None:
    event = sent(args=("secret",), kwargs={"word": "secret"}, error="secret", output="secret", origin=Exception("x"))
    assert payload_of(event) == {**sent().fields, "origin": "x"}
    broken = Event(events.SCHEDULE_BROKEN, logging.ERROR, "", {"schedule": "s", "reason": "args: 'secret' is none"})
    assert payload_of(broken) == {"schedule": "s"}


def test_events_arrive_in_one_message_and_celerys_state_is_not_harmed(app: Celery) -> None:
    with app.connection() as connection:
        state: Any = State()
        found, messages = list[dict[str, Any]](), list[Any]()

        def take(event: dict[str, Any]) -> None:
            found.append(event)
            state.event(event)

        receiver: Any = EventReceiver(connection, {"*": take}, app=app)
        take_in = receiver._receive

        def receive(body: Any, message: Any) -> None:
            messages.append(body)
            take_in(body, message)

        receiver._receive = receive
        receiver.on_consume_ready = lambda *_, **__: None
        capture = receiver.consume(limit=1, timeout=5)
        queue = receiver.queue(connection.default_channel)
        queue.declare()
        sink = CeleryEvents(app, "shop", SystemClock(), hostname="beat@here")
        for number in range(20):
            sink.emit(sent(number))
        sink.emit(Event(events.TICK_STARTED, logging.DEBUG, "tick"))
        assert sink.flush(5)
        assert [*capture] == [None]
    assert len(messages) == 1
    assert [event["fire_id"] for event in found] == [f"f{number}" for number in range(20)]
    assert {(event["type"], event["hostname"], event["scheduler"]) for event in found} == {
        ("fire-sent", "beat@here", "shop")
    }
    assert not state.tasks
    assert not state.workers


def test_flower_leaves_them_aside(app: Celery) -> None:
    """Its state counts them and makes neither tasks nor workers of them."""
    flower = pytest.importorskip("flower.events").EventsState()
    flower.event({"type": "fire-sent", "hostname": "beat@here", "timestamp": 1.0, "local_received": 1.0, "clock": 1})
    flower.event({"type": "schedule-changed", "hostname": "web", "timestamp": 1.0, "local_received": 1.0, "clock": 2})
    assert not flower.tasks
    assert not flower.workers


def test_a_broker_that_is_away_blocks_nobody_and_the_oldest_are_dropped_and_counted() -> None:
    app = Celery("away", broker=f"redis://127.0.0.1:{free_port()}/0", set_as_current=False)
    dropped: list[int] = []
    sink = CeleryEvents(app, "shop", SystemClock(), kept=100, dropped=dropped.append)
    begun = monotonic()
    for number in range(150):
        sink.emit(sent(number))
    assert monotonic() - begun < 0.5
    assert sum(dropped) >= 50
    assert not sink.flush(0.2)


def test_a_sink_that_raises_harms_no_other() -> None:
    class Bad:
        def emit(self, event: Event) -> None:
            raise RuntimeError("full")

    kept = RecordingEvents()
    fan = Fan(Bad(), kept, LogEvents())
    fan.emit(sent())
    assert kept.events == [sent()]
    assert fan.flush(0.0)


# --- outcomes for metrics ---


def told(name: str, fire: str = "f0", **fields: Any) -> dict[str, Any]:
    return {"type": name, "scheduler": "shop", "fire_id": fire, "kind": "task", "pid": -1, "timestamp": 9e9, **fields}


def counted(metrics: Metrics, status: str) -> float:
    family = next(iter(metrics.collect()))
    return float(next(one.value for one in family.samples if one.labels == {"kind": "task", "status": status}))


@pytest.fixture
def feeds(app: Celery) -> list[tuple[Feed, Metrics]]:
    made = [Metrics(), Metrics()]
    return [(Feed(app, "shop", metrics, SystemClock()), metrics) for metrics in made]


def test_an_outcome_is_counted_by_the_beat_that_sent_the_fire_and_once(feeds: list[tuple[Feed, Metrics]]) -> None:
    feeds[0][0].emit(sent())
    for feed, _ in feeds:
        feed.heard(told(events.FIRE_SUCCEEDED, status="success"))
        feed.heard(told(events.FIRE_SUCCEEDED, status="success"))
        feed.heard(told(events.FIRE_SUCCEEDED, "f1", status="success", scheduler="another"))
    assert [counted(metrics, "success") for _, metrics in feeds] == [1, 0]


def test_of_two_beats_that_sent_a_fire_the_later_counts(feeds: list[tuple[Feed, Metrics]]) -> None:
    """A beat that stalled after sending, and the one that took over."""
    (first, _), (second, _) = feeds
    first.emit(sent())
    second.emit(sent())
    first.heard(told(events.FIRE_SENT))
    second.heard(told(events.FIRE_SENT, timestamp=1.0))  # the first one's, from before
    for feed, _ in feeds:
        feed.heard(told(events.FIRE_FAILED, status="error"))
    assert [counted(metrics, "error") for _, metrics in feeds] == [0, 1]


def test_an_outcome_heard_before_its_beat_knows_that_it_sent_counts(feeds: list[tuple[Feed, Metrics]]) -> None:
    feed, metrics = feeds[0]
    feed.heard(told(events.FIRE_SUCCEEDED, status="success"))
    assert counted(metrics, "success") == 0
    feed.emit(sent())
    feed.heard(told(events.FIRE_SUCCEEDED, status="success"))
    assert counted(metrics, "success") == 1


def test_what_was_reaped_is_not_counted_again(feeds: list[tuple[Feed, Metrics]]) -> None:
    feed, metrics = feeds[0]
    feed.emit(sent())
    feed.heard(told(events.FIRE_REAPED, status="abandoned"))
    feed.heard(told(events.FIRE_FAILED, status="error"))
    assert counted(metrics, "error") == 0
