"""Ends fires that show no sign of life, and says so. Any beat may do it; the coordinator judges.

A fault here is said once and tried again in its time: it never keeps a fire from being sent.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from celery_parrot.clock import Clock
from celery_parrot.dispatch.limits import keeps_limits
from celery_parrot.dispatch.telling import Teller
from celery_parrot.errors import MemoryLost
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, Status
from celery_parrot.protocols import NEVER_STARTED, Coordinator, EventSink, Reaped

BATCH: Final = 200
"""In a database one look is one transaction, which must stay far from what ends it as frozen."""
HOLDING_EVERY: Final = 1.0
"""Seconds between two looks at what holds limits or waits for them."""

FIRE_UNKNOWN: Final = events.FIRE_UNKNOWN
REAPER_FAILED: Final = events.REAPER_FAILED
_MOST_SAID: Final = 50
NOBODY_SENT: Final = "not sent by its wait deadline: no beat knows its schedule or serves its kind"


class Reaper:
    """Looks at what holds limits every second, since others wait for it, and at everything every ``interval``."""

    def __init__(
        self, coordinator: Coordinator, clock: Clock, emit: EventSink, teller: Teller, interval: float
    ) -> None:
        self._coordinator, self._clock, self._events, self._tell = coordinator, clock, emit, teller.tell
        self._interval = interval
        self._limits = keeps_limits(coordinator)
        self._next = self._next_holding = clock.monotonic()
        self._fault = ""

    def run(self) -> bool:
        """Reap if it is time. True: there is something new in the outbox. Raises MemoryLost, which only its caller
        can mend, and nothing else."""
        now = self._clock.monotonic()
        everything = now >= self._next
        if not everything and not (self._limits and now >= self._next_holding):
            return False
        self._next_holding = now + HOLDING_EVERY
        if everything:
            self._next = now + self._interval
        try:
            reaped = self._coordinator.reap(limit=BATCH) if everything else self._holding()
        except MemoryLost:
            raise
        except Exception as exc:
            self._failed(f"{type(exc).__name__}: {exc}")
            return False
        self._fault = ""
        if len(reaped) >= BATCH:  # there may be more
            self._next_holding = now
            self._next = now if everything else self._next
        self._say(reaped)
        return any(one.named or one.again for one in reaped)

    def _holding(self) -> Sequence[Reaped]:
        return self._coordinator.reap(limit=BATCH, holding=True)

    def _failed(self, reason: str) -> None:
        if not self._fault:
            text = f"fires without a sign of life cannot be looked for, nothing else is delayed: {reason}"
            self._events.emit(Event(REAPER_FAILED, logging.ERROR, text, {"error": reason}))
        self._fault = reason

    def _say(self, reaped: Sequence[Reaped]) -> None:
        for one in reaped[:_MOST_SAID]:
            name, level, text = _described(one)
            fire = one.fire
            more = {"reason": fire.reason, "status": str(fire.status), "attempt": fire.attempt, "worker": fire.worker}
            self._tell(name, level, text, fire, **more)
        alike = Counter(
            (_described(one)[0], one.fire.kind, str(one.fire.status), one.fire.reason) for one in reaped[_MOST_SAID:]
        )
        for (name, kind, status, reason), count in alike.items():
            text = f"and {count} more of kind {kind} without a sign of life are {status}: {reason}"
            fields = {"kind": kind, "status": status, "reason": reason, "count": count}
            self._events.emit(Event(name, logging.ERROR, text, fields))


def _described(reaped: Reaped) -> tuple[str, int, str]:
    """``(event, level, text)``."""
    fire = reaped.fire
    if reaped.again:
        return events.FIRE_REAPED, logging.WARNING, f"{_reason(fire)}; sent again as attempt {fire.attempt}"
    if fire.status is Status.ABANDONED:
        return events.FIRE_REAPED, logging.ERROR, f"abandoned: {_reason(fire)}"
    if fire.status is Status.UNKNOWN:
        return FIRE_UNKNOWN, logging.WARNING, f"outcome unknown: {fire.reason or NEVER_STARTED}"
    if fire.status is Status.MISSED:
        return events.FIRE_MISSED, logging.ERROR, NOBODY_SENT
    level = logging.WARNING if fire.status is Status.EXPIRED else logging.ERROR
    return events.FIRE_EXPIRED, level, f"{fire.status} ({fire.reason}): it was never started"


def _reason(fire: Fire) -> str:
    return f"{fire.reason or 'no sign of life'}, worker {fire.worker}" if fire.worker else fire.reason
