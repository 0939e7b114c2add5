"""An app with schedules in SQL, in Redis and in code. What it is set to comes from the environment."""

from __future__ import annotations

import json
import os
from typing import Any

from celery import Celery

from celery_parrot import Parrot

app = Celery("tests.e2e.apps.stores", broker=os.environ["TEST_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.task_ignore_result = True
app.conf.parrot_kinds = {"agent": {"task": "agents.run", "queue": "agents"}}
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))
app.conf.beat_schedule = {"in code": {"task": "t.note", "schedule": 1.0, "options": {"queue": "code"}}}
parrot = Parrot(app)


@app.task(shared=False, name="t.note")
def note(**words: Any) -> str:
    """Run it, and say what with."""
    return json.dumps(words)


@app.task(shared=False, name="agents.run")
def run(target: str, **words: Any) -> str:
    """What a kind of its own is for."""
    return f"{target}: {json.dumps(words, sort_keys=True)}"
