"""Celery's schedule objects as triggers.

What Celery itself defines becomes an ordinary schedule type; a subclass with rules of its own is wrapped and asked.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

from celery.schedules import BaseSchedule, crontab, schedule, solar

from celery_parrot.errors import InvalidSchedule
from celery_parrot.runtime.stopping import contained
from celery_parrot.triggers import Trigger, build
from celery_parrot.triggers.instants import utc

FOREIGN = "celery"
"""The schedule type shown for objects that only their own code can read; ``build`` does not know it."""

_ASKED = ("remaining_estimate", "remaining_delta", "is_due", "now")
_MAX_STEPS = 100_000
_SHORTEST = timedelta(seconds=0.1)
"""As for intervals: an object that says "in a microsecond" must not flood the workers."""


def to_spec(obj: object, app_timezone: str | tzinfo = "UTC") -> tuple[str, Mapping[str, Any]] | None:
    """The schedule type and config that mean the same as ``obj``; None for a subclass that must be asked itself.

    :param obj: a number of seconds, a timedelta, or a Celery schedule object.
    :param app_timezone: the zone a ``crontab`` is read in unless it carries its own: ``app.timezone`` or its name.
    :raises InvalidSchedule: if ``obj`` is none of these, or would never be due.
    """
    if isinstance(obj, timedelta):
        return "interval", {"seconds": obj.total_seconds()}
    if isinstance(obj, int | float) and not isinstance(obj, bool):
        return "interval", {"seconds": obj}
    if not isinstance(obj, BaseSchedule):
        raise InvalidSchedule("schedule", obj, "must be seconds, a timedelta or a Celery schedule")
    for known, convert in ((crontab, _crontab), (solar, _solar), (schedule, _schedule)):
        if isinstance(obj, known) and _behaves_like(obj, known):
            return convert(obj, app_timezone)
    return None


def to_trigger(obj: object, app_timezone: str | tzinfo = "UTC", *, anchor: datetime, schedule_id: str = "") -> Trigger:
    """The trigger for a ``schedule`` of ``beat_schedule``.

    :param anchor: UTC; where the chain of a foreign schedule starts: the stored first anchor, or any later due time
        of it (the mark).
    :raises InvalidSchedule: as :func:`to_spec`.
    """
    spec = to_spec(obj, app_timezone)
    if spec is not None:
        return build(*spec, schedule_id=schedule_id, created_at=anchor, timezone=zone_name(app_timezone))
    assert isinstance(obj, BaseSchedule)
    return ForeignTrigger(obj, utc(anchor))


def zone_name(zone: str | tzinfo) -> str:
    """The name that ``build`` takes for a time zone object of zoneinfo, pytz or the standard library.

    :raises InvalidSchedule: if it has none.
    """
    if isinstance(zone, str):
        return zone
    if zone is UTC or zone == UTC:
        return "UTC"
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if isinstance(name, str):
        return name
    if isinstance(zone, timezone):
        return str(zone)
    raise InvalidSchedule("timezone", zone, "has no name; set app.conf.timezone to an IANA name such as Europe/Madrid")


def _behaves_like(obj: BaseSchedule, known: type[BaseSchedule]) -> bool:
    return all(getattr(type(obj), name, None) is getattr(known, name, None) for name in _ASKED)


def _schedule(obj: Any, app_timezone: str | tzinfo) -> tuple[str, Mapping[str, Any]]:
    if not isinstance(obj.run_every, timedelta):
        raise InvalidSchedule("run_every", obj.run_every, "must be seconds or a timedelta")
    return "interval", {"seconds": obj.run_every.total_seconds()}


def _solar(obj: Any, app_timezone: str | tzinfo) -> tuple[str, Mapping[str, Any]]:
    return "solar", {"event": obj.event, "lat": obj.lat, "lon": obj.lon}


def _crontab(obj: Any, app_timezone: str | tzinfo) -> tuple[str, Mapping[str, Any]]:
    """By the sets Celery has expanded, since its grammar is wider (``22-2``) and its day fields intersect."""
    own = vars(obj).get("tz")
    return "cron", {
        "minute": _field(obj._orig_minute, obj.minute, 59, 0),
        "hour": _field(obj._orig_hour, obj.hour, 23, 0),
        "day_of_month": _field(obj._orig_day_of_month, obj.day_of_month, 31, 1),
        "month_of_year": _field(obj._orig_month_of_year, obj.month_of_year, 12, 1),
        "day_of_week": _field(obj._orig_day_of_week, obj.day_of_week, 6, 0),
        "day_rule": "intersection",
        "tz": zone_name(app_timezone if own is None else own),
    }


def _field(text: object, values: set[int], high: int, low: int) -> str:
    """The star form where the user wrote one, since it decides what a clock change does; else the values."""
    if isinstance(text, str) and text.startswith("*"):
        for step in range(1, high - low + 1):
            if values == set(range(low, high + 1, step)):
                return "*" if step == 1 else f"*/{step}"
    return ",".join(str(value) for value in sorted(values))


@dataclass(frozen=True, slots=True)
class ForeignTrigger:
    """A schedule object of somebody else's making, asked for each due time with its clock standing at the one before.

    Not deterministic: the object may look at anything. The chain starts at ``anchor``, which all beats must share.

    :ivar schedule: never called itself; a copy is.
    :ivar anchor: UTC; the instant before the first due time.
    """

    schedule: BaseSchedule = field(hash=False)
    anchor: datetime
    _seen: list[datetime] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def deterministic(self) -> bool:
        """False."""
        return False

    def next_after(self, t: datetime) -> datetime | None:
        """The first due time of the chain strictly after ``t``, in UTC.

        :raises InvalidSchedule: if the object fails, or does not move forward.
        """
        return self._around(t)[1]

    def latest_at(self, t: datetime) -> datetime | None:
        """The last due time of the chain at or before ``t``, in UTC; None before the first.

        :raises InvalidSchedule: if the object fails, or does not move forward.
        """
        due = self._around(t)[0]
        return due if due > self.anchor else None

    def to_config(self) -> tuple[str, Mapping[str, Any]]:
        """The type ``celery`` with the object's ``repr`` and the anchor: to be shown, not built from."""
        return FOREIGN, {"repr": repr(self.schedule), "anchor": self.anchor.isoformat()}

    def describe(self) -> str:
        """The object's class and ``repr``."""
        kind = type(self.schedule)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return f"As {name} says: {self.schedule!r} (its own time zone and clock-change rules)."

    def _around(self, t: datetime) -> tuple[datetime, datetime]:
        """The links of the chain at or before ``t`` and right after it."""
        at = utc(t)
        known = self._seen[0] if self._seen else self.anchor
        due = known if known <= at else self.anchor
        for _ in range(_MAX_STEPS):
            following = self._step(due)
            if following > at:
                self._seen[:] = [due]
                return due, following
            due = following
        raise InvalidSchedule(
            "schedule", self.schedule, f"has more than {_MAX_STEPS} due times since {self.anchor.isoformat()}"
        )

    def _step(self, due: datetime) -> datetime:
        try:
            following = due + contained(lambda: _remaining(self.schedule, due))
        except Exception as error:
            raise InvalidSchedule(
                "schedule", self.schedule, f"failed when asked: {type(error).__name__}: {error}"
            ) from error
        if following <= due:
            raise InvalidSchedule("schedule", self.schedule, "does not move forward: due again at once, for ever")
        return max(following, due + _SHORTEST)


def _remaining(schedule: BaseSchedule, due: datetime) -> timedelta:
    """What a copy of ``schedule``, its clock standing at ``due``, says is left from there to the next due time."""
    asked = copy.copy(schedule)
    asked.nowfun = lambda: due  # type: ignore[attr-defined]  # the stubs misspell it
    try:
        return asked.remaining_estimate(due)
    except NotImplementedError:
        return timedelta(seconds=float(asked.is_due(due)[1]))
