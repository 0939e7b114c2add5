"""What the scheduler tells the world: one constant a name, and the value that carries it.

Every event is a log record; with ``parrot_send_events`` those of fires and schedules are Celery events as well.
Fields never hold arguments of a task.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TICK_STARTED: Final = "tick-started"
TICK_COMPLETED: Final = "tick-completed"
FIRE_CLAIMED: Final = "fire-claimed"
FIRE_WAITING: Final = "fire-waiting"
FIRE_SENT: Final = "fire-sent"
FIRE_LATE: Final = "fire-late"
FIRE_STARTED: Final = "fire-started"
FIRE_SUCCEEDED: Final = "fire-succeeded"
FIRE_FAILED: Final = "fire-failed"
FIRE_SKIPPED: Final = "fire-skipped"
FIRE_MISSED: Final = "fire-missed"
FIRE_EXPIRED: Final = "fire-expired"
FIRE_REAPED: Final = "fire-reaped"
FIRE_UNROUTED: Final = "fire-unrouted"
SCHEDULE_CHANGED: Final = "schedule-changed"
SCHEDULE_DISABLED: Final = "schedule-disabled"
SCHEDULE_BROKEN: Final = "schedule-broken"

# Log only: about this process and the coordinator, not about a fire.
BEAT_READY: Final = "beat-ready"
CLAIM_LOST: Final = "claim-lost"
LOCK_UNAVAILABLE: Final = "lock-unavailable"
COORDINATOR_BACK: Final = "coordinator-back"
MEMORY_LOST: Final = "memory-lost"
CLOCK_SKEW: Final = "clock-skew"
CLOCK_STEP: Final = "clock-step"
SEND_FAILED: Final = "send-failed"
STORE_FAILED: Final = "store-failed"
TAKEN_OVER: Final = "fire-taken-over"
TRIED_AGAIN: Final = "fire-tried-again"


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened.

    :ivar level: a :mod:`logging` level number.
    :ivar text: the sentence a person reads.
    :ivar fields: machine-readable companions, e.g. ``schedule``, ``due_at``, ``fire_id``, ``kind``; no arguments.
    """

    name: str
    level: int
    text: str
    fields: Mapping[str, Any] = field(default_factory=dict)
