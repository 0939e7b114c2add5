"""The fires heard of: folded whatever the order, kept within bounds, filtered, paged and told."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from openapi_schema_validator import OAS31Validator

from celery_parrot.flower import feed as module
from celery_parrot.flower.api.shapes import SCHEMAS
from celery_parrot.flower.feed import Feed

STORY = (
    {"type": "fire-claimed", "timestamp": 100.0},
    {"type": "fire-sent", "timestamp": 101.0, "attempt": 1, "late": 0.5},
    {"type": "fire-started", "timestamp": 102.0, "attempt": 1, "worker": "w@1"},
    {"type": "fire-succeeded", "timestamp": 103.0, "attempt": 1, "worker": "w@1", "status": "success"},
)
NAMED = {"scheduler": "shop", "fire_id": "f1", "schedule": "nightly", "schedule_id": "n1", "kind": "report"}


def told(feed: Feed, name: str = "fire-claimed", **fields: Any) -> None:
    feed.hear({**NAMED, "type": name, "timestamp": 100.0, **fields})


def only(feed: Feed) -> Any:
    (record,) = feed.page().items
    return record


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_order_of_events_does_not_matter(order: tuple[int, ...]) -> None:
    """Beats and workers send each with a delay of its own."""
    feed = Feed("shop")
    for index in order:
        feed.hear({**NAMED, **STORY[index]})
    record = only(feed)
    assert (record["status"], record["worker"], record["late"], record["attempt"]) == ("success", "w@1", 0.5, 1)
    stamps = [record[name][-8:-6] for name in ("claimed_at", "sent_at", "started_at", "ended_at")]
    assert stamps == ["40", "41", "42", "43"]


def test_a_next_attempt_begins_anew() -> None:
    """What the last one told is gone."""
    feed = Feed("shop")
    told(feed, "fire-started", worker="w@1", attempt=1)
    told(feed, "fire-reaped", worker="w@1", attempt=2, status="pending", reason="worker lost")
    record = only(feed)
    assert (record["status"], record["reason"], record["started_at"]) == ("pending", "worker lost", None)
    told(feed, "fire-failed", worker="w@1", attempt=1, status="error")
    assert only(feed) == record, "the first attempt's end comes too late"
    told(feed, "fire-failed", worker="w@2", attempt=2, status="target_missing", reason="unknown task")
    assert (only(feed)["status"], only(feed)["worker"]) == ("target_missing", "w@2")


def test_the_task_is_that_of_the_newest_message() -> None:
    """Flower knows no other: a retry or a redelivery is a next attempt under the same id."""
    feed = Feed("shop")
    for name, attempt, task_id in (
        ("fire-sent", 1, "f1"),
        ("fire-started", 2, "f1"),
        ("fire-reaped", 3, "f1"),
        ("fire-started", 4, "f1"),
        ("fire-sent", 3, "f1:3"),
        ("fire-succeeded", 4, "f1:3"),
        ("fire-sent", 1, "f1:3"),
    ):
        told(feed, name, attempt=attempt)
        assert only(feed)["task_id"] == task_id, (name, attempt)


def test_an_outcome_stands() -> None:
    """Whatever else is heard of that attempt."""
    feed = Feed("shop")
    told(feed, "fire-reaped", attempt=1, status="abandoned", reason="silent")
    told(feed, "fire-succeeded", attempt=1, status="success")
    assert (only(feed)["status"], only(feed)["reason"]) == ("abandoned", "silent")


def test_a_record_is_as_the_document_says() -> None:
    """Every member of it, from the first event on."""
    feed = Feed("shop")
    schema = SCHEMAS["HeardFire"]
    for event in STORY:
        feed.hear({**NAMED, **event})
        OAS31Validator(schema).validate(only(feed))
    assert schema["properties"].keys() == only(feed).keys()


def test_what_is_no_fire_of_ours_is_left_aside() -> None:
    """Other schedulers, other events, and what anybody may send."""
    feed = Feed("shop")
    told(feed, scheduler="another")
    told(feed, "schedule-changed")
    told(feed, "fire-unrouted", fire_id=None)
    told(feed, "fire-late", late=99.0)
    for odd in ({}, {"type": "fire-claimed"}, {"type": 7, "fire_id": []}):
        feed.hear(odd)
    assert feed.page().items == ()
    told(feed, timestamp="soon", attempt="many", status=["x"], worker={"a": 1}, late=None)
    record = only(feed)
    assert (record["status"], record["attempt"], record["worker"], record["claimed_at"]) == ("pending", 1, None, None)


def test_the_oldest_go_first() -> None:
    """A feed is bounded."""
    feed = Feed("shop", kept=3)
    for number in range(5):
        told(feed, fire_id=f"f{number}")
    told(feed, "fire-sent", fire_id="f2")
    assert [record["fire_id"] for record in feed.page().items] == ["f4", "f3", "f2"]


def test_filters_and_pages() -> None:
    """Each narrows; a page goes on where the last one ended, also when more is heard meanwhile."""
    feed = Feed("shop")
    for number in range(6):
        told(feed, fire_id=f"f{number}", schedule=f"Job {number}", kind="even" if number % 2 == 0 else "odd")
    told(feed, "fire-sent", fire_id="f3", attempt=1, kind="odd", schedule="Job 3")
    assert [one["fire_id"] for one in feed.page(kind="odd").items] == ["f5", "f3", "f1"]
    assert [one["fire_id"] for one in feed.page(status="sent").items] == ["f3"]
    assert [one["fire_id"] for one in feed.page(text="JOB 4").items] == ["f4"]
    first = feed.page(kind="even", limit=2)
    told(feed, fire_id="f8", kind="even")
    second = feed.page(kind="even", limit=2, after=first.after)
    assert [one["fire_id"] for one in (*first.items, *second.items)] == ["f4", "f2", "f0"]
    assert second.after == ""


def test_a_subscriber_gets_changes_and_those_it_missed() -> None:
    """Once each, in order, from the mark it names on; a mark of another process says nothing."""
    feed, woken = Feed("shop"), []
    first = feed.subscribe(lambda: woken.append(1))
    told(feed)
    told(feed)  # says nothing new
    told(feed, "fire-sent")
    taken = first.take()
    assert [one.record["status"] for one in taken] == ["pending", "sent"]
    assert (len(woken), first.take()) == (1, []), "it is told once that there is something to take"
    feed.unsubscribe(first)
    told(feed, "fire-started")
    assert first.take() == []
    (change,) = feed.subscribe(lambda: None, taken[-1].mark).take()
    assert change.record["status"] == "running"
    assert feed.subscribe(lambda: None, "00000000-1").take() == []
    for nonsense in ("nonsense", f"{change.mark}{'0' * 5000}", change.mark.replace("-", "--")):
        assert feed.subscribe(lambda: None, nonsense).take() == []


def test_much_is_taken_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred readers that are slow must not have a copy each of all that there is."""
    monkeypatch.setattr(module, "AT_ONCE", 2)
    feed = Feed("shop")
    first = feed.subscribe(lambda: None)
    for number in range(3):
        told(feed, fire_id=f"f{number}")
    assert ([one.record["fire_id"] for one in first.take()], first.waits) == (["f0", "f1"], True)
    assert ([one.record["fire_id"] for one in first.take()], first.waits) == (["f2"], False)


