"""When an entry is due: its schedule object, or ``schedule_type`` and ``schedule_config``, as a trigger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from celery import Celery
from celery.schedules import BaseSchedule

from celery_parrot.errors import InvalidSchedule
from celery_parrot.runtime.celery_schedules import FOREIGN, to_spec, to_trigger, zone_name
from celery_parrot.stores.memory.definition import Anchored
from celery_parrot.triggers import Bounded, Trigger, build

ONE_SHOTS = frozenset({"once", "one_shot_at", "relative_delay"})
"""Types that are due once. Their first mark lies just before that instant: it fires even if it is past."""

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_ALMOST_NOTHING = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """When a schedule is due, before bounds.

    :ivar zone: the zone that readings without one are in.
    :ivar identity: ``(type, config)`` that is equal in every process with the same code.
    :ivar foreign: the object to be asked, where only its own code knows when it is due.
    :ivar from_start: it counts from the start of this process.
    """

    schedule_type: str
    config: Mapping[str, Any]
    zone: str
    trigger: Trigger
    identity: tuple[str, Mapping[str, Any]]
    foreign: BaseSchedule | None = None
    from_start: bool = False

    def bounded(self, start_at: datetime | None, end_at: datetime | None) -> Trigger:
        """The trigger within its bounds. Raises InvalidSchedule if they cross."""
        return _within(self.trigger, start_at, end_at)

    def anchored_within(self, start_at: datetime | None, end_at: datetime | None) -> Anchored | None:
        """For a foreign schedule: how its trigger is built from the mark that all beats share."""
        foreign, zone = self.foreign, self.zone
        if foreign is None:
            return None
        return lambda anchor: _within(to_trigger(foreign, zone, anchor=anchor), start_at, end_at)

    def initial(self, start_at: datetime | None, end_at: datetime | None) -> datetime | None:
        """The first mark of a one-shot; None for all others, whose mark starts at now."""
        if self.schedule_type not in ONE_SHOTS:
            return None
        due_at = self.bounded(start_at, end_at).next_after(_BEGINNING)
        return None if due_at is None else due_at - _ALMOST_NOTHING


def when_of(fields: Mapping[str, Any], schedule_id: str, zone: str | tzinfo, started: datetime) -> When:
    """Read ``schedule`` (Celery's forms), or ``schedule_type`` and ``schedule_config``.

    :param zone: the entry's own time zone, else the app's. :param started: when this process started, aware.
    :raises InvalidSchedule: if neither or both are given, or they cannot be read.
    """
    given, schedule_type = fields.get("schedule"), fields.get("schedule_type")
    if (given is None) == (schedule_type is None):
        raise InvalidSchedule("schedule", given, "give either schedule, or schedule_type with schedule_config")
    zone = zone_name(zone)
    if schedule_type is not None:
        config = fields.get("schedule_config", {})
        if not isinstance(config, Mapping):
            raise InvalidSchedule("schedule_config", type(config).__name__, "must be a dictionary")
        return _built(str(schedule_type), dict(config), fields, schedule_id, zone, started)
    if isinstance(given, str):
        raise InvalidSchedule("schedule", given, "must be seconds, a timedelta or a Celery schedule")
    spec = to_spec(given, zone)
    if spec is not None:
        return _built(*spec, fields, schedule_id, zone, started)
    assert isinstance(given, BaseSchedule)
    name, config = FOREIGN, {"repr": repr(given)}
    identity = (name, {"class": f"{type(given).__module__}.{type(given).__qualname__}", **config})
    trigger = to_trigger(given, zone, anchor=started)
    return When(
        schedule_type=name, config=config, zone=zone, trigger=trigger, identity=identity, foreign=given
    )  # fmt: skip


def bind(given: object, app: Celery) -> None:
    """Make a schedule object that belongs to no app one of ``app``'s, as Celery does: it reads that app's time zone."""
    if isinstance(given, BaseSchedule) and getattr(given, "_app", None) is None:
        given.app = app


def _built(
    schedule_type: str,
    config: Mapping[str, Any],
    fields: Mapping[str, Any],
    schedule_id: str,
    zone: str,
    started: datetime,
) -> When:
    own = {key: fields[key] for key in ("dst_gap", "dst_fold") if fields.get(key) is not None}
    config = {**config, **own}
    trigger = build(schedule_type, config, schedule_id=schedule_id, created_at=started, timezone=zone)
    from_start = schedule_type in ONE_SHOTS and not {"run_date", "fire_at_iso"} & config.keys()
    # A one-shot that counts from the start would have another identity in each process: its config is the same.
    identity = (schedule_type, config) if from_start else trigger.to_config()
    return When(
        schedule_type=schedule_type,
        config=config,
        zone=zone,
        trigger=trigger,
        identity=identity,
        from_start=from_start,
    )


def _within(trigger: Trigger, start_at: datetime | None, end_at: datetime | None) -> Trigger:
    return trigger if start_at is None and end_at is None else Bounded(trigger, start_at, end_at)
