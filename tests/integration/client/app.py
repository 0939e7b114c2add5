"""The app under test: schedules in SQL, in Redis and in code. What it is set to comes from the environment."""

from __future__ import annotations

import json
import os

from celery import Celery

from celery_parrot import Parrot

app = Celery("tests.integration.client.app", broker=os.environ["TEST_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))
app.conf.beat_schedule = {
    "in code": {"task": "t.note", "schedule": 1.0, "kwargs": {"word": "code"}, "options": {"queue": "code"}},
}
parrot = Parrot(app)


@app.task(shared=False, name="t.note")
def note(word: str = "") -> str:
    return word