def test_a_change_is_written_once_for_all_who_are_told() -> None:
    """Two hundred open pages must not hold Flower's loop two hundred times for each fire."""
    feed = Feed("shop")
    first, second = feed.subscribe(lambda: None), feed.subscribe(lambda: None)
    told(feed)
    (one,), (other,) = first.take(), second.take()
    assert json.loads(one.text)["fire_id"] == "f1"
    assert one.text is other.text
    told(feed, fire_id="f2")
    (late,) = feed.subscribe(lambda: None, one.mark).take()
    assert late is first.take()[0], "whoever comes back gets the same"


def test_one_who_was_away_for_long_is_told_of_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room left: dropped for a change that comes before it takes them, it would ask for the same again."""
    monkeypatch.setattr(module, "BACKLOG", 4)
    monkeypatch.setattr(module, "CAUGHT_UP", 2)
    feed = Feed("shop")
    first = feed.subscribe(lambda: None)
    told(feed)
    (change,) = first.take()
    for number in range(2, 6):
        told(feed, fire_id=f"f{number}")
    back = feed.subscribe(lambda: None, change.mark)
    told(feed, fire_id="f6")
    assert [one.record["fire_id"] for one in back.take()] == ["f4", "f5", "f6"]


def test_a_subscriber_that_does_not_take_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for it, and what it left is forgotten."""
    monkeypatch.setattr(module, "BACKLOG", 2)
    feed = Feed("shop")
    woken: list[int] = []
    slow = feed.subscribe(lambda: woken.append(1))
    for number in range(2):
        told(feed, fire_id=f"f{number}")
    assert not slow.dropped
    told(feed, fire_id="f9")
    assert (slow.dropped, slow.take()) == (True, [])
    assert woken == [1, 1], "the second time because it is dropped"
