"""The wake channel within one process."""

from __future__ import annotations

import threading

from celery_parrot.clock import Clock, SystemClock


class MemoryWake:
    """Wakes the beats of this process. Each beat takes its own :meth:`listener`; the object itself is the first.

    A wake-up between two waits is kept: the next :meth:`wait` returns at once.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._event = threading.Event()
        self._all: list[threading.Event] = [self._event]
        self._lock = threading.Lock()

    def listener(self) -> MemoryWake:
        """Another end of the same channel, for another beat."""
        other = MemoryWake(self._clock)
        other._all, other._lock = self._all, self._lock
        with self._lock:
            self._all.append(other._event)
        return other

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken."""
        woken = self._clock.wait(self._event, seconds)
        if woken:  # else it may have been set since, and is the next wait's
            self._event.clear()
        return woken

    def wake(self) -> None:
        """Wake every listener, the caller's own included."""
        with self._lock:
            for event in self._all:
                event.set()

    def close(self) -> None:
        """Stop listening; a wait in another thread ends."""
        with self._lock:
            if self._event in self._all:
                self._all.remove(self._event)
        self._event.set()
