"""An entry of due times that were not fired, around one of them that is fired after all."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.model.plan import NotFired
from celery_parrot.triggers import Trigger

COUNTED_MOST: Final = 1_000_000
"""Due times that are counted; of a longer stretch the counts of the two parts are only right together."""

_INSTANT: Final = timedelta(microseconds=1)


def around(
    trigger: Trigger | None, run: NotFired, due_at: datetime, rank: int | None = None
) -> tuple[NotFired | None, NotFired | None]:
    """What is left of ``run`` before and after ``due_at``, one of its due times.

    :param trigger: by which both ends are found; None, or one that tells otherwise by now, leaves them at the ends of
        the run.
    :param rank: how many due times of the run are before it; counted if not given.
    """
    rest = run.count - 1
    first, last = run.first < due_at, due_at < run.last
    if rank is None:
        rank = _count(trigger, run.first, due_at)
    before = max(min(rank, rest - last), 1) if first else 0
    after = max(rest - before, 1) if last else 0
    ends, begins = run.first, run.last
    if trigger is not None:
        ends = max(trigger.latest_at(due_at - _INSTANT) or run.first, run.first)
        begins = min(trigger.next_after(due_at) or run.last, run.last)
    return (
        replace(run, last=ends if before > 1 else run.first, count=before) if first else None,
        replace(run, first=begins if after > 1 else run.last, count=after) if last else None,
    )


def _count(trigger: Trigger | None, first: datetime, before: datetime) -> int:
    """The due times from ``first``, which is one, up to ``before``, which is none of them."""
    count, at = 1, first
    while trigger is not None and count < COUNTED_MOST:
        following = trigger.next_after(at)
        if following is None or following >= before:
            break
        count, at = count + 1, following
    return count
