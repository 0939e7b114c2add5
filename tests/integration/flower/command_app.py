"""The app that Flower is started for."""

from __future__ import annotations

import os

from celery import Celery

app = Celery("flowers", broker=os.environ["BROKER"])
app.conf.parrot_redis_url = os.environ["BROKER"]


@app.task(name="tests.command")
def task() -> None:
    """Listed by Flower as it starts."""
