"""Where the undecided time of a schedule begins, and what lies in it. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery_parrot.model.fire import Status
from celery_parrot.model.plan import NotFired
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import just_before, next_sending, one_shot
from celery_parrot.triggers import Trigger
from celery_parrot.triggers.interval import Interval

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)

COUNTED: Final = 100_000
"""Due times that one range counts one by one; a longer one says at least so many."""


def score(moment: datetime | None) -> str:
    """Milliseconds since 1970, rounded up: at that instant it is due, and not before."""
    return "" if moment is None else str(-((_EPOCH - moment) // _MILLISECOND))


def floor_ms(moment: datetime) -> str:
    return str((moment - _EPOCH) // _MILLISECOND)


def from_score(text: bytes | str) -> datetime | None:
    if not text:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=round(float(text)))
    except (OverflowError, ValueError):
        return None


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def first_mark(trigger: Trigger, now: datetime) -> datetime:
    """Of a new schedule: now; of a one-shot, just before its instant if that has passed."""
    instant = one_shot(trigger)
    return now if instant is None else min(now, just_before(instant))


def placed(schedule: Schedule, trigger: Trigger, mark: datetime) -> datetime | None:
    """As ``planning.following``, whatever was fired: the script that places it knows how much that is by then."""
    return next_sending(schedule, trigger, mark) if schedule.enabled else None


def when_of(schedule: Schedule) -> Any:
    """Everything that decides due times. A change of it is an edit of *when*."""
    policy = schedule.policy
    config = dict(schedule.schedule_config)
    bounds = (policy.start_at, policy.end_at, policy.dst_gap, policy.dst_fold)
    return schedule.schedule_type, config, schedule.timezone, bounds, schedule.enabled


def undecided(trigger: Trigger, after: datetime, until: datetime, status: Status, reason: str) -> tuple[NotFired, ...]:
    """The due times in ``(after, until]`` as one range, if there are any."""
    first = trigger.next_after(after)
    if first is None or first > until:
        return ()
    if isinstance(trigger, Interval):
        last = trigger.latest_at(until) or first
        count = (last - first) // timedelta(microseconds=trigger.every) + 1
        return (NotFired(status, reason, first, last, count),)
    last, count = first, 1
    following = trigger.next_after(first)
    while following is not None and following <= until and count < COUNTED:
        last, count = following, count + 1
        following = trigger.next_after(following)
    if count == COUNTED:
        last = trigger.latest_at(until) or last
    return (NotFired(status, reason, first, last, count),)
