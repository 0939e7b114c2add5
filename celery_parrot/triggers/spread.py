"""Chance that is the same everywhere: hashes instead of random numbers."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from math import isfinite

from celery_parrot.errors import InvalidSchedule

from .base import Trigger
from .instants import FIFTY_YEARS, MICRO, utc

_MICROSECOND = timedelta(microseconds=1)


def draw(*parts: object) -> int:
    """A number of 0 to 2**64 - 1, evenly spread, the same for the same ``parts`` in every process and for ever."""
    # A lone surrogate has no UTF-8, but JSON can hold one, and so can an id.
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest())


def jitter_of(
    schedule_id: str, due_at: datetime, jitter: float | timedelta | None, gap: timedelta | None = None
) -> timedelta:
    """How much later than ``due_at`` a fire is sent: ``hash(id, due_at) mod min(jitter, gap)``.

    :param due_at: aware. :param jitter: seconds or a timedelta; None, 0 or less: none.
    :param gap: the time to the following due time; None if there is none.
    :returns: at least 0 and less than both ``jitter`` and ``gap``, to the microsecond.
    """
    if not jitter:
        return timedelta(0)
    if isinstance(jitter, float) and not isfinite(jitter):
        raise InvalidSchedule("jitter", jitter, "must be a finite number of seconds")
    micros = jitter // _MICROSECOND if isinstance(jitter, timedelta) else round(jitter * MICRO)
    micros = min(micros, FIFTY_YEARS * MICRO if gap is None else gap // _MICROSECOND)
    if micros <= 0:
        return timedelta(0)
    return timedelta(microseconds=draw("jitter", schedule_id, utc(due_at).isoformat()) % micros)


def actual_at(trigger: Trigger, schedule_id: str, due_at: datetime, jitter: float | timedelta | None) -> datetime:
    """When the fire of ``due_at`` is sent, in UTC: from here lateness, grace and deadlines count.

    A due time within the last ``jitter`` of year 9999 is sent at once.
    """
    due = utc(due_at)
    if not jitter:
        return due
    following = trigger.next_after(due)
    later = jitter_of(schedule_id, due, jitter, None if following is None else following - due)
    try:
        return due + later
    except OverflowError:
        return due
