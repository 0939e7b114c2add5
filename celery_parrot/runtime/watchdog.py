"""Says that the loop of this beat stands still, and where: the loop itself cannot.

It tells nobody but the log. A beat is alive to others as long as its loop says so itself: were it said here, a dead
loop would look alive.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Final

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.dispatch.health import STALLED, Health

logger = logging.getLogger("celery_parrot")

_LOOK_EVERY: Final = 0.5
_REPEAT: Final = 60.0
_FRAMES: Final = 4


class Watchdog:
    """Watches the thread that calls :meth:`start`, which is the one that ticks. A daemon thread of its own.

    :param health: asked for the state of the loop; must not wait for anything.
    """

    def __init__(self, health: Callable[[], Health], clock: Clock | None = None) -> None:
        self._health, self._clock = health, clock or SystemClock()
        self._watched = 0
        self._since: float | None = None
        self._said = 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, if it has not begun."""
        if self._thread is None:
            self._watched = threading.get_ident()
            self._thread = threading.Thread(target=self._run, name="parrot-watchdog", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End soon; nothing is waited for."""
        self._over.set()

    def look(self) -> None:
        """Say what there is to say now."""
        health, now = self._health(), self._clock.monotonic()
        if health.status == STALLED:
            first = self._since is None
            self._since = health.since
            if first or now - self._said >= _REPEAT:
                self._said = now
                text = "this beat's loop has stood still for %.0f s and claims nothing; others act for it. It is in %s"
                logger.critical(text, now - health.since, self._where())
        elif self._since is not None:
            logger.warning("this beat's loop goes on, after %.0f s", now - self._since)
            self._since = None

    def _run(self) -> None:
        while not self._clock.wait(self._over, _LOOK_EVERY):
            self.look()

    def _where(self) -> str:
        """The innermost calls of the loop, outermost first; no values."""
        frame = sys._current_frames().get(self._watched)
        if frame is None:
            return "a thread that has ended"
        calls = traceback.extract_stack(frame)[-_FRAMES:]
        return " > ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in calls)
