"""What an entry of ``beat_schedule`` may say besides Celery's own keys, and its policy."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from celery_parrot.delivery import OwnCallback, check_all
from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.schedule import Missed, Policy
from celery_parrot.runtime.conf_kinds import OVERLAPS
from celery_parrot.runtime.conf_limits import bad_name, needs_coordinator
from celery_parrot.runtime.conf_source import closest, number
from celery_parrot.triggers.options import Context, Options

CELERY_KEYS = frozenset({"task", "schedule", "args", "kwargs", "options", "relative", "name", "app"})
#: Celery's own bookkeeping, which the coordinator keeps here.
BOOKKEEPING = frozenset({"last_run_at", "total_run_count"})
WHEN_KEYS = frozenset({"schedule_type", "schedule_config", "timezone", "dst_gap", "dst_fold"})
CALL_KEYS = frozenset({"kind", "target", "prompt", "method_name", "target_id", "tenant", "enabled"})
POLICY_KEYS = frozenset(
    {"missed", "misfire_grace", "catch_up_limit", "jitter", "start_at", "end_at", "max_fires", "recover"}
)  # fmt: skip
LIMIT_KEYS = frozenset({"overlap", "exclusion_group"})
TELL_KEYS = frozenset({"send_result", "callbacks", "failure_callbacks", "missed_callbacks"})

KEYS = CELERY_KEYS | BOOKKEEPING | WHEN_KEYS | CALL_KEYS | POLICY_KEYS | LIMIT_KEYS | TELL_KEYS
"""Every key an entry may have."""

_UNSET = object()


def refuse_unknown(fields: Mapping[str, Any]) -> None:
    """Raise InvalidSchedule for a key that nothing would act on."""
    for key in fields:
        if key not in KEYS:
            raise InvalidSchedule(key, "…", f"is no key of an entry. {closest(key, KEYS)}".strip())


def told(fields: Mapping[str, Any], registered: Mapping[str, OwnCallback]) -> dict[str, Any]:
    """Whom the entry wants told of its outcomes. Raises InvalidSchedule.

    :param registered: the app's own callbacks."""
    check_all(fields, registered)
    found: dict[str, Any] = {
        key: tuple({"type": one} if isinstance(one, str) else one for one in fields.get(key) or ())
        for key in TELL_KEYS - {"send_result"}
    }
    return found | {"send_result": fields.get("send_result") or {}}


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
    :raises ConfigurationError: for a limit that no coordinator would keep. InvalidSchedule: for anything else.
    """
    given = fields.get("misfire_grace", _UNSET)
    return Policy(
        missed=_missed(fields.get("missed")),
        misfire_grace=grace if given is _UNSET else None if given is None else _seconds("misfire_grace", given),
        catch_up_limit=_count(fields, "catch_up_limit") or 100,
        jitter=_seconds("jitter", fields.get("jitter") or 0),
        start_at=_instant(fields, "start_at", zone),
        end_at=_instant(fields, "end_at", zone),
        max_fires=_count(fields, "max_fires"),
        overlap=_overlap(fields, coordination, name),
        exclusion_group=_group(fields, coordination, name),
        recover=_flag(fields, "recover"),
    )


def _overlap(fields: Mapping[str, Any], coordination: str, name: str) -> str | None:
    value = fields.get("overlap")
    if value is None:
        return None
    if value not in OVERLAPS:
        raise InvalidSchedule("overlap", value, f"must be one of {', '.join(OVERLAPS)}")
    if value != "allow":
        needs_coordinator(f"beat_schedule[{name!r}]['overlap']", value, coordination)
    return str(value)


def _group(fields: Mapping[str, Any], coordination: str, name: str) -> str | None:
    value = fields.get("exclusion_group")
    if value is None:
        return None
    if (reason := bad_name(value)) is not None:
        raise InvalidSchedule("exclusion_group", value, reason)
    needs_coordinator(f"beat_schedule[{name!r}]['exclusion_group']", value, coordination)
    return str(value)


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    value = fields.get(key)
    if value is not None and not isinstance(value, bool):
        raise InvalidSchedule(key, value, "is neither true nor false")
    return bool(value)


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
