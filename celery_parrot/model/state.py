"""What happened to a schedule, kept apart from its definition, and who beats for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """Run state of one schedule. Stamps UTC, by the coordinator's clock.

    :ivar last_due: the mark: the latest due time that is decided (fired, missed or skipped).
    :ivar last_run: when a fire was last sent. ``run_count`` counts fires, not attempts.
    :ivar auto_count: automatic fires reserved against ``max_fires``.
    :ivar last_status: ``success | error | target_missing | lock_unavailable``.
    :ivar consecutive_failures: counted failures since the last success or resume. ``failing_since``: when the first of
        them ended, None if there is none.
    :ivar last_delivery_status: how far telling about the newest fire that was told of has come, see
        :class:`~celery_parrot.protocols.DeliveryStatus`. ``last_callbacks``: each of its callbacks, as
        :meth:`~celery_parrot.protocols.CallbackReport.to_json` says.
    :ivar disabled_by: ``person`` (paused), ``failures`` (disabled) or None.
    """

    last_due: datetime | None = None
    last_run: datetime | None = None
    next_run: datetime | None = None
    run_count: int = 0
    auto_count: int = 0
    last_status: str | None = None
    last_error: str | None = None
    last_error_at: datetime | None = None
    last_result: str | None = None
    last_result_at: datetime | None = None
    consecutive_failures: int = 0
    failing_since: datetime | None = None
    last_delivery_status: str | None = None
    last_delivery_at: datetime | None = None
    last_callbacks: tuple[Mapping[str, Any], ...] = ()
    disabled_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One living beat process, as others see it.

    :ivar owner: an id per process start.
    :ivar seen: its last sign of life, coordinator's clock.
    :ivar skew: seconds its own wall clock is ahead of the coordinator's.
    :ivar claims: fires a second that it committed, over the last minute.
    :ivar failing: for how many seconds each store that it cannot ask has been out of its reach, by the store's name.
    """

    owner: str
    host: str
    pid: int
    version: str
    started: datetime
    seen: datetime
    skew: float = 0.0
    tzdata: str = ""
    claims: float = 0.0
    failing: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> Mapping[str, Any]:
        """The value stored under its owner in the ``beats`` hash."""
        return {
            "host": self.host,
            "pid": self.pid,
            "version": self.version,
            "started": self.started.isoformat(),
            "seen": self.seen.isoformat(),
            "skew": round(self.skew, 3),
            "tzdata": self.tzdata,
            "claims": self.claims,
            "failing": {name: round(seconds, 1) for name, seconds in self.failing.items()},
        }
