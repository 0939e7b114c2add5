"""The next due times as a person wants to see them, with what clock changes do to each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from .base import Trigger
from .bounded import Bounded
from .clocked import ClockTrigger
from .instants import EPOCH, instant, seconds_of
from .wall import WallClock
from .zones import Stretch

Mark = Literal["", "moved", "repeated", "dropped"]
_NAIVE_EPOCH = EPOCH.replace(tzinfo=None)
_MOST_COUNTED = 10_000


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One due time, or readings that a clock change takes away.

    :ivar due_at: UTC. Of a dropped one the instant of the clock change.
    :ivar local: ``due_at`` in the schedule's zone; UTC where the trigger has none.
    :ivar reading: what the clock was meant to show, naive.
    :ivar mark: ``moved``: the reading does not exist and is made up for here; ``repeated``: the reading is shown twice;
        ``dropped``: nothing is due here; else empty.
    :ivar count: of a dropped one, how many readings are concerned, ``reading`` being the first.
    """

    due_at: datetime
    local: datetime
    reading: datetime
    mark: Mark = ""
    count: int = 1

    @property
    def fires(self) -> bool:
        """Whether something is due."""
        return self.mark != "dropped"


def preview(trigger: Trigger, after: datetime, n: int) -> tuple[Occurrence, ...]:
    """The next ``n`` due times strictly after ``after``, ascending, with the dropped readings between them besides.

    :param after: aware. :param n: how many due times; dropped readings do not count.
    """
    inner = trigger.trigger if isinstance(trigger, Bounded) else trigger
    clock = inner.clock if isinstance(inner, ClockTrigger) else None
    found: list[Occurrence] = []
    since = seconds_of(after)
    for _ in range(n):
        due = trigger.next_after(after)
        if due is None:
            break
        after = due
        if clock is None:
            utc = due.astimezone(UTC)
            found.append(Occurrence(utc, utc, utc.replace(tzinfo=None)))
        else:
            found.extend(_dropped(clock, since, seconds_of(due)))
            found.append(_due(clock, due))
            since = seconds_of(due)
    if isinstance(trigger, Bounded) and trigger.start_at is not None:
        start = trigger.start_at
        found = [occurrence for occurrence in found if occurrence.due_at >= start]
    return tuple(found)


def _due(clock: WallClock, due: datetime) -> Occurrence:
    second = seconds_of(due)
    stretch = clock.zone.stretch(second)
    reading = second + stretch.offset
    mark: Mark = ""
    if second == stretch.start and clock.moved(stretch) and clock.readings.next(reading) != reading:
        left_out = clock.readings.next(stretch.start + stretch.before)
        reading, mark = reading if left_out is None else left_out, "moved"
    elif reading < stretch.start + stretch.before or reading >= stretch.end + stretch.after:
        mark = "repeated"
    return Occurrence(due, due.astimezone(clock.zone.info), _naive(reading), mark)


def _dropped(clock: WallClock, since: int, until: int) -> Iterator[Occurrence]:
    """What the clock changes in ``(since, until]`` take away."""
    stretch = clock.zone.stretch(since)
    while stretch.end <= until:
        stretch = clock.zone.stretch(stretch.end)
        first, count = _lost(clock, stretch)
        at = instant(stretch.start)
        if first is not None and count and at is not None:
            yield Occurrence(at, at.astimezone(clock.zone.info), _naive(first), "dropped", count)


def _lost(clock: WallClock, stretch: Stretch) -> tuple[int | None, int]:
    """The first reading that the change at the start of ``stretch`` takes away, and how many."""
    start, _, offset, before, _ = stretch
    if offset == before or (offset < before and (clock.continuous or clock.fold == "both")):
        return None, 0
    lost = _within(clock, start + min(offset, before), start + max(offset, before))
    natural = clock.readings.next(start + offset) == start + offset
    if lost and clock.moved(stretch) and not natural:
        lost = lost[1:]
    return (lost[0], len(lost)) if lost else (None, 0)


def _within(clock: WallClock, first: int, end: int) -> list[int]:
    """The readings from ``first`` to before ``end``."""
    found: list[int] = []
    reading = clock.readings.next(first)
    while reading is not None and reading < end and len(found) < _MOST_COUNTED:
        found.append(reading)
        reading = clock.readings.next(reading + 1)
    return found


def _naive(reading: int) -> datetime:
    return _NAIVE_EPOCH + timedelta(seconds=reading)
