"""A rush: many schedules of the Redis store due at one instant, sent by a real beat, beside a bare loop of
``apply_async`` on the same server just before. Only ratios say something on a machine that others use, too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import psutil
import pytest
from celery import Celery

from celery_parrot import Parrot
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.benchmarks.stores_app"
TASK = "app.task"
LOOP = 2000
DAY = 86_400
MOST_PROCESSOR = 1.0
"""Of the bare loop's processor time for as many messages, with scan, claim, history and confirm of each."""
pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.keeps_keys("asking so many keys for their TTL takes longer than the test"),
]


class Cost(NamedTuple):
    """Of one message: seconds on the clock, and of the processor."""

    clock: float
    processor: float


def bare_loop(app: Celery) -> Cost:
    """One reused producer, as a beat would publish."""
    connection: Any = app.connection_for_write()
    producer: Any = app.amqp.Producer(connection, auto_declare=False)
    app.send_task(TASK, (0,), producer=producer)
    clock, processor = time.perf_counter(), time.process_time()
    for number in range(LOOP):
        app.send_task(TASK, (number,), producer=producer)
    cost = Cost((time.perf_counter() - clock) / LOOP, (time.process_time() - processor) / LOOP)
    connection.release()
    return cost


def spent(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def test_a_rush(
    make_redis: Callable[..., PrivateRedis], procs: Procs, full: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """The long form (``--full``) has 10,000 schedules, the short one 1,000."""
    count = 10_000 if full else 1_000
    server = make_redis()
    app = Celery("bench", broker=server.url(), set_as_current=False)
    app.conf.update(parrot_redis_url=server.url(), parrot_coordination="redis", result_expires=None)
    schedules = Parrot(app).schedules
    due = float(int(time.time()) + 20 + count // 200)
    schedules.create_many(
        {
            "name": f"s{number}", "target": TASK, "args": [number], "store": "redis",
            "schedule_type": "interval", "schedule_config": {"seconds": DAY, "offset": due % DAY},
        }
        for number in range(count)
    )  # fmt: skip
    settings = json.dumps({"parrot_coordination": "redis"})
    beat = procs.beat(APP, "-S", "parrot", env={"BENCH_BROKER": server.url(), "BENCH_SETTINGS": settings}, level="info")
    beat.wait_for_log(r"beat ready: ", timeout=20)
    loop = bare_loop(app)
    assert time.time() < due, "too slow a machine to be ready in time"
    process = psutil.Process(beat.pid)
    with server.client() as client:
        client.delete("celery")
        wait_until(lambda: time.time() >= due - 0.2, "the instant", due - time.time() + 5)
        before = spent(process)
        wait_until(lambda: client.llen("celery"), "the first message", 10, interval=0.001)
        first = time.time() - due
        wait_until(lambda: client.llen("celery") == count, "the last message", 100, interval=0.005)
        took = time.time() - due
    cost = Cost(took / count, (spent(process) - before) / count)
    with capfd.disabled():
        print(
            f"\nrush of {count}: {loop.clock / cost.clock:.2f} of the bare loop's rate ({1 / cost.clock:.0f}/s of "
            f"{1 / loop.clock:.0f}/s), {cost.processor / loop.processor:.2f} of its processor time, "
            f"first message {1000 * first:.0f} ms late",
            flush=True,
        )
    assert cost.processor <= MOST_PROCESSOR * loop.processor
