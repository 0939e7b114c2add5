"""A Celery app without this library, to try the process helpers on."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("plain", broker=os.environ.get("BROKER", "memory://"))
app.conf.beat_schedule = {"tock": {"task": "tests.support.plain_app.tock", "schedule": 0.2}}
app.conf.broker_connection_retry_on_startup = True


@app.task
def tock() -> None:
    """Say so in the log."""
    print("the task ran")
