"""The life of a fire as seen from outside: Celery events, the metrics page, logs. Real beats and workers."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from celery import Celery
from celery.events.receiver import EventReceiver
from celery.events.state import State
from prometheus_client.parser import text_string_to_metric_families

from celery_parrot.model.events import FOR_CELERY, PUBLIC_FIELDS
from tests.integration.instrumentation import SECRET
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import wait_until

APP = "tests.integration.instrumentation.app"
READY = r"beat ready"
OF_CELERY = {"type", "hostname", "utcoffset", "pid", "clock", "timestamp", "local_received"}


class Heard:
    """Every event of a broker, and Celery's own idea of the cluster made of them."""

    def __init__(self, broker: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.state: Any = State()
        self._app = Celery("listener", broker=broker, set_as_current=False)
        self._connection = self._app.connection_for_read()
        self._receiver: Any = EventReceiver(self._connection, {"*": self._take}, app=self._app)
        self._ready = threading.Event()
        setattr(self._receiver, "on_consume_ready", lambda *_, **__: self._ready.set())  # noqa: B010 - no subclass for it
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(10)

    def _run(self) -> None:
        for _ in self._receiver.consume(limit=None, timeout=None, wakeup=False):
            pass

    def _take(self, event: dict[str, Any]) -> None:
        if not event["type"].startswith("worker-"):  # Celery's own
            self.events.append(dict(event))
        self.state.event(event)

    def of(self, schedule: str) -> list[str]:
        return [event["type"] for event in list(self.events) if event.get("schedule") == schedule]

    def close(self) -> None:
        self._receiver.should_stop = True
        self._thread.join(10)
        self._connection.release()


@pytest.fixture
def heard(private_redis: PrivateRedis) -> Iterator[Heard]:
    one = Heard(private_redis.url())
    yield one
    one.close()


def env(redis: PrivateRedis, **settings: Any) -> dict[str, str]:
    return {"TEST_BROKER": redis.url(), "TEST_SETTINGS": json.dumps(settings)}


def scrape(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    assert SECRET not in text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def fires(page: Mapping[Any, float], status: str) -> float:
    return page["parrot_fires_total", (("kind", "task"), ("status", status))]


def test_the_life_of_a_fire_is_seen_in_events_metrics_and_logs(
    heard: Heard, private_redis: PrivateRedis, procs: Procs
) -> None:
    """No argument or result is in any of them. A second beat whose port is taken warns once and beats all the same."""
    port = free_port()
    worker = procs.worker(APP, env=env(private_redis), level="debug")
    worker.wait_for_log(r"ready\.")
    beat = procs.beat(APP, env=env(private_redis, parrot_metrics_port=port), level="debug")
    beat.wait_for_log(READY)
    life = ["fire-claimed", "fire-sent", "fire-started", "fire-succeeded"]
    wait_until(lambda: {*life} <= {*heard.of("good")}, "the life of a fire", 20, explain=lambda: heard.events)
    wait_until(lambda: "fire-failed" in heard.of("bad"), "a failure", 20)
    unknown = "a fire whose task is not registered"
    wait_until(lambda: "fire-failed" in heard.of("unknown"), unknown, 20, explain=lambda: heard.events)

    for event in heard.events:
        assert event["type"] in FOR_CELERY
        assert not event.keys() - OF_CELERY - {*PUBLIC_FIELDS}
        assert event["scheduler"] == "scheduler_manager"
    ended = next(event for event in heard.events if event["type"] == "fire-succeeded")
    same = [event for event in heard.events if event.get("fire_id") == ended["fire_id"]]
    assert {event["type"] for event in same} == {*life}
    for key in ("schedule", "schedule_id", "kind", "due_at", "origin", "scheduler"):
        assert len({event[key] for event in same}) == 1, key
    assert ended["hostname"].startswith("worker-1@")
    assert not heard.state.tasks
    assert {name.partition("@")[0] for name in heard.state.workers} == {"worker-1"}

    def page() -> Mapping[Any, float]:
        return scrape(port)

    wait_until(
        lambda: min(fires(page(), s) for s in ("success", "error", "target_missing")) >= 1, "outcomes", 10, explain=page
    )
    seen = page()
    outcomes = sum(fires(seen, status) for status in ("success", "error", "target_missing"))
    assert outcomes <= fires(seen, "sent")
    assert seen["parrot_fire_lateness_seconds_count", ()] == fires(seen, "sent")
    assert seen["parrot_claims_total", (("outcome", "won"),)] >= fires(seen, "sent")
    assert seen["parrot_beats", ()] == 1
    active = ("parrot_schedules", (("state", "active"), ("store", "code")))
    assert wait_until(lambda: page().get(active), "the count of schedules") == 3
    assert SECRET not in json.dumps(heard.events)
    assert SECRET not in beat.text()

    second = procs.beat(APP, env=env(private_redis, parrot_metrics_port=port))
    second.wait_for_log(rf"parrot_metrics_port {port} cannot be opened")
    second.wait_for_log(READY)
    wait_until(lambda: page()["parrot_beats", ()] == 2, "both beats")
    assert second.text().count("cannot be opened") == 1


def test_a_change_is_told_by_who_made_it(heard: Heard, private_redis: PrivateRedis) -> None:
    from celery_parrot import Parrot

    app = Celery("web", broker=private_redis.url(), set_as_current=False)
    app.conf.parrot_send_events = True
    parrot = Parrot(app)
    wanted = {"schedule_type": "daily", "schedule_config": {"hour": 3}, "args": [SECRET]}
    made = parrot.schedules.create(name="nightly", target="t.good", **wanted)
    parrot.schedules.update("nightly", kwargs={"word": SECRET})
    parrot.schedules.pause("nightly")
    parrot.schedules.resume(made.schedule_id)
    parrot.schedules.delete("nightly")
    parrot.close()
    wait_until(lambda: len(heard.events) >= 5, "five changes", 10, explain=lambda: heard.events)
    assert [event["change"] for event in heard.events] == ["created", "updated", "paused", "resumed", "deleted"]
    assert {event["type"] for event in heard.events} == {"schedule-changed"}
    assert {(event["schedule"], event["store"]) for event in heard.events} == {("nightly", "redis")}
    assert {event["schedule_id"] for event in heard.events} == {made.schedule_id}
    assert SECRET not in json.dumps(heard.events)
