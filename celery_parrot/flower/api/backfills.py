"""Backfill over HTTP: a dry run is answered, a real one becomes a job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from celery_parrot.client import Backfill
from celery_parrot.errors import InvalidSchedule
from celery_parrot.flower.api.operations import Ask, Reply
from celery_parrot.flower.backfills import Job
from celery_parrot.flower.bridge import Refused
from celery_parrot.model.plain import plain

SHOWN: Final = 1000
"""Due times of a dry run that are listed; the total says how many there are."""

_NAMES: Final = {"start": "from", "end": "to"}


def begin(ask: Ask) -> Reply:
    """All that can be wrong with it is found by a dry run first, and refused at once."""
    body = dict(ask.body)
    dry_run = body.pop("dry_run", False)
    start, end = body.pop("from"), body.pop("to", None)
    client, name = ask.client, ask.name
    try:
        planned = client.backfill(name, start, end, dry_run=True, **body)
    except InvalidSchedule as error:
        raise InvalidSchedule(_NAMES.get(error.field, error.field), error.value, error.reason) from None
    if dry_run:
        return Reply(body=_plan(planned))

    def fill(progress: Callable[[Backfill], None], stop: threading.Event) -> Backfill:
        return client.backfill(planned.schedule_id, start, end, progress=progress, stop=stop, **body)

    job = ask.desk.backfills.start(planned, fill, ask.actor)
    return Reply(body=job.to_json(), status=202, at=f"/backfills/{job.id}")


def listed(ask: Ask) -> Reply:
    return Reply(body={"items": [job.to_json() for job in ask.desk.backfills.all()]})


def get(ask: Ask) -> Reply:
    return Reply(body=_job(ask).to_json())


def cancel(ask: Ask) -> Reply:
    job = _job(ask)
    job.stop.set()
    return Reply(body=job.to_json())


def _job(ask: Ask) -> Job:
    job = ask.desk.backfills.get(str(ask.given["id"]))
    if job is None:
        raise Refused(
            404, "not_found", "There is no such backfill: one is known to the Flower that it was asked of, until an "
            "hour after its end."
        )  # fmt: skip
    return job


def _plan(planned: Backfill) -> dict[str, Any]:
    return {
        "name": planned.name,
        "schedule_id": planned.schedule_id,
        "start": plain(planned.start),
        "end": plain(planned.end),
        "total": len(planned.due_times),
        "fired": planned.fired,
        "due_times": [at.isoformat() for at in planned.due_times[:SHOWN]],
    }
