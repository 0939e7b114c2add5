"""What an entry of ``beat_schedule`` may say besides Celery's own keys, and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.runtime.conf_kinds import OVERLAPS, refuse_limit
from celery_parrot.runtime.conf_source import closest, number
from celery_parrot.triggers.options import Context, Options

CELERY_KEYS = frozenset({"task", "schedule", "args", "kwargs", "options", "relative", "name", "app"})
#: Celery's own bookkeeping, which the coordinator keeps here.
BOOKKEEPING = frozenset({"last_run_at", "total_run_count"})
WHEN_KEYS = frozenset({"schedule_type", "schedule_config", "timezone", "dst_gap", "dst_fold"})
CALL_KEYS = frozenset({"kind", "target", "prompt", "method_name", "target_id", "tenant", "enabled"})
POLICY_KEYS = frozenset(
    {"missed", "misfire_grace", "catch_up_limit", "jitter", "start_at", "end_at", "max_fires"}
)  # fmt: skip
LIMIT_KEYS = frozenset({"overlap", "exclusion_group"})
NOT_YET = frozenset({"recover", "send_result", "callbacks", "failure_callbacks", "missed_callbacks"})

KEYS = CELERY_KEYS | BOOKKEEPING | WHEN_KEYS | CALL_KEYS | POLICY_KEYS | LIMIT_KEYS
"""Every key an entry may have."""

_UNSET = object()


def refuse_unknown(fields: Mapping[str, Any]) -> None:
    """Raise InvalidSchedule for a key that nothing would act on."""
    for key, value in fields.items():
        if key in NOT_YET:
            if value:
                raise InvalidSchedule(key, "…", "is not in this release; it would not be kept")
        elif key not in KEYS:
            raise InvalidSchedule(key, "…", f"is no key of an entry. {closest(key, KEYS)}".strip())


def text_of(fields: Mapping[str, Any], key: str) -> str | None:
    """A text, or None if absent."""
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, str):
        raise InvalidSchedule(key, type(value).__name__, "must be a text")
    return value


def policy_of(fields: Mapping[str, Any], zone: str, grace: float, coordination: str, name: str) -> Policy:
    """The policy of an entry.

    :param zone: where naive ``start_at`` and ``end_at`` are read. :param grace: ``misfire_grace`` if not given.
    :raises ConfigurationError: for a limit. InvalidSchedule: for anything else.
    """
    _no_limits(fields, coordination, name)
    given = fields.get("misfire_grace", _UNSET)
    return Policy(
        missed=_missed(fields.get("missed")),
        misfire_grace=grace if given is _UNSET else None if given is None else _seconds("misfire_grace", given),
        catch_up_limit=_count(fields, "catch_up_limit") or 100,
        jitter=_seconds("jitter", fields.get("jitter") or 0),
        start_at=_instant(fields, "start_at", zone),
        end_at=_instant(fields, "end_at", zone),
        max_fires=_count(fields, "max_fires"),
    )


def _no_limits(fields: Mapping[str, Any], coordination: str, name: str) -> None:
    overlap = fields.get("overlap")
    if overlap not in (None, *OVERLAPS):
        raise InvalidSchedule("overlap", overlap, f"must be one of {', '.join(OVERLAPS)}")
    if overlap not in (None, "allow"):
        refuse_limit(f"beat_schedule[{name!r}]['overlap']", overlap, coordination)
    if fields.get("exclusion_group") is not None:
        refuse_limit(f"beat_schedule[{name!r}]['exclusion_group']", fields["exclusion_group"], coordination)


def _missed(value: object) -> Missed:
    if value is None:
        return Missed.COALESCE
    try:
        return Missed(str(value))
    except ValueError:
        choices = [str(one) for one in Missed]
        raise InvalidSchedule("missed", value, f"must be one of {', '.join(choices)}") from None


def _seconds(key: str, value: object) -> float:
    total = getattr(value, "total_seconds", None)
    try:
        return number(key, total() if callable(total) else value, zero=True)
    except ValueError:
        raise InvalidSchedule(key, value, "must be a number of seconds of at least 0") from None


def _count(fields: Mapping[str, Any], key: str) -> int | None:
    value = fields.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidSchedule(key, value, "must be a whole number of at least 1")
    return value


def _instant(fields: Mapping[str, Any], key: str, zone: str) -> datetime | None:
    value = fields.get(key)
    if value is None:
        return None
    return Options({key: value, "tz": zone}, Context("", None, zone), frozenset({key})).instant(key)
