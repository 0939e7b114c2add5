"""The coordinator's clock, as this process knows it between two calls.

Built on this process's monotonic clock, so that neither a wrong nor a stepping wall clock of this machine moves a
due time. The wall clock is read only to warn about it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from celery_parrot.clock import Clock

STEP = 1.0
"""Seconds by which a reading may differ from the expected before the coordinator's clock is said to have stepped."""

_GOOD_ROUND_TRIP = 0.1
_STALE_AFTER = 30.0


class Timekeeper:
    """Estimates the coordinator's now.

    :ivar steady: False after a reading that contradicts the ones before, until two readings in a row agree.
        Nothing may be committed meanwhile.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base: tuple[datetime, float] | None = None
        self._suspect: tuple[datetime, float] | None = None
        self.steady = False

    def observe(self, now: datetime, asked: float, answered: float) -> None:
        """Take in a reading; ``asked`` and ``answered`` are monotonic stamps around the call."""
        round_trip = answered - asked
        reading = (now + timedelta(seconds=round_trip / 2), answered)
        if self._base is None or _agree(self._base, reading, round_trip):
            old = self._base is None or answered - self._base[1] > _STALE_AFTER
            if old or round_trip <= _GOOD_ROUND_TRIP:
                self._base = reading
            self._suspect, self.steady = None, True
        elif self._suspect is not None and _agree(self._suspect, reading, round_trip):
            self._base, self._suspect, self.steady = reading, None, True
        else:
            self._suspect, self.steady = reading, False

    def now(self) -> datetime:
        """The coordinator's clock, UTC, within half a round trip. Raises RuntimeError before the first reading."""
        if self._base is None:
            raise RuntimeError("the coordinator's clock was never read")
        return _project(self._base, self._clock.monotonic())

    @property
    def skew(self) -> float:
        """Seconds by which this machine's wall clock is ahead of the coordinator's; 0 before the first reading."""
        if self._base is None:
            return 0.0
        return (self._clock.now() - self.now()).total_seconds()


def _project(base: tuple[datetime, float], at: float) -> datetime:
    return base[0] + timedelta(seconds=at - base[1])


def _agree(base: tuple[datetime, float], reading: tuple[datetime, float], round_trip: float) -> bool:
    difference = reading[0] - _project(base, reading[1])
    return abs(difference.total_seconds()) <= STEP + round_trip / 2
