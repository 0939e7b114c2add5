"""A stop that arrives in the middle of a tick waits for its end, but not for long.

Celery stops a beat by raising SystemExit from a signal handler, wherever the main thread is. Between a publish and its
confirm that would leave a message sent and its fire unsent: another beat would send it again.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

GRACE = 0.3
"""Seconds a stop waits for the end of a tick. A tick takes longer only where a backend hangs."""

_STOPS = (signal.SIGTERM, signal.SIGINT)

Handler = Callable[[int, FrameType | None], Any]

_let_through = False  # whether a stop was passed on to Celery's handler, which raises SystemExit wherever it is


def contained(call: Callable[[], T]) -> T:
    """Call code of the user's within a tick. Its ``sys.exit()`` is a failure of its own, not the end of this beat.

    :raises RuntimeError: it called ``sys.exit()``. Otherwise whatever it raises.
    """
    try:
        return call()
    except SystemExit as exc:
        if _let_through:
            raise
        raise RuntimeError(f"called sys.exit({exc.code!r})") from exc


class Shield:
    """Puts off SIGTERM and SIGINT while a tick runs. Does nothing outside of the main thread."""

    def __init__(self) -> None:
        self._originals: dict[int, Handler] = {}
        self._shielded = False
        self._waiting: int | None = None
        self._timer: threading.Timer | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Around what must not be cut short. A stop that came meanwhile happens at the end of it, as an exception
        that the original handler raises."""
        self._install()
        self._shielded = True
        try:
            yield
        finally:
            self._shielded = False
            self._disarm()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._stop(waiting, None)

    def remove(self) -> None:
        """Put the original handlers back."""
        self._disarm()
        originals, self._originals = self._originals, {}
        if threading.current_thread() is not threading.main_thread():
            return
        for number, original in originals.items():
            if signal.getsignal(number) == self._on_signal:
                signal.signal(number, original)

    # --- inside ---

    def _install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _STOPS:
            current = signal.getsignal(number)
            if callable(current) and current != self._on_signal:
                self._originals[number] = current
                signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._shielded and self._waiting is None:
            self._waiting = number
            self._timer = threading.Timer(GRACE, os.kill, (os.getpid(), number))
            self._timer.daemon = True
            self._timer.start()
            return
        # Not in a tick, or it has been waited for long enough, or somebody is impatient.
        self._waiting = None
        self._disarm()
        self._stop(number, frame)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        global _let_through
        _let_through = True
        self._originals[number](number, frame)

    def _disarm(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
