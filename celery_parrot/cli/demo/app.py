"""The Celery app that the demo's beats, worker and Flower run: ``celery -A celery_parrot.cli.demo.app …``.

It reads where everything is from the environment that :mod:`.stage` prepares.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from celery import Celery, Task

from celery_parrot.cli.demo import app_names, journal
from celery_parrot.cli.demo.app_names import DIRECTORY, JOURNAL, REDIS, SCHEDULER, START
from celery_parrot.cli.demo.examples import AGENT, NAME, Example, examples, fails_by_design
from celery_parrot.clock import SystemClock
from celery_parrot.runtime.parrot import Parrot

_clock = SystemClock()
# Outside the demo (importing this module for its own sake) the defaults lead nowhere and start nothing.
_directory = Path(os.environ.get(DIRECTORY, "."))
_name = os.environ.get(SCHEDULER, NAME)
_start = datetime.fromisoformat(os.environ.get(START, "2000-01-01T00:00:00+00:00"))


class DemoFailure(Exception):
    """What a task raises that fails on purpose."""


def entry(example: Example) -> dict[str, Any]:
    """``example`` as an entry of ``beat_schedule``."""
    fields: dict[str, Any] = {"target": example.target, "kind": example.kind}
    if example.native:  # as it stands in thousands of projects, word for word
        fields = {"task": example.target, "schedule": float(example.schedule_config["seconds"])}
    else:
        fields |= {"schedule_type": example.schedule_type, "schedule_config": dict(example.schedule_config)}
    optional = {"prompt": example.prompt, "kwargs": dict(example.kwargs), "jitter": example.jitter}
    return fields | {key: value for key, value in optional.items() if value}


app = Celery(
    "demo",
    broker=os.environ.get(REDIS, "memory://"),
    # Results are an extra: fires and their outcomes are told without them.
    backend=f"db+sqlite:///{_directory / 'results.sqlite'}" if find_spec("sqlalchemy") else None,
)
app.conf.update(
    beat_scheduler="parrot",
    parrot_name=_name,
    parrot_kinds={AGENT: {"task": "demo.ask"}},
    parrot_send_events=True,  # Flower shows fires as they happen
    beat_schedule={example.name: entry(example) for example in examples(_start)},
    # All of the broker's keys and channels under a name of the demo's own: on a server that others use, its worker and
    # Flower then neither hear nor are heard by theirs, and everything can be removed.
    broker_transport_options={"global_keyprefix": app_names.key_prefix(_name)},
    task_default_queue="demo",
    task_track_started=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    result_expires=None,  # no daily clean-up of results that are gone with the demo
    enable_utc=True,
    timezone="UTC",
)
parrot = Parrot(app)


@contextmanager
def told(task: Task[..., Any]) -> Iterator[None]:
    """Write into the journal that the body began, and how it ended."""
    path, request = _directory / JOURNAL, task.request
    task_id, retries = str(request.id), int(request.retries or 0)
    journal.write(path, task_id, retries, journal.BEGUN)
    try:
        yield
    except DemoFailure:
        journal.write(path, task_id, retries, journal.FAILED)
        raise
    except BaseException:  # retry() is one
        journal.write(path, task_id, retries, journal.RETRIED)
        raise
    journal.write(path, task_id, retries, journal.DONE)


@app.task(bind=True, name="demo.work")
def work(self: Task[..., Any], seconds: float = 0.02) -> str:
    """Take a little time."""
    with told(self):
        _clock.sleep(seconds)
        return f"worked for {seconds:g} s"


@app.task(bind=True, name="demo.ask")
def ask(self: Task[..., Any], /, target: str, prompt: str = "", **_: object) -> str:
    """What a declared kind calls: the target first, then what the schedule says besides."""
    with told(self):
        _clock.sleep(0.3)
        return f"{target} was asked: {prompt}"


@app.task(bind=True, name="demo.retries")
def retries(self: Task[..., Any]) -> str:
    """Fail the first time, as networks do, and succeed at the second try: one fire all the same."""
    with told(self):
        if not self.request.retries:
            raise self.retry(countdown=0.5, max_retries=1)
        return "the second try did it"


@app.task(bind=True, name="demo.fails")
def fails(self: Task[..., Any]) -> str:
    """Fail at every other due time."""
    with told(self):
        due_at = datetime.fromisoformat((self.request.headers or {})["parrot"]["due_at"])
        if fails_by_design(due_at):
            raise DemoFailure("this one fails on purpose")
        return "went well this time"
