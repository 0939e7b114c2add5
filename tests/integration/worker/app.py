"""The app of the workers under test. Everything a task has to say goes into Redis, everything it waits for too."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, cast

import redis
from celery import Celery, Task
from celery.exceptions import Ignore, Reject

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.errors import TargetMissing
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, Timing
from celery_parrot.runtime.current import current_fire
from celery_parrot.runtime.worker import Thresholds, install
from tests.integration.worker.served import ServedCoordinator
from tests.support.waiting import monotonic

NAMESPACE = Namespace("worker-tests")
BROKER = os.environ.get("BROKER", "memory://")
STATE = os.environ.get("STATE", "")
LEASE = float(os.environ.get("LEASE", "1.5"))
WATCHED = "watched"  # the one kind that these workers declare
SILENT_AFTER = 2.2

app = Celery("worker-tests", broker=BROKER, backend=STATE or None)
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_default_queue=os.environ.get("QUEUE", "worker-tests"),
    worker_prefetch_multiplier=8,
    worker_enable_remote_control=True,
    task_track_started=True,
    worker_proc_alive_timeout=20,
)
if BROKER.startswith("redis"):
    app.conf.broker_transport_options = {"visibility_timeout": 3600, "socket_timeout": 5}


def connect() -> Coordinator:
    """Made by each process on first use."""
    where = os.environ["COORDINATOR"]
    if where.startswith("redis"):
        options = {"socket_timeout": 1, "socket_connect_timeout": 1}
        return RedisCoordinator(where, NAMESPACE, Timing(lease=LEASE), options=options)
    return cast(Coordinator, ServedCoordinator(int(where)))


if "COORDINATOR" in os.environ:
    install(
        app,
        connect,
        NAMESPACE,
        lease=LEASE,
        thresholds=Thresholds({WATCHED: SILENT_AFTER}),
        unreachable=cast(Any, os.environ.get("UNREACHABLE", "hold")),
    )

_clients: dict[int, redis.Redis] = {}


def state() -> redis.Redis:
    """This process's client."""
    if os.getpid() not in _clients:
        _clients[os.getpid()] = redis.Redis.from_url(STATE, decode_responses=True)
    return _clients[os.getpid()]


def ran(mark: str) -> None:
    """Say that the body runs, and as which attempt of which fire."""
    fire = current_fire()
    state().rpush(f"ran:{mark}", f"{fire.attempt}" if fire is not None else "-")


def gate(mark: str, seconds: int = 20) -> None:
    """Wait until the test lets it pass."""
    state().blpop([f"gate:{mark}"], seconds)


@app.task
def note(mark: str) -> str:
    ran(mark)
    return f"noted {mark}"


@app.task
def gated(mark: str) -> str:
    ran(mark)
    gate(mark)
    return "passed"


@app.task(acks_late=True)
def gated_late(mark: str) -> str:
    ran(mark)
    gate(mark)
    return "passed"


@app.task
def show(mark: str) -> dict[str, Any]:
    fire = current_fire()
    assert fire is not None
    return {
        name: str(getattr(fire, name))
        for name in ("scheduler", "schedule_id", "name", "fire_id", "due_at", "origin", "kind", "attempt", "lost")
    }


@app.task
def no_fire(mark: str) -> None:
    state().rpush(f"ran:{mark}", str(current_fire()))


@app.task
def fail(mark: str) -> None:
    ran(mark)
    raise LookupError(f"no {mark}")


@app.task
def missing(mark: str) -> None:
    raise TargetMissing(f"no agent {mark}")


@app.task
def ignore(mark: str) -> None:
    ran(mark)
    raise Ignore


@app.task
def leave(mark: str) -> None:
    ran(mark)
    sys.exit(3)


@app.task(bind=True, max_retries=5)
def again(self: Any, mark: str) -> str:
    ran(mark)
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return "third time"


@app.task(bind=True, acks_late=True)
def reject_once(self: Any, mark: str) -> str:
    ran(mark)
    if state().llen(f"ran:{mark}") == 1:
        raise Reject("not now", requeue=True)
    return "second time"


@app.task(acks_late=True)
def reject_for_good(mark: str) -> None:
    ran(mark)
    raise Reject("never", requeue=False)


@app.task(soft_time_limit=1)
def over_soft(mark: str) -> None:
    ran(mark)
    gate(mark)


@app.task(time_limit=1)
def over_hard(mark: str) -> None:
    ran(mark)
    gate(mark)


@app.task
def die(mark: str) -> None:
    ran(mark)
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(acks_late=True, reject_on_worker_lost=True)
def die_once(mark: str) -> str:
    ran(mark)
    if state().llen(f"ran:{mark}") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@app.task
def busy(mark: str, seconds: float) -> str:
    """Keeps the thread busy, as code does that never waits."""
    ran(mark)
    until = monotonic() + seconds
    while monotonic() < until:
        pass
    fire = current_fire()
    return f"lost={fire.lost}" if fire is not None else "no fire"


@app.task
def steady(mark: str) -> str:
    """Gets on until the gate is passed, then falls silent until it is told that it is lost."""
    ran(mark)
    fire = current_fire()
    assert fire is not None
    rounds = 0
    while not state().blpop([f"gate:{mark}"], 0.1):
        rounds += 1
        fire.progress(f"round {rounds}", min(rounds / 100, 1.0))
    state().rpush(f"silent:{mark}", rounds)
    until = monotonic() + 15
    while not fire.lost and monotonic() < until:
        state().blpop([f"nothing:{mark}"], 0.05)
    state().rpush(f"stopped:{mark}", str(fire.lost))
    return "stopped"


@app.task(bind=True, max_retries=5)
def again_later(self: Any, mark: str, countdown: float) -> str:
    ran(mark)
    if not self.request.retries:
        raise self.retry(countdown=countdown)
    return "second time"


class Based(Task):  # type: ignore[type-arg]
    """A base class with hooks of its own."""

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        fire = current_fire()
        state().rpush(f"before:{args[0]}", fire.fire_id if fire is not None else "-")


@app.task(base=Based)
def based(mark: str) -> str:
    ran(mark)
    return "based"


class ClassBased(Based):
    name = "tests.integration.worker.app.class_based"

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        super().before_start(task_id, args, kwargs)

    def run(self, mark: str) -> str:
        ran(mark)
        return "class based"


app.register_task(ClassBased())
