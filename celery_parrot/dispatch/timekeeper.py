"""The coordinator's clock, as this process knows it between two calls.

Built on this process's monotonic clock, so that neither a wrong nor a stepping wall clock of this machine moves a
due time. The wall clock is read only to warn about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_parrot.clock import Clock

STEP = 1.0
"""Seconds by which a reading may differ from the expected before the coordinator's clock is said to have stepped."""

_GOOD_ROUND_TRIP = 0.1
_STALE_AFTER = 30.0


@dataclass(frozen=True, slots=True)
class _Reading:
    """The coordinator said ``now`` when our monotonic clock stood at ``at``, give or take a round trip."""

    now: datetime
    at: float
    round_trip: float


class Timekeeper:
    """Estimates the coordinator's now.

    :ivar steady: False after a reading that contradicts the ones before, until two readings in a row agree.
        Nothing may be committed meanwhile.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._base: _Reading | None = None
        self._suspect: _Reading | None = None
        self.steady = False

    def observe(self, now: datetime, asked: float, answered: float) -> None:
        """Take in a reading; ``asked`` and ``answered`` are monotonic stamps around the call."""
        # The answer to a slow call may have come at once: better late than early.
        half = timedelta(seconds=min(answered - asked, _GOOD_ROUND_TRIP) / 2)
        reading = _Reading(now + half, answered, answered - asked)
        if self._base is None or _agree(self._base, reading):
            old = self._base is None or answered - self._base.at > _STALE_AFTER
            if old or reading.round_trip <= max(_GOOD_ROUND_TRIP, self._base.round_trip if self._base else 0.0):
                self._base = reading
            self._suspect, self.steady = None, True
        elif self._suspect is not None and _agree(self._suspect, reading):
            self._base, self._suspect, self.steady = reading, None, True
        else:
            self._suspect, self.steady = reading, False

    def now(self) -> datetime:
        """The coordinator's clock, UTC, behind by at most one round trip and never ahead by more
        than half a good one. Raises RuntimeError before the first reading."""
        if self._base is None:
            raise RuntimeError("the coordinator's clock was never read")
        return _project(self._base, self._clock.monotonic())

    @property
    def skew(self) -> float:
        """Seconds by which this machine's wall clock is ahead of the coordinator's; 0 before the first reading."""
        if self._base is None:
            return 0.0
        return (self._clock.now() - self.now()).total_seconds()


def _project(base: _Reading, at: float) -> datetime:
    return base.now + timedelta(seconds=at - base.at)


def _agree(base: _Reading, reading: _Reading) -> bool:
    """Either may be behind by its own round trip."""
    difference = reading.now - _project(base, reading.at)
    return abs(difference.total_seconds()) <= STEP + max(base.round_trip, reading.round_trip)
