"""The first and last possible due time of a schedule: policy, laid around a trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_parrot.errors import InvalidSchedule

from .base import Trigger
from .instants import utc

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Bounded:
    """``trigger`` from ``start_at`` to ``end_at``, both inclusive, by due time and before jitter.

    :ivar start_at: UTC, given in any zone; None: from ever. ``end_at`` likewise; None: for ever.
    :raises InvalidSchedule: if ``end_at`` lies before ``start_at``.
    """

    trigger: Trigger
    start_at: datetime | None = None
    end_at: datetime | None = None

    def __post_init__(self) -> None:
        for key in ("start_at", "end_at"):
            value = getattr(self, key)
            if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
                raise InvalidSchedule(key, value, "must be a datetime that says its time zone")
            # Two instants of one zone are compared by their readings, which a repeated hour has twice.
            object.__setattr__(self, key, None if value is None else utc(value))
        if self.start_at is not None and self.end_at is not None and self.end_at < self.start_at:
            raise InvalidSchedule("end_at", self.end_at, f"lies before start_at {self.start_at.isoformat()}")

    @property
    def deterministic(self) -> bool:
        """As the trigger's."""
        return self.trigger.deterministic

    def next_after(self, t: datetime) -> datetime | None:
        """The smallest due time strictly after ``t`` within the bounds, in UTC."""
        t = utc(t)
        if self.start_at is not None and t < self.start_at:
            t = self.start_at - _MICROSECOND
        due = self.trigger.next_after(t)
        return None if due is None or (self.end_at is not None and due > self.end_at) else due

    def latest_at(self, t: datetime) -> datetime | None:
        """The greatest due time at or before ``t`` within the bounds, in UTC."""
        t = utc(t) if self.end_at is None else min(utc(t), self.end_at)
        due = self.trigger.latest_at(t)
        return None if due is None or (self.start_at is not None and due < self.start_at) else due

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """The trigger's own: bounds are policy, not config."""
        return self.trigger.to_config()

    def describe(self) -> str:
        """The trigger's sentence with the bounds."""
        words = self.trigger.describe().removesuffix(".")
        if self.start_at is not None:
            words += f", from {self.start_at:%Y-%m-%d %H:%M:%S} UTC"
        if self.end_at is not None:
            words += f", until {self.end_at:%Y-%m-%d %H:%M:%S} UTC"
        return words + "."
