"""The app under test. What it is set to comes from the environment, so that one module serves every test."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from itertools import count

from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import crontab

from celery_parrot import Parrot

app = Celery("tests.integration.beat.app", broker=os.environ["TEST_BROKER"])
app.conf.beat_scheduler = "parrot"
app.conf.result_expires = None  # no entry of Celery's own
app.conf.worker_cancel_long_running_tasks_on_connection_loss = True
app.conf.update(json.loads(os.environ.get("TEST_SETTINGS", "{}")))

_numbers = count()

SCHEDULES = {
    "seconds": {"task": "t.remote", "schedule": 1.0, "args": (16, 16), "options": {"queue": "plain"}},
    "options": {
        "task": "t.remote",
        "schedule": timedelta(seconds=1),
        "kwargs": {"word": "hello"},
        "options": {
            "queue": "options",
            "priority": 7,
            "expires": 60,
            "countdown": 30,
            "headers": {"mine": "yes"},
        },
    },
    "lazy": {
        "task": "t.remote",
        "schedule": 1.0,
        "args": [BeatLazyFunc(lambda: next(_numbers))],
        "options": {"queue": "lazy"},
    },
    "monday": {"task": "t.remote", "schedule": crontab(hour="7", minute="30", day_of_week="1")},
    "broken": {"task": "t.remote", "schedule": "every now and then"},
}


@app.task(shared=False, name="t.local")
def local(word: str = "") -> str:
    return word


@app.on_after_configure.connect
def setup_periodic_tasks(sender: Celery, **_: object) -> None:
    sender.add_periodic_task(1.0, local.s("added").set(queue="added"), name="add every second", expires=10)


app.conf.beat_schedule = (
    SCHEDULES
    if not os.environ.get("TEST_LOCAL")
    else {
        "local": {"task": "t.local", "schedule": 1.0},
    }
)

if os.environ.get("TEST_PARROT"):
    parrot = Parrot(app)

    @parrot.schedule(1.0, name="decorated", options={"queue": "decorated"})
    @app.task(shared=False, name="t.decorated")
    def decorated() -> None: ...
