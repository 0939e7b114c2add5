"""The app under test: one fire that succeeds, one that fails, one that nobody can run; secrets in all of them."""

from __future__ import annotations

import json
import os

from celery import Celery

from celery_parrot import Parrot
from tests.integration.instrumentation import SECRET

app = Celery("tests.integration.instrumentation.app", broker=os.environ["TEST_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.worker_send_task_events = False
app.conf.parrot_send_events = True
app.conf.parrot_max_consecutive_failures = 1000
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))
app.conf.beat_schedule = {
    "good": {"task": "t.good", "schedule": 2.0, "args": (SECRET,), "kwargs": {"word": SECRET}},
    "bad": {"task": "t.bad", "schedule": 2.0, "kwargs": {"word": SECRET}},
    "unknown": {"task": "t.unknown", "schedule": 2.0, "args": (SECRET,)},
}
parrot = Parrot(app)


@app.task(shared=False, name="t.good")
def good(first: str, word: str = "") -> str:
    return f"{first} {word}"


@app.task(shared=False, name="t.bad")
def bad(word: str = "") -> str:
    raise ValueError("no")
