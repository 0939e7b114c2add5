"""What Flower's receiver hears, on the stream, in the list and in the metrics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPResponse, IncompleteRead
from typing import Any

import pytest
from celery import Celery
from celery.utils.time import utcoffset
from prometheus_client.parser import text_string_to_metric_families

from celery_parrot.flower.api import live
from celery_parrot.flower.feed import BACKLOG
from celery_parrot.instrumentation import metrics as names
from tests.integration.flower.served import Served
from tests.support.waiting import wait_until

Start = Callable[..., Served]

FIRE = {"scheduler": "scheduler_manager", "fire_id": "f1", "schedule": "nightly", "schedule_id": "n1", "kind": "task"}
POISON = "x-of-a-tenant"


@contextmanager
def stream(served: Served, **headers: str) -> Iterator[HTTPResponse]:
    connection = served.connect()
    connection.request("GET", "/parrot/api/events", headers=headers)
    response = connection.getresponse()
    try:
        assert response.getheader("Content-Type") == "text/event-stream"
        assert response.readline() == b"retry: 3000\n"
        assert response.readline() == b"\n"
        yield response
    finally:
        connection.close()


def event(response: HTTPResponse) -> tuple[str, Any]:
    """Mark and record of the next event."""
    lines = [response.readline().decode().rstrip("\n") for _ in range(4)]
    assert lines[0].startswith("id: "), lines
    assert (lines[1], lines[3]) == ("event: fire", "")
    return lines[0].removeprefix("id: "), json.loads(lines[2].removeprefix("data: "))


def subscribers(served: Served) -> int:
    return len(served.desk.feed._subscriptions)


def test_a_fire_is_on_the_stream_as_it_happens_and_then_in_the_list(start: Start) -> None:
    """Flower hears each event as well; whoever comes back gets what was missed."""
    served = start()
    with stream(served) as first:
        served.tell("fire-claimed", **FIRE)
        mark, record = event(first)
        assert (record["fire_id"], record["status"]) == ("f1", "pending")
        served.tell("fire-sent", attempt=1, late=0.1, **FIRE)
        assert event(first)[1]["status"] == "sent"
    with stream(served, **{"Last-Event-ID": mark}) as second:
        assert event(second)[1]["status"] == "sent"
    wait_until(lambda: subscribers(served) == 0, "both streams to end", 5)
    found = served.get("/parrot/api/fires?status=sent").json
    assert [one["fire_id"] for one in found["items"]] == ["f1"]
    assert (found["listening"], found["events_on"]) == (False, False), "its receiver is not started here"
    wait_until(lambda: served.application.events.state.counter["beat@here"]["fire-sent"] == 1, "Flower's own count", 5)


def test_times_are_those_of_the_sender(start: Start) -> None:
    """Celery moves timestamps by the zones of sender and receiver; an instant has none."""
    served = start()
    away = 5
    moved = 1_800_000_000.0 - (away - utcoffset()) * 3600  # as Celery's receiver hands it on
    served.tell("fire-claimed", **FIRE | {"timestamp": moved, "utcoffset": away})
    assert served.get("/parrot/api/fires").json["items"][0]["claimed_at"] == "2027-01-15T08:00:00+00:00"


def test_a_browser_that_does_not_read_is_dropped(start: Start) -> None:
    """Its stream ends, for others it goes on."""
    served = start()

    def burst() -> None:
        for number in range(BACKLOG + 1):
            served.tell("fire-claimed", **FIRE | {"fire_id": f"f{number}"})

    with stream(served) as slow:
        served.on_loop(burst)
        with pytest.raises(IncompleteRead):  # no proper end: the browser asks again
            slow.read()
    wait_until(lambda: subscribers(served) == 0, "the stream to end", 5)
    with stream(served) as next_one:
        served.tell("fire-claimed", **FIRE | {"fire_id": "later"})
        assert event(next_one)[1]["fire_id"] == "later"


def test_a_connection_that_is_full_is_cut(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its browser sleeps, say; what is kept for it is forgotten."""
    monkeypatch.setattr(live, "SLOW", 0.3)
    served = start()
    with stream(served):
        for number in range(4):
            # Past the bridge, which would cut the text.
            served.desk.hear(FIRE | {"type": "fire-claimed", "fire_id": f"f{number}", "schedule": "x" * 4_000_000})
        wait_until(lambda: subscribers(served) == 0, "the stream to end", 10)


def test_bad_filters_are_named(start: Start) -> None:
    """With 422, and nothing else."""
    served = start()
    for query in ("limit=0", "limit=501", "limit=x", "after=x"):
        assert served.get(f"/parrot/api/fires?{query}").status == 422, query


def test_an_event_with_nonsense_in_it_harms_neither_stream_nor_metrics(start: Start) -> None:
    """Whoever reaches the broker can send one. What belongs into its field is taken; Flower gets it as it is."""
    served = start()
    nonsense = {"timestamp": "noon", "late": float("inf"), "count": -1000, "due_at": "tomorrow", "worker": ["w"]}
    with stream(served) as browser:
        served.tell("fire-sent", **FIRE | nonsense)
        record = event(browser)[1]
    assert {record[name] for name in ("sent_at", "late", "count", "due_at", "worker")} == {None}
    assert (record["status"], record["schedule"]) == ("sent", "nightly")
    values = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in our_metrics(served)}
    assert values['parrot_fires_total{kind="task",status="sent"}'] == 1
    assert values["parrot_fire_lateness_seconds_sum"] == 0


def our_metrics(served: Served) -> list[str]:
    return [line for line in served.get("/metrics").body.splitlines() if line.startswith("parrot_")]


def test_our_metrics_are_on_flowers_page(start: Start, redis_url: str) -> None:
    """Beside Flower's: outcomes as they are told, schedules as the stores have them, no label of a payload."""
    app = Celery("counted", broker="memory://", set_as_current=False)
    app.conf.update(parrot_redis_url=redis_url, parrot_kinds={"report": {"task": "t", "exclusion_group": "gpu"}})
    app.conf.beat_schedule = {"nightly": {"task": "t", "schedule": 60.0}}
    start()  # another application of this process: the newest one's are shown
    served = start(app)
    for name in ("fire-claimed", "fire-sent", "fire-succeeded", "fire-failed", "fire-missed", "fire-reaped"):
        for kind in ("report", POISON):
            fields = FIRE | {"kind": kind, "reason": POISON, "worker": POISON, "limit": POISON, "hostname": POISON}
            served.tell(name, **fields, late=0.5)
    served.tell("fire-succeeded", **FIRE | {"scheduler": "another"})

    def found() -> dict[tuple[str, ...], float]:
        text = served.get("/metrics").body
        assert POISON not in text
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    wait_until(lambda: (names.SCHEDULES, "active", "code") in found(), "the schedules to be counted", 10)
    samples = found()
    assert samples[names.SCHEDULES, "active", "code"] >= 1
    assert samples[names.BEATS,] == 0
    for status in ("sent", "success", "error", "missed", "abandoned"):
        assert samples[names.FIRES, "report", status] == samples[names.FIRES, "other", status] == 1
    assert samples[names.FAILURES, "unsendable"] == 0, "workers told of failing tasks"
    assert samples[f"{names.LATENESS}_count",] == 2
    assert "# TYPE flower_events_total counter" in served.get("/metrics").body
