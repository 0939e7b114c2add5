"""Where the undecided time of a row begins. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import EARLIEST, just_before, one_shot, sending_at
from celery_parrot.triggers import Trigger

OLDEST_CREATION = timedelta(days=30)
"""A new row that says it was created longer ago than this was carried over from elsewhere: it starts when it arrived,
or its first tick would have to account for years of due times that nobody was waiting for."""

ANCIENT = timedelta(days=366)
"""A mark this much older than the INSERT it came with is no outage, but a default of somebody's tool."""


def initial_mark(
    schedule: Schedule, trigger: Trigger, *, inserted_at: datetime, next_run: datetime | None = None
) -> datetime:
    """The mark of a row that was just inserted.

    Its creation; but a ``next_run`` that came with it is trusted, and a one-shot whose instant lies before its
    creation still has it before it.
    """
    oldest = inserted_at - OLDEST_CREATION if inserted_at - EARLIEST > OLDEST_CREATION else EARLIEST
    if next_run is not None and next_run >= oldest:
        due_at = trigger.latest_at(next_run)
        if schedule.policy.jitter and due_at is not None and sending_at(schedule, trigger, due_at) >= next_run:
            return just_before(due_at)
        return just_before(next_run)
    created = schedule.created_at or inserted_at
    if created < oldest:
        created = inserted_at
    instant = one_shot(trigger)
    return just_before(instant) if instant is not None and instant <= created else created


def undecided(trigger: Trigger, after: datetime, until: datetime, most: int) -> tuple[list[datetime], int, bool]:
    """Due times in ``(after, until]``: the first and last of them, how many, and whether ``most`` cut them short."""
    first = last = None
    count = 0
    due_at = trigger.next_after(after)
    while due_at is not None and due_at <= until:
        if count == most:
            assert first is not None
            assert last is not None
            return [first, last], count, True
        first = first or due_at
        last = due_at
        count += 1
        due_at = trigger.next_after(due_at)
    return ([] if first is None or last is None else [first, last]), count, False
