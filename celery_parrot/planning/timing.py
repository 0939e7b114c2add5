"""From a due time to the instant it is sent at."""

from __future__ import annotations

from datetime import datetime

from celery_parrot.model.schedule import Schedule
from celery_parrot.triggers import jitter_of
from celery_parrot.triggers.base import Trigger


def sending_at(schedule_id: str, trigger: Trigger, due_at: datetime, jitter: float) -> datetime:
    """``due_at`` plus its share of ``jitter`` (seconds): the same on every beat, before the next due time.

    Lateness, grace and deadlines count from here; identity and order stay with ``due_at``.
    """
    if jitter <= 0:
        return due_at
    following = trigger.next_after(due_at)
    gap = None if following is None else following - due_at
    return due_at + jitter_of(schedule_id, due_at, jitter, gap)


def next_sending(schedule: Schedule, trigger: Trigger, mark: datetime) -> datetime | None:
    """The sending instant of the first due time after ``mark``, or None if nothing more will come."""
    due_at = trigger.next_after(mark)
    if due_at is None:
        return None
    return sending_at(schedule.schedule_id, trigger, due_at, schedule.policy.jitter)
