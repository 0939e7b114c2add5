"""What a scheduled message looks like on the wire."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kombu import Connection

from tests.chaos.journal import fire_id
from tests.chaos.lab import PATIENCE, Lab
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wall_clock

OPTIONS = {"queue": "special", "priority": 7, "expires": 30, "headers": {"x-own": "yes"}, "countdown": 5}


def _first_message(url: str, queue: str) -> Any:
    with Connection(url) as connection, connection.SimpleQueue(queue) as simple:
        message = simple.get(timeout=PATIENCE)
        message.ack()
        return message


@pytest.mark.timeout(120)
@pytest.mark.parametrize("broker", ["redis", "rabbitmq"])
def test_options_and_lazy_arguments_reach_the_message(
    lab: Lab, private_redis: PrivateRedis, broker: str, request: pytest.FixtureRequest
) -> None:
    """Celery's own options (queue, priority, expires, headers, countdown) and a lazy argument, evaluated by the beat
    at the moment of sending, beside our header."""
    url = private_redis.url() if broker == "redis" else request.getfixturevalue("rabbitmq_url")
    entry = {
        "task": "chaos.echo", "schedule": 1.0, "lazy": "hello", "kwargs": {"size": 3}, "options": OPTIONS,
    }  # fmt: skip
    lab.set_up(url, private_redis.url(), entries={"wire": entry})
    beat = lab.beat()
    message = _first_message(url, "special")
    now = wall_clock()
    args, kwargs, _ = message.payload
    assert args == [f"hello from pid {beat.pid}"]
    assert kwargs == {"size": 3}
    assert message.properties["priority"] == 7
    assert message.headers["x-own"] == "yes"
    assert datetime.fromisoformat(message.headers["eta"]).timestamp() == pytest.approx(now + 5, abs=3)
    assert datetime.fromisoformat(message.headers["expires"]).timestamp() == pytest.approx(now + 30, abs=3)
    assert message.headers["task"] == "chaos.echo"
    assert message.headers["periodic_task_name"] == "wire"
    assert message.headers["celery_beat_task"] is True

    header = message.headers["parrot"]
    due_at = datetime.fromisoformat(header["due_at"])
    assert due_at.tzinfo is not None
    assert due_at.astimezone(UTC).isoformat() == header["due_at"]
    expected = {
        "scheduler": "scheduler_manager", "schedule_id": "wire", "name": "wire", "origin": "schedule", "kind": "task",
        "attempt": 1, "fire_id": fire_id("scheduler_manager", ("wire", due_at)),
    }  # fmt: skip
    assert expected.items() <= header.items()
    assert set(header) == {*expected, "due_at", "deadline"}
    assert message.headers["id"] == header["fire_id"]


@pytest.mark.timeout(120)
def test_expires_and_countdown_do_what_they_say(lab: Lab, private_redis: PrivateRedis) -> None:
    """A countdown delays the body, not the due time; what expired in the queue is recorded and does not run."""
    entries = {
        "later": {"task": "chaos.tick", "schedule": 1.0, "options": {"countdown": 2}},
        "perishable": {"task": "chaos.tick", "schedule": 1.0, "options": {"expires": 1.5}},
    }
    lab.set_up(private_redis.url(), private_redis.url(), entries=entries)
    beat = lab.beat()
    lab.wait_ready(beat)
    lab.at(wall_clock() + 6, "some messages to be too old")
    started = wall_clock()
    lab.worker()
    lab.wait_for_runs(2, ["later", "perishable"])
    assert all(run.lateness >= 1.9 for run in lab.journal.of("later"))
    assert all(run.started - run.due_at.timestamp() < 3.5 for run in lab.journal.of("perishable"))
    old = [record for record in lab.history("perishable") if record.due_at.timestamp() < started - 3]
    assert old
    assert {str(record.status) for record in old} == {"expired"}, old
