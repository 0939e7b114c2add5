"""From a definition to its trigger, and from a due time to the instant it is sent at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from celery_parrot.model.schedule import Schedule
from celery_parrot.triggers import Bounded, Trigger, actual_at, build
from celery_parrot.triggers.once import Once

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


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


def following(schedule: Schedule, trigger: Trigger, mark: datetime, auto_count: int) -> datetime | None:
    """As :func:`next_sending`; None also where it is not enabled, or ``max_fires`` is used up.

    :param auto_count: how many automatic fires it has had.
    """
    most = schedule.policy.max_fires
    if not schedule.enabled or (most is not None and auto_count >= most):
        return None
    return next_sending(schedule, trigger, mark)


def one_shot(trigger: Trigger) -> datetime | None:
    """The instant of a trigger that has only one."""
    inner = trigger.trigger if isinstance(trigger, Bounded) else trigger
    return inner.run_date if isinstance(inner, Once) else None


def just_before(instant: datetime) -> datetime:
    """The mark that leaves ``instant`` undecided, and nothing before it."""
    return instant - timedelta(microseconds=1) if instant > EARLIEST else instant
