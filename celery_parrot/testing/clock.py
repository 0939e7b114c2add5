"""A clock that moves only when told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta


class FakeClock:
    """A :class:`~celery_parrot.clock.Clock` driven by hand.

    :param start: the first reading; aware. Default 2026-01-01T00:00Z.
    :param offset: seconds by which its wall clock (not its monotonic one) is wrong.
    :param source: another fake clock to follow, e.g. one "true time" for the clocks of several processes.
    """

    def __init__(self, start: datetime | None = None, *, offset: float = 0.0, source: FakeClock | None = None) -> None:
        self._source = source
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = timedelta(0)
        self.offset = offset

    def now(self) -> datetime:
        """The wall clock, wrong by ``offset``."""
        base = self._source.now() if self._source is not None else self._start + self._elapsed
        return base + timedelta(seconds=self.offset)

    def monotonic(self) -> float:
        """Seconds since the start, never wrong."""
        if self._source is not None:
            return self._source.monotonic()
        return self._elapsed.total_seconds()

    def sleep(self, seconds: float) -> None:
        """Move time instead of waiting."""
        self.advance(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Move time unless the event is set already."""
        if not event.is_set():
            self.advance(seconds)
        return event.is_set()

    def advance(self, seconds: float) -> None:
        """Let ``seconds`` (0 or more) pass."""
        if seconds < 0:
            raise ValueError(f"time does not run back: advance({seconds})")
        if self._source is not None:
            self._source.advance(seconds)
        else:
            self._elapsed += timedelta(seconds=seconds)

    def move_to(self, instant: datetime) -> None:
        """Let time pass until ``instant``."""
        self.advance((instant - (self.now() - timedelta(seconds=self.offset))).total_seconds())
