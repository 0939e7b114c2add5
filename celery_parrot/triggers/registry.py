"""From a schedule type and its config to a trigger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from celery_parrot.errors import InvalidSchedule

from . import calendar, cron, interval, once, rule, solar, window
from .base import Trigger
from .options import Context, Options, aware
from .zones import zone

_Builder = Callable[[Options], Trigger]
_TYPES: dict[str, tuple[_Builder, frozenset[str]]] = {
    "interval": (interval.from_interval, interval.KEYS),
    "every_n_hours": (interval.from_hours, interval.HOURS_KEYS),
    "cron": (cron.from_cron, cron.KEYS),
    "crontab": (cron.from_cron, cron.KEYS),
    "daily": (calendar.from_daily, calendar.TIME_KEYS),
    "daily_at": (calendar.from_daily, calendar.TIME_KEYS),
    "weekly": (calendar.from_weekly, calendar.WEEKLY_KEYS),
    "monthly": (calendar.from_monthly, calendar.MONTHLY_KEYS),
    "once": (once.from_once, once.ONCE_KEYS),
    "one_shot_at": (once.from_once, once.ONCE_KEYS),
    "relative_delay": (once.from_delay, once.DELAY_KEYS),
    "random_within_window": (window.from_window, window.KEYS),
    "solar": (solar.from_solar, solar.KEYS),
    "rrule": (rule.from_rule, rule.KEYS),
}
SCHEDULE_TYPES = tuple(_TYPES)
"""Every name that :func:`build` knows."""


def build(
    schedule_type: str,
    config: Mapping[str, Any],
    *,
    schedule_id: str = "",
    created_at: datetime | None = None,
    timezone: str = "UTC",
) -> Trigger:
    """The trigger that ``config`` describes.

    :param schedule_type: one of :data:`SCHEDULE_TYPES`.
    :param config: its keys, as JSON has them; ``tz``, ``dst_gap`` and ``dst_fold`` are accepted by every type. Null
        counts as absent.
    :param schedule_id: hashed by ``H`` and ``random_within_window``; the same id, the same times.
    :param created_at: where relative times start; a naive one is a reading in ``timezone``.
    :param timezone: the zone of a config without ``tz``.
    :raises InvalidSchedule: naming the key at fault; also if nothing would ever be due.
    """
    if schedule_type not in SCHEDULE_TYPES:
        raise InvalidSchedule("schedule_type", schedule_type, f"must be one of {', '.join(SCHEDULE_TYPES)}")
    if not isinstance(config, Mapping):
        raise InvalidSchedule("schedule_config", config, "must be an object of keys and values")
    for field, text in (("schedule_id", schedule_id), ("timezone", timezone)):
        if not isinstance(text, str):
            raise InvalidSchedule(field, text, "must be text")
    if created_at is not None:
        if not isinstance(created_at, datetime):
            raise InvalidSchedule("created_at", created_at, "must be a datetime")
        created_at = aware("created_at", created_at, zone(timezone, "timezone"), "next_valid", "first")
    builder, keys = _TYPES[schedule_type]
    options = Options(config, Context(schedule_id, created_at, timezone), keys)
    # Checked for every type: a schedule that does not need them now must not break when its type is changed.
    options.zone()
    options.gap()
    options.fold()
    return builder(options)
