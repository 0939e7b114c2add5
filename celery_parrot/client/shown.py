"""What every door shows as JSON: the fields of Python, instants in ISO 8601."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_parrot.client.applying import Step
from celery_parrot.client.view import ScheduleView
from celery_parrot.model.fire import FireRecord
from celery_parrot.model.plain import plain
from celery_parrot.triggers import Occurrence


def schedule_fields(view: ScheduleView, description: str | None) -> dict[str, Any]:
    """Definition and run state. :param description: of ``Schedules.describe``."""
    return {**plain(view), "description": description}


def fire_fields(record: FireRecord) -> dict[str, Any]:
    """All fields of a record, its key as ``schedule_id`` and ``due_at``."""
    fields = plain(record)
    key = fields.pop("key")
    return {"schedule_id": key["schedule_id"], "due_at": key["due_at"], **fields}


def occurrence_fields(one: Occurrence) -> dict[str, Any]:
    """A due time, or what a clock change takes away."""
    return {**plain(one), "fires": one.fires}


def step_fields(step: Step, shown: Callable[[str, Any], Any] = lambda field, value: value) -> dict[str, Any]:
    """A step of a comparison, without its version. :param shown: a field and its value, as it may be shown."""
    return {
        "name": step.name,
        "action": step.action.value,
        "store": step.store,
        "changes": {
            name: {"before": plain(shown(name, before)), "after": plain(shown(name, after))}
            for name, (before, after) in step.changes.items()
        },
        "field": step.field,
        "error": step.error,
    }
