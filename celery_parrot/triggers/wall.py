"""From local readings to instants: the one place that knows about clock changes.

Rules: DESIGN section 4 (DST). They follow Debian's cron for what a fixed time means, made explicit and symmetrical.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .instants import DAY, FIFTY_YEARS, instant, seconds_of
from .readings import Readings
from .zones import Stretch, Zone

GAPS = ("next_valid", "skip")
FOLDS = ("first", "last", "both")
_MARGIN = 2 * DAY


@dataclass(frozen=True, slots=True)
class WallClock:
    """Instants at which a clock in ``zone`` shows one of ``readings``.

    A continuous one takes every real instant whose reading matches. Else ``gap`` and ``fold`` say what becomes of
    readings that a change of the clock leaves out or shows twice.

    :ivar gap: ``next_valid``: once, at the first instant after the gap, several collapse to one; ``skip``: not at all.
    :ivar fold: ``first``, ``last`` or ``both`` passes of a repeated reading.
    """

    readings: Readings
    zone: Zone
    continuous: bool = False
    gap: str = "next_valid"
    fold: str = "first"

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t``, in UTC."""
        found = self.next(seconds_of(t) + 1)
        return None if found is None else instant(found)

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t``, in UTC."""
        found = self.prev(seconds_of(t))
        return None if found is None else instant(found)

    def next(self, second: int) -> int | None:
        """The smallest due second at or after ``second``."""
        limit = second + FIFTY_YEARS
        while second <= limit:
            stretch = self.zone.stretch(second)
            if second == stretch.start and self.moved(stretch):
                return second
            low = second + stretch.offset
            first, last = self.bounds(stretch)
            found = self.readings.next(max(low, first))
            if found is not None and found <= last:
                return found - stretch.offset
            # From here nothing is due before the clock shows `found`, unless the change at the end of the stretch
            # shows again what is already past.
            if low > stretch.end + stretch.after:
                second = stretch.end
            elif found is None:
                return None
            else:
                there = self._plain(found, stretch.offset)
                if there is not None:
                    return there
                second = max(stretch.end, found - _MARGIN)
        return None

    def prev(self, second: int) -> int | None:
        """The greatest due second at or before ``second``."""
        limit = second - FIFTY_YEARS
        while second >= limit:
            stretch = self.zone.stretch(second)
            high = second + stretch.offset
            first, last = self.bounds(stretch)
            found = self.readings.prev(min(high, last))
            if found is not None and found >= first:
                return found - stretch.offset
            if self.moved(stretch):
                return stretch.start
            if high < stretch.start + stretch.before:
                second = stretch.start - 1
            elif found is None:
                return None
            else:
                there = self._plain(found, stretch.offset)
                if there is not None:
                    return there
                second = min(stretch.start - 1, found + _MARGIN)
        return None

    def _plain(self, reading: int, offset: int) -> int | None:
        """The second at which the clock shows ``reading``, if it shows it exactly once: no change is near."""
        start, end, there, before, after = self.zone.stretch(reading - offset)
        if start + max(there, before) <= reading < end + min(there, after):
            return reading - there
        return None

    def moved(self, stretch: Stretch) -> bool:
        """Whether readings left out right before ``stretch`` are made up for at its start."""
        if self.continuous or self.gap != "next_valid" or stretch.offset <= stretch.before:
            return False
        left_out = self.readings.next(stretch.start + stretch.before)
        return left_out is not None and left_out < stretch.start + stretch.offset

    def bounds(self, stretch: Stretch) -> tuple[int, int]:
        """The first and last reading that count within ``stretch``."""
        start, end, offset, before, after = stretch
        first, last = start + offset, end + offset - 1
        if not self.continuous:
            if before > offset and self.fold == "first":
                first = start + before
            if after < offset and self.fold == "last":
                last = end + after - 1
        return first, last
