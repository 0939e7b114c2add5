"""The next ten due times as a source's own schedule objects name them, its clock standing at the one before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def ten(schedule: Any, last: datetime, now: datetime) -> list[str]:
    """Of a Celery schedule object whose last run was at ``last``: those after ``now``."""
    found: list[str] = []
    at = last
    while len(found) < 10:
        schedule.nowfun = lambda at=at: at
        left = schedule.remaining_estimate(at)
        if left is None:
            break
        at = (at.astimezone(UTC) + left).astimezone(at.tzinfo)  # a beat waits so many real seconds
        if at > now:
            found.append(text(at))
    schedule.nowfun = None
    return found


def text(at: datetime) -> str:
    """In UTC, to the second where it is one."""
    return at.astimezone(UTC).isoformat()
