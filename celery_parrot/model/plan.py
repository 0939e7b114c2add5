"""What the planner decided about one schedule, and what the coordinator made of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from celery_parrot.model.fire import Origin, Status


@dataclass(frozen=True, slots=True)
class PlannedFire:
    """One due time to fire. ``due_at`` UTC."""

    due_at: datetime
    origin: Origin = Origin.SCHEDULE


@dataclass(frozen=True, slots=True)
class NotFired:
    """A run of due times that are decided without firing: one history entry.

    :ivar status: ``MISSED`` or ``SKIPPED``.
    :ivar reason: ``too_late | coalesced | capped | superseded``, or for skipped ``paused | deleted | …``.
    :ivar first: the earliest of them; ``last`` the latest; ``count`` how many.
    """

    status: Status
    reason: str
    first: datetime
    last: datetime
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which due times of one schedule to fire and which not. Valid only while ``expected_mark`` still holds.

    :ivar fires: ascending. ``not_fired``: disjoint ranges, ascending.
    :ivar new_mark: the latest due time this plan decides; at least the greatest of the above.
    :ivar max_fires: the schedule's bound on automatic fires, to be reserved by the commit; None: none.
    :ivar more: the backlog was cut to a batch: plan again at once.
    """

    schedule_id: str
    name: str
    kind: str
    expected_mark: datetime
    new_mark: datetime
    expected_version: int | None = None
    fires: tuple[PlannedFire, ...] = ()
    not_fired: tuple[NotFired, ...] = ()
    max_fires: int | None = None
    more: bool = False


class Verdict(StrEnum):
    """What became of a plan at commit."""

    COMMITTED = "committed"  # the mark moved; the fires named are ours
    MOVED = "moved"  # someone else decided meanwhile: plan anew from the mark given
    HELD = "held"  # paused or disabled: nothing was written
    UNKNOWN = "unknown"  # the schedule has no mark: register it again
