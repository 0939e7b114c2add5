"""The app of the chaos and e2e tests. What it does is told by the environment, so that each process may differ.

Its tasks note what they did in a list on a Redis server that is neither the broker nor the coordinator under test.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import datetime
from typing import Any

import redis
from celery import Celery, Task, signals
from celery.beat import BeatLazyFunc
from celery.schedules import schedule

from tests.chaos.journal import RAN, RECEIVED
from tests.support.waiting import monotonic, pause, wall_clock

app = Celery("chaos", broker=os.environ["CHAOS_BROKER"], set_as_current=True)
app.conf.update(
    beat_scheduler="parrot",
    task_ignore_result=True,
    worker_enable_remote_control=False,
    broker_connection_retry_on_startup=True,
)
app.conf.update(json.loads(os.environ.get("CHAOS_CONF", "{}")))


# --- what is logged ---------------------------------------------------------------------------------------------------


class _EventNames(logging.Filter):
    """Gives every record an ``event``: that of the library's records, or a dash."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let all pass."""
        record.event = getattr(record, "event", "-")
        return True


@signals.after_setup_logger.connect
def _log_event_names(logger: logging.Logger, **_: Any) -> None:
    for handler in logger.handlers:
        handler.addFilter(_EventNames())
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s [%(event)s] %(message)s"))


# --- what is scheduled ------------------------------------------------------------------------------------------------


class Broken(schedule):
    """A schedule of the user's own that raises whenever it is asked."""

    def remaining_estimate(self, last_run_at: datetime) -> Any:
        """As Celery's, but not."""
        raise RuntimeError("this schedule is broken on purpose")

    def is_due(self, last_run_at: datetime) -> Any:
        """As Celery's, but not."""
        raise RuntimeError("this schedule is broken on purpose")


def _entry(fields: dict[str, Any]) -> dict[str, Any]:
    if fields.get("schedule") == "broken":
        fields["schedule"] = Broken(1.0)
    if "lazy" in fields:
        fields["args"] = (BeatLazyFunc(_lazy, fields.pop("lazy")),)
    return fields


def _lazy(text: str) -> str:
    if text == "raise":
        raise RuntimeError("this argument raises on purpose")
    return f"{text} from pid {os.getpid()}"


app.conf.beat_schedule = {
    **{
        f"s-{number:03}": {"task": "chaos.tick", "schedule": float(os.environ.get("CHAOS_EVERY", "1"))}
        for number in range(int(os.environ.get("CHAOS_TICKS", "0")))
    },
    **{name: _entry(fields) for name, fields in json.loads(os.environ.get("CHAOS_ENTRIES", "{}")).items()},
}

WITH_PARROT = os.environ.get("CHAOS_PARROT", "1") == "1"

if WITH_PARROT:
    from celery_parrot import Parrot

    parrot = Parrot(app)


# --- what they do -----------------------------------------------------------------------------------------------------

_sinks: dict[int, redis.Redis] = {}


def _push(key: str, entry: dict[str, Any]) -> None:
    sink = _sinks.get(os.getpid())
    if sink is None:  # one connection a process, made after the fork
        sink = _sinks[os.getpid()] = redis.Redis.from_url(os.environ["CHAOS_JOURNAL"])
    sink.rpush(key, json.dumps(entry))


def _note(task: Task[..., Any], what: str = "ran", **more: Any) -> None:
    started, stamp = wall_clock(), monotonic()
    request = task.request
    fire: dict[str, Any] = getattr(request, "parrot", None) or {}
    attempt = fire.get("attempt", 0)
    if WITH_PARROT:
        from celery_parrot import current_fire

        current = current_fire()
        attempt = current.attempt if current is not None else attempt
    entry = {
        "what": what,
        "name": fire.get("name", ""),
        "scheduler": fire.get("scheduler", ""),
        "task_id": request.id,
        "fire_id": fire.get("fire_id", ""),
        "due_at": fire.get("due_at", ""),
        "origin": fire.get("origin", ""),
        "attempt": attempt,
        "retries": request.retries,
        "started": started,
        "monotonic": stamp,
        "pid": os.getpid(),
        "worker": request.hostname,
    }
    _push(RAN, entry | more)


@app.task(bind=True, name="chaos.tick")
def tick(self: Task[..., Any]) -> None:
    """Note that it ran."""
    _note(self)


@app.task(bind=True, name="chaos.echo")
def echo(self: Task[..., Any], *args: Any, **kwargs: Any) -> None:
    """Note what it was called with."""
    _note(self, args=list(args), kwargs=kwargs)


@app.task(bind=True, name="chaos.slow")
def slow(self: Task[..., Any], seconds: float) -> None:
    """Note start and end of a body that takes its time."""
    _note(self)
    pause(seconds)
    _note(self, "done")


@app.task(bind=True, name="chaos.turn")
def turn(self: Task[..., Any], target: str, seconds: float = 0.0) -> None:
    """What kinds of the limits' tests run: note start and end of a body that takes its time."""
    _note(self, args=[target])
    pause(seconds)
    _note(self, "done")


@app.task(bind=True, name="chaos.slow_late", acks_late=True, reject_on_worker_lost=True)
def slow_late(self: Task[..., Any], seconds: float) -> None:
    """As ``slow``, acknowledged when it is done."""
    _note(self)
    pause(seconds)
    _note(self, "done")


@app.task(bind=True, name="chaos.flaky", max_retries=10)
def flaky(self: Task[..., Any], times: int) -> None:
    """Retry at once, ``times`` times, then succeed."""
    _note(self)
    if self.request.retries < times:
        raise self.retry(countdown=0)


@app.task(bind=True, name="chaos.failing")
def failing(self: Task[..., Any]) -> None:
    """Fail."""
    _note(self)
    raise ValueError("this task fails on purpose")


@signals.task_received.connect
def _received(request: Any, **_: Any) -> None:
    """Every delivery, also of a message that the worker then drops."""
    fire = (request.request_dict or {}).get("parrot") or {}
    if fire:
        _push(
            RECEIVED,
            {"task_id": request.id, "fire_id": fire["fire_id"], "name": fire["name"], "due_at": fire["due_at"]},
        )
