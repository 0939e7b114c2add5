"""How many due times a trigger has in each minute of a stretch of time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from celery_parrot.triggers import Bounded, Trigger
from celery_parrot.triggers.instants import MICRO, micros_of
from celery_parrot.triggers.interval import Interval

CELL: Final = 60
"""Seconds of one cell."""
MOST_IN_A_CELL: Final = 10
"""Due times that are looked at one by one in a cell. Intervals, which are counted by arithmetic, have no such end."""

_CELL_MICROS: Final = CELL * MICRO
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Span:
    """:ivar start: of cell 0. :ivar cells: how many there are. :ivar after: only due times strictly after it count."""

    start: datetime
    cells: int
    after: datetime

    @property
    def end(self) -> datetime:
        """The first instant that lies in no cell."""
        return self.start + timedelta(seconds=self.cells * CELL)


@dataclass(frozen=True, slots=True)
class Counts:
    """:ivar cells: due times by cell, in order; empty cells are left out.
    :ivar capped: some cell has more than its count says.
    """

    cells: Mapping[int, int]
    capped: bool = False


def counts_of(trigger: Trigger, span: Span) -> Counts:
    """The due times of ``trigger`` within ``span``. Raises whatever the trigger does.

    :raises ValueError: if the trigger does not get on.
    """
    inner = trigger.trigger if isinstance(trigger, Bounded) else trigger
    if isinstance(inner, Interval) and inner.every < _CELL_MICROS:
        return Counts(_by_arithmetic(inner, *_bounds(trigger, span), micros_of(span.start)))
    return _one_by_one(trigger, span)


def at_most(counts: Counts, most: int) -> Counts:
    """The first ``most`` of them."""
    kept: dict[int, int] = {}
    for cell, count in counts.cells.items():
        if most <= 0:
            break
        kept[cell] = min(count, most)
        most -= count
    return Counts(kept, counts.capped)


def _bounds(trigger: Trigger, span: Span) -> tuple[int, int]:
    """The first and the last microsecond that count."""
    first, last = max(micros_of(span.after) + 1, micros_of(span.start)), micros_of(span.end) - 1
    if isinstance(trigger, Bounded):
        if trigger.start_at is not None:
            first = max(first, micros_of(trigger.start_at))
        if trigger.end_at is not None:
            last = min(last, micros_of(trigger.end_at))
    return first, last


def _by_arithmetic(interval: Interval, first: int, last: int, start: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for cell in range((first - start) // _CELL_MICROS, (last - start) // _CELL_MICROS + 1):
        opens = start + cell * _CELL_MICROS
        begin, end = max(first, opens), min(last, opens + _CELL_MICROS - 1)
        count = (end - interval.offset) // interval.every - (begin - 1 - interval.offset) // interval.every
        if count > 0:
            found[cell] = count
    return found


def _one_by_one(trigger: Trigger, span: Span) -> Counts:
    found: dict[int, int] = {}
    capped = False
    start, end, at = micros_of(span.start), span.end, span.after
    while (due := trigger.next_after(at)) is not None and due < end:
        if due <= at:
            raise ValueError(f"its due time after {at.isoformat()} is {due.isoformat()}")
        cell = (micros_of(due) - start) // _CELL_MICROS
        if found.get(cell, 0) == MOST_IN_A_CELL:
            capped, at = True, span.start + timedelta(seconds=(cell + 1) * CELL) - _MICROSECOND
            continue
        found[cell] = found.get(cell, 0) + 1
        at = due
    return Counts(found, capped)
