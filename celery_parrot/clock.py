"""The only place that reads a clock, sleeps or draws a random value.

Everything else takes a :class:`Clock`, so that tests drive time by hand.
"""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """This machine's time. Durations come from :meth:`monotonic`, never from :meth:`now`."""

    def now(self) -> datetime:
        """The wall clock of this machine, aware, UTC. Only for display and for skew warnings."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump; comparable within this process only."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
        ...

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Block until ``event`` is set or ``seconds`` have passed; true if it is set."""
        ...


class SystemClock:
    """The machine's own clock, shifted by ``offset`` seconds (tests inject a wrong clock that way)."""

    def __init__(self, offset: float = 0.0) -> None:
        self._offset = offset

    def now(self) -> datetime:
        return datetime.fromtimestamp(time.time() + self._offset, UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(seconds)


def new_id() -> str:
    """A random identity: of a process start, an epoch, a delivery."""
    return uuid.uuid4().hex
