"""From a definition to its trigger, and from a due time to the instant it is sent at."""

from __future__ import annotations

from datetime import datetime

from celery_parrot.model.schedule import Schedule
from celery_parrot.triggers import Bounded, Trigger, actual_at, build


def trigger_of(schedule: Schedule) -> Trigger:
    """The trigger of a definition, within its bounds and with its treatment of clock changes.

    Raises :exc:`~celery_parrot.errors.InvalidSchedule` naming the field at fault.
    """
    policy = schedule.policy
    treatment = {"dst_gap": policy.dst_gap, "dst_fold": policy.dst_fold}
    trigger = build(
        schedule.schedule_type,
        {**{key: value for key, value in treatment.items() if value is not None}, **schedule.schedule_config},
        schedule_id=schedule.schedule_id,
        created_at=schedule.created_at,
        timezone=schedule.timezone,
    )
    if policy.start_at is None and policy.end_at is None:
        return trigger
    return Bounded(trigger, policy.start_at, policy.end_at)


def sending_at(schedule: Schedule, trigger: Trigger, due_at: datetime) -> datetime:
    """``due_at`` plus its share of the schedule's jitter: the same on every beat, before the next due time.

    Lateness, grace and deadlines count from here; identity and order stay with ``due_at``.
    """
    return actual_at(trigger, schedule.schedule_id, due_at, schedule.policy.jitter)


def next_sending(schedule: Schedule, trigger: Trigger, mark: datetime) -> datetime | None:
    """The sending instant of the first due time after ``mark``, or None if nothing more will come."""
    due_at = trigger.next_after(mark)
    return None if due_at is None else sending_at(schedule, trigger, due_at)
