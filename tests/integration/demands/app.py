"""The app under test: one task that does as told through Redis. What it is set to comes from the environment."""

from __future__ import annotations

import json
import os

import redis
from celery import Celery

from celery_parrot import Parrot, current_fire
from tests.support.waiting import wait_until

app = Celery("tests.integration.demands.app", broker=os.environ["TEST_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.update(json.loads(os.environ["TEST_SETTINGS"]))
parrot = Parrot(app)


@app.task(shared=False, name="t.do")
def do(what: str = "", **more: str) -> str:
    """Say that it runs, then do as told: ``hold`` until released, fail, or be done."""
    world = redis.Redis.from_url(os.environ["TEST_BROKER"], decode_responses=True)
    fire = current_fire()
    assert fire is not None
    world.rpush("ran", json.dumps({"fire": fire.fire_id, "attempt": fire.attempt, "due": fire.due_at.isoformat()}))
    told = what or world.get("do")
    if told == "hold":
        wait_until(lambda: world.get("go"), "to be released", 60)
    if told == "fail":
        raise ValueError("as told")
    return f"done{more or ''}"
