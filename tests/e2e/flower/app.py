"""The app behind the pages: three kinds of tasks, one of which ends only when the test says so."""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import Celery

from celery_parrot import Parrot
from tests.e2e.flower.data import KINDS, MAY_END, ZONE

BROKER = os.environ.get("STAGE_BROKER", "redis://127.0.0.1:6379/0")

RENDER_AT_MOST = 300.0

app = Celery("stage", broker=BROKER)
app.conf.update(
    beat_scheduler="parrot",
    broker_connection_retry_on_startup=True,
    timezone=ZONE,
    result_expires=None,
    worker_send_task_events=True,
    task_send_sent_event=True,
    parrot_redis_url=BROKER,
    parrot_send_events=True,
    parrot_kinds=KINDS,
    beat_schedule={"pulse": {"kind": "sync", "target": "stock", "schedule": 2.0, "kwargs": {"shop": 7}}},
)
parrot = Parrot(app)


@app.task(name="stage.sync")
def sync(*args: Any, **kwargs: Any) -> str:
    """Nothing to wait for."""
    return "42 articles"


@app.task(name="stage.report")
def report(target: str, **kwargs: Any) -> object:
    """Give back what it was told, or fail with it."""
    if "fail" in kwargs:
        raise ValueError(kwargs["fail"])
    return kwargs.get("answer", f"{target} is written")


@app.task(name="stage.render")
def render(target: str, **kwargs: Any) -> str:
    """Hold its group until the test lets go of it."""
    with redis.Redis.from_url(BROKER, socket_timeout=None) as client:
        client.blpop([MAY_END + target], timeout=RENDER_AT_MOST)
    return f"{target} is drawn"
