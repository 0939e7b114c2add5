"""What a message says about time: how long its task may run, and until when it must have started. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any

from celery_parrot.dispatch.limits import Bounds
from celery_parrot.model.schedule import Kind

TaskOptions = Callable[[str], Mapping[str, Any]]
"""What the task of this name says of itself, by the names of ``apply_async`` options: ``expires``, ``time_limit``,
``soft_time_limit``. Empty where this process does not know the task."""


def none_known(_: str) -> Mapping[str, Any]:
    """The :data:`TaskOptions` of a process that knows no task."""
    return {}


def time_limits(
    options: Mapping[str, Any], of_task: Mapping[str, Any], kind: Kind, bounds: Bounds
) -> Mapping[str, float]:
    """Time limits that end a run before it is reaped as silent; empty where nothing is to be changed.

    Fires of declared kinds run under the smaller of their own limit (the message's, else the task's) and what the kind
    allows, unless its task reports progress.
    """
    if not kind.declared or kind.progress or not bounds.guarded:
        return {}
    longest = bounds.patience(kind) - bounds.reap_margin
    hard = _least(_number(options, "time_limit") or _number(of_task, "time_limit"), longest)
    soft = _number(options, "soft_time_limit") or _number(of_task, "soft_time_limit")
    return {"time_limit": hard} | ({"soft_time_limit": min(soft, hard)} if soft else {})


def deadline_of(
    options: Mapping[str, Any], of_task: Mapping[str, Any], kind: Kind, bounds: Bounds, now: datetime, *, holds: bool
) -> datetime | None:
    """Until when a message sent ``now`` must have been started, UTC; None: whenever.

    Its own ``expires``, else for declared kinds and for fires that hold limits its ETA and what the kind allows.

    :param now: by the coordinator's clock, which judges.
    """
    expires = options["expires"] if "expires" in options else of_task.get("expires")
    if (own := _instant(expires, now, bounds)) is not None:
        return own
    if not holds and not (kind.declared and bounds.guarded):
        return None
    return _eta(options, now, bounds) + timedelta(seconds=bounds.patience(kind))


def _eta(options: Mapping[str, Any], now: datetime, bounds: Bounds) -> datetime:
    """As Celery has it: ``countdown`` comes before ``eta``; one in the past is at once."""
    countdown = options.get("countdown")
    eta = _instant(countdown if isinstance(countdown, Real) and countdown else options.get("eta"), now, bounds)
    return now if eta is None else max(now, eta)


def _instant(value: object, now: datetime, bounds: Bounds) -> datetime | None:
    """Seconds from now, an instant, or one as ISO text. Anything else says nothing: Celery refuses it when sending."""
    try:
        if isinstance(value, Real) and not isinstance(value, bool):
            return now + timedelta(seconds=float(value))
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        if isinstance(value, datetime):
            aware = value if value.tzinfo is not None else value.replace(tzinfo=bounds.timezone)
            return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    return None


def _number(options: Mapping[str, Any], name: str) -> float | None:
    value = options.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _least(own: float | None, longest: float) -> float:
    return longest if own is None else min(own, longest)
