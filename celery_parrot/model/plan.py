"""What the planner decided about one schedule, and what the coordinator made of it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
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
    :ivar next_at: the coming sending instant after ``new_mark`` (jitter included), None if nothing more will come.
    :ivar recover: an abandoned fire of this plan is to be sent once more.
    :ivar tells: what somebody wants to be told of (:attr:`~.schedule.Schedule.tells`), sorted; the fires keep it.
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
    next_at: datetime | None = None
    store: str = "code"
    recover: bool = False
    more: bool = False
    tells: tuple[str, ...] = ()

    def to_json(self) -> str:
        """As text, for :class:`~celery_parrot.model.fire.Proof`."""
        body = asdict(self)
        return json.dumps(body, default=_text, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan that :meth:`to_json` wrote."""
        body = json.loads(text)
        for name in ("expected_mark", "new_mark", "next_at"):
            body[name] = None if body[name] is None else datetime.fromisoformat(body[name])
        body["tells"] = tuple(body.get("tells") or ())
        body["fires"] = tuple(
            PlannedFire(datetime.fromisoformat(fire["due_at"]), Origin(fire["origin"])) for fire in body["fires"]
        )
        body["not_fired"] = tuple(
            NotFired(
                Status(gone["status"]),
                gone["reason"],
                datetime.fromisoformat(gone["first"]),
                datetime.fromisoformat(gone["last"]),
                gone["count"],
            )
            for gone in body["not_fired"]
        )
        return cls(**body)


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a plan holds no {type(value).__name__}")


class Verdict(StrEnum):
    """What became of a plan at commit."""

    COMMITTED = "committed"  # the mark moved; the fires named are ours
    MOVED = "moved"  # someone else decided meanwhile: plan anew from the mark given
    HELD = "held"  # paused or disabled: nothing was written
    UNKNOWN = "unknown"  # the schedule has no mark: register it again
