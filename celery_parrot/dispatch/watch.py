"""Says what is wrong with the coordinator or with this machine's clock: once when it begins, now and then while it
lasts, once when it is over."""

from __future__ import annotations

import logging

from celery_parrot.clock import Clock
from celery_parrot.dispatch.health import LOCK_UNAVAILABLE
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.protocols import EventSink

_REPEAT = 10.0
_REPEAT_SKEW = 60.0
_NOTICEABLE_SKEW = 0.5


class Watch:
    """Remembers since when something is wrong."""

    def __init__(self, clock: Clock, emit: EventSink, max_clock_skew: float) -> None:
        self._clock, self._events, self._max_clock_skew = clock, emit, max_clock_skew
        self._since = clock.monotonic()
        self._down = ""
        self._said: float | None = None
        self._said_skew: float | None = None

    @property
    def status(self) -> tuple[str, float, str]:
        """``(status, monotonic stamp since, reason)``; status is ``ok`` or ``lock_unavailable``."""
        return (LOCK_UNAVAILABLE if self._down else "ok"), self._since, self._down

    def unreachable(self, reason: str) -> None:
        """The coordinator could not be asked."""
        now = self._clock.monotonic()
        if not self._down:
            self._since, self._said = now, None
        self._down = reason or "unreachable"
        if self._said is None or now - self._said >= _REPEAT:
            self._said = now
            text = f"{LOCK_UNAVAILABLE}: the coordinator cannot be asked, nothing is sent, due times stay due: {reason}"
            fields = {"status": LOCK_UNAVAILABLE, "for": round(now - self._since, 1)}
            self._events.emit(Event(events.LOCK_UNAVAILABLE, logging.WARNING, text, fields))

    def reachable(self) -> None:
        """The coordinator was asked and answered."""
        if not self._down:
            return
        now = self._clock.monotonic()
        text = f"the coordinator is back after {now - self._since:.1f} s"
        self._events.emit(Event(events.COORDINATOR_BACK, logging.WARNING, text, {"for": round(now - self._since, 1)}))
        self._down, self._since = "", now

    def stepped(self) -> None:
        """The coordinator's clock contradicts its earlier readings."""
        text = "the coordinator's clock stepped: nothing is committed until two readings agree"
        self._events.emit(Event(events.CLOCK_STEP, logging.WARNING, text))

    def skew(self, seconds: float) -> None:
        """This machine's wall clock is ``seconds`` ahead. Harmless for due times, so it only warns."""
        if abs(seconds) < _NOTICEABLE_SKEW:
            self._said_skew = None
            return
        now = self._clock.monotonic()
        if self._said_skew is not None and now - self._said_skew < _REPEAT_SKEW:
            return
        self._said_skew = now
        loud = abs(seconds) > self._max_clock_skew
        side = "ahead of" if seconds > 0 else "behind"
        text = f"this machine's clock is {abs(seconds):.1f} s {side} the coordinator's"
        text += "; due times follow the coordinator's" + (", but mend this clock" if loud else "")
        level = logging.ERROR if loud else logging.WARNING
        self._events.emit(Event(events.CLOCK_SKEW, level, text, {"skew": round(seconds, 3)}))
