"""What the scheduler tells the world: one constant a name, and the value that carries it.

Every event is a log record; with ``parrot_send_events`` those of fires and schedules (:data:`FOR_CELERY`) are Celery
events as well. Fields never hold arguments of a task. ``docs/events.md`` lists both.
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
FIRE_UNKNOWN: Final = "fire-unknown"
REAPER_FAILED: Final = "reaper-failed"

FOR_CELERY: Final = frozenset({
    FIRE_CLAIMED, FIRE_WAITING, FIRE_SENT, FIRE_LATE, FIRE_STARTED, FIRE_SUCCEEDED, FIRE_FAILED, FIRE_SKIPPED,
    FIRE_MISSED, FIRE_EXPIRED, FIRE_REAPED, FIRE_UNROUTED, SCHEDULE_CHANGED, SCHEDULE_DISABLED, SCHEDULE_BROKEN,
})  # fmt: skip
"""What becomes a Celery event with ``parrot_send_events``; the type is the name."""

PUBLIC_FIELDS: Final = (
    "scheduler", "schedule", "schedule_id", "kind", "store", "fire_id", "due_at", "until", "count", "origin", "attempt",
    "status", "reason", "worker", "late", "limit", "held_by", "held_by_kind", "version", "change", "failures",
)  # fmt: skip
"""The only fields that leave in a Celery event. Log records may have more; neither holds arguments or results."""


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
