"""How many a second lately."""

from __future__ import annotations

from collections import deque
from typing import Final

from celery_parrot.clock import Clock

LOOKS_BACK: Final = 60.0
"""Seconds."""


class Pace:
    """Counts per second over the last minute; over the time since the start, where that is less."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started = clock.monotonic()
        self._seconds: deque[tuple[int, int]] = deque()

    def count(self, number: int) -> None:
        """So many just now."""
        if not number:
            return
        second = int(self._clock.monotonic())
        if self._seconds and self._seconds[-1][0] == second:
            number += self._seconds.pop()[1]
        self._seconds.append((second, number))
        self._forget()

    @property
    def per_second(self) -> float:
        """To a hundredth."""
        self._forget()
        since = max(1.0, min(LOOKS_BACK, self._clock.monotonic() - self._started))
        return round(sum(number for _, number in self._seconds) / since, 2)

    def _forget(self) -> None:
        oldest = self._clock.monotonic() - LOOKS_BACK
        while self._seconds and self._seconds[0][0] < oldest:
            self._seconds.popleft()
