"""Which limits a fire must hold, and what bounds its waiting and running. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Final, TypeGuard

from celery_parrot.errors import ConfigurationError
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import SLOTS, Busy, Limit, Limits

ALLOW: Final = "allow"
MOST_BUFFERED: Final = 100
"""Fires of one schedule that ``overlap: buffer_all`` lets stand in line."""

_KIND, _GROUP, _SCHEDULE = "kind:", "group:", "schedule:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What holds for every fire of one scheduler, whatever its kind. Durations in seconds.

    :ivar groups: capacity of each exclusion group that has another than 1.
    :ivar max_concurrent: how many fires may be in flight at once, None: any number.
    :ivar reap_after: of kinds that name none of their own: longest wait in line, and longest silence of a run.
    :ivar reap_margin: how long before that a time limit ends the run.
    :ivar guarded: the workers open each fire before its task runs (``Parrot(app)``). Where they do not, nothing about a
        task is changed: no time limits, and deadlines only for what would be held for ever.
    :ivar timezone: where a naive ``eta`` or ``expires`` is read.
    """

    groups: Mapping[str, int] = field(default_factory=dict)
    max_concurrent: int | None = None
    reap_after: float = 900.0
    reap_margin: float = 5.0
    guarded: bool = True
    timezone: tzinfo = UTC

    def patience(self, kind: Kind) -> float:
        """Seconds that a fire of this kind may stand in line, be queued, or run in silence."""
        return self.reap_after if kind.reap_after is None else kind.reap_after


def limits_of(schedule: Schedule, kind: Kind, bounds: Bounds) -> tuple[Limit, ...]:
    """What a fire of ``schedule`` asks for, by the definition as it is now; empty: it is simply sent."""
    found: list[Limit] = []
    if kind.max_in_flight is not None:
        found.append(Limit(_KIND + kind.name, kind.max_in_flight, Busy.SKIP))
    found.extend(_overlap(schedule, kind))
    # A group may be named twice; it is held once.
    for group in dict.fromkeys((kind.exclusion_group, schedule.policy.exclusion_group)):
        if group is not None:
            found.append(Limit(_GROUP + group, bounds.groups.get(group, 1)))
    if bounds.max_concurrent is not None:
        found.append(Limit(SLOTS, bounds.max_concurrent))
    return tuple(found)


def _overlap(schedule: Schedule, kind: Kind) -> Iterable[Limit]:
    name = _SCHEDULE + schedule.schedule_id
    match schedule.policy.overlap or kind.overlap or ALLOW:
        case "skip":
            yield Limit(name, busy=Busy.OVERLAP)
        case "buffer_one":
            yield Limit(name, buffer=1)
        case "buffer_all":
            yield Limit(name, buffer=MOST_BUFFERED)


def in_words(limit: str) -> str:
    """The name of a limit for people: ``group:gpu`` is ``group gpu``."""
    return limit.replace(":", " ", 1)


def is_kind(limit: str) -> bool:
    """Whether this is the limit of a kind (``max_in_flight``)."""
    return limit.startswith(_KIND)


def keeps_limits(coordinator: object) -> TypeGuard[Limits]:
    """Whether a coordinator has the capability. Asked by its one method that beats need, so that wrappers pass."""
    return callable(getattr(coordinator, "request", None))


def refuse_unkept(coordinator: object, kinds: Iterable[Kind], schedules: Iterable[Schedule], bounds: Bounds) -> None:
    """Limits that nobody would keep stop the beat at its start.

    :raises ConfigurationError: naming what asks for one.
    """
    if keeps_limits(coordinator):
        return
    fix = "Use parrot_coordination 'redis' or 'db', or remove the limit."
    reason = f"is a limit, and {type(coordinator).__name__} keeps none"
    if bounds.max_concurrent is not None:
        raise ConfigurationError("parrot_max_concurrent", bounds.max_concurrent, reason, fix)
    for kind in kinds:
        for key in ("max_in_flight", "exclusion_group", "overlap"):
            value = getattr(kind, key)
            if value not in (None, ALLOW):
                raise ConfigurationError(f"parrot_kinds[{kind.name!r}][{key!r}]", value, reason, fix)
    for schedule in schedules:
        for key in ("exclusion_group", "overlap"):
            value = getattr(schedule.policy, key)
            if value not in (None, ALLOW):
                raise ConfigurationError(f"{schedule.name}: {key}", value, reason, fix)
