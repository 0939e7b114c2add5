"""An app whose beat hangs in code of the user's as long as there is a certain file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery
from celery.beat import BeatLazyFunc

from celery_parrot import Parrot
from tests.support.waiting import wait_until

HANG = Path(os.environ["TEST_HANG"])


def hang() -> str:
    """A lazy argument that is not soon there."""
    wait_until(lambda: not HANG.exists(), "the file to go", 100)
    return "late"


app = Celery("tests.e2e.apps.stalling", broker=os.environ["TEST_BROKER"])
app.conf.result_expires = None  # no entry of Celery's own
app.conf.beat_enable_remote_control = True  # Celery 5.7 and newer
app.conf.beat_remote_control_max_tick_age = 2.0
app.conf.update(json.loads(os.environ["TEST_SETTINGS"]))
app.conf.beat_schedule = {
    "steady": {"task": "t.note", "schedule": 1.0, "options": {"queue": "steady"}},
    "lazy": {"task": "t.note", "schedule": 1.0, "args": [BeatLazyFunc(hang)], "options": {"queue": "lazy"}},
}
parrot = Parrot(app)


@app.task(shared=False, name="t.note")
def note(*words: str) -> None:
    """Nothing."""
