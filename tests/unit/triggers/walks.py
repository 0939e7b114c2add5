"""Due times in a row, and refusals: what most tests here look at."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from celery_parrot.errors import InvalidSchedule
from celery_parrot.triggers import Trigger, build

MICROSECOND = timedelta(microseconds=1)


def following(trigger: Trigger, after: datetime, count: int) -> list[datetime]:
    """The next ``count`` due times after ``after``."""
    found: list[datetime] = []
    due = trigger.next_after(after)
    while due is not None and len(found) < count:
        found.append(due)
        due = trigger.next_after(due)
    return found


def preceding(trigger: Trigger, before: datetime, count: int) -> list[datetime]:
    """The last ``count`` due times before ``before``, latest first."""
    found: list[datetime] = []
    due = trigger.latest_at(before - MICROSECOND)
    while due is not None and len(found) < count:
        found.append(due)
        due = trigger.latest_at(due - MICROSECOND)
    return found


def within(trigger: Trigger, begin: datetime, end: datetime) -> list[datetime]:
    """The due times from ``begin`` to before ``end``, found forwards."""
    found: list[datetime] = []
    due = trigger.next_after(begin - MICROSECOND)
    while due is not None and due < end:
        found.append(due)
        due = trigger.next_after(due)
    return found


def within_backwards(trigger: Trigger, begin: datetime, end: datetime) -> list[datetime]:
    """The same, found backwards, in ascending order."""
    found: list[datetime] = []
    due = trigger.latest_at(end - MICROSECOND)
    while due is not None and due >= begin:
        found.append(due)
        due = trigger.latest_at(due - MICROSECOND)
    return found[::-1]


def refusal(schedule_type: str, config: object, **more: object) -> InvalidSchedule:
    """What ``build`` raises, which must be exactly that."""
    with pytest.raises(InvalidSchedule, match=r"\w") as caught:
        build(schedule_type, config, **more)  # type: ignore[arg-type]
    assert type(caught.value) is InvalidSchedule
    assert caught.value.reason
    return caught.value
