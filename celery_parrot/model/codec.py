"""Schedules as JSON: the same field names in every door, checked on the way in, versioned where stored."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.schedule import Missed, Policy, Schedule

FORMAT: Final = 1
"""Version of the stored text. A reader meets a later one as broken, and keeps it."""

OVERLAPS: Final = ("allow", "skip", "buffer_one", "buffer_all")
GAPS: Final = ("next_valid", "skip")
FOLDS: Final = ("first", "last", "both")

_REQUIRED = ("name", "schedule_type", "schedule_config", "target")
_TEXTS = (
    "kind",
    "method_name",
    "prompt",
    "target_id",
    "tenant",
    "store",
    "timezone",
    "schedule_type",
    "target",
    "name",
)
POLICY_FIELDS: Final = (
    "missed",
    "misfire_grace",
    "catch_up_limit",
    "overlap",
    "exclusion_group",
    "jitter",
    "start_at",
    "end_at",
    "max_fires",
    "recover",
    "dst_gap",
    "dst_fold",
)
"""Those of the fields that are of a :class:`~celery_parrot.model.schedule.Policy`."""

CALLBACK_FIELDS: Final = ("callbacks", "failure_callbacks", "missed_callbacks")
"""Those that are lists of callbacks. Whether each can be delivered is checked where a schedule is saved, not here:
a schedule with a callback that cannot be delivered fires all the same."""

FIELDS: Final = (
    *_TEXTS,
    "schedule_config",
    "args",
    "kwargs",
    "enabled",
    "options",
    *POLICY_FIELDS,
    *CALLBACK_FIELDS,
    "send_result",
)
"""Every field a schedule may be given with."""

_KNOWN: Final = frozenset(FIELDS)


def from_fields(fields: Mapping[str, Any], *, base: Schedule | None = None, schedule_id: str = "") -> Schedule:
    """The schedule that these fields describe, or ``base`` with these fields changed.

    :param base: what absent fields are taken from; without it ``name``, ``target``, ``schedule_type`` and
        ``schedule_config`` are required.
    :param schedule_id: its id; the name if empty.
    :raises InvalidSchedule: naming the field, its value and what would be right. Whether the due times can be
        computed is the trigger's to say.
    """
    if base is None:
        return _new(fields, schedule_id, {})
    _refuse_unknown(fields)
    changes = _checked(fields, base.policy, base.timezone)
    own_id = schedule_id or base.schedule_id or changes.get("name", base.name)
    return replace(base, schedule_id=own_id, **changes)


def _new(fields: Mapping[str, Any], schedule_id: str, own: Mapping[str, Any]) -> Schedule:
    """:param own: what no door may give."""
    _refuse_unknown(fields)
    for name in _REQUIRED:
        if fields.get(name) is None:
            raise InvalidSchedule(name, fields.get(name), "is required")
    checked = _checked(fields, None, "UTC")
    return Schedule(**{"schedule_id": schedule_id or checked["name"], **checked, **own})


def _checked(fields: Mapping[str, Any], policy: Policy | None, timezone: str) -> dict[str, Any]:
    """What these fields say of a schedule whose policy and zone are those given, or of a new one."""
    found: dict[str, Any] = {name: _text(name, fields[name]) for name in _TEXTS if name in fields}
    for name, check in _CHECKS.items():
        if name in fields:
            found[name] = check(name, fields[name])
    said = {name: check(name, fields[name]) for name, check in _POLICY_CHECKS.items() if name in fields}
    found["policy"] = _zoned(
        Policy(**said) if policy is None else replace(policy, **said), found.get("timezone", timezone)
    )
    return found


def _refuse_unknown(fields: Mapping[str, Any]) -> None:
    if fields.keys() <= _KNOWN:
        return
    name = next(name for name in fields if name not in _KNOWN)
    close = difflib.get_close_matches(name, FIELDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"must be one of {', '.join(sorted(FIELDS))}"
    raise InvalidSchedule(name, fields[name], f"unknown field; {hint}")


def to_fields(schedule: Schedule) -> dict[str, Any]:
    """The fields of a schedule, JSON-able, as :func:`from_fields` takes them."""
    fields: dict[str, Any] = {name: getattr(schedule, name) for name in _TEXTS}
    fields.update(
        args=list(schedule.args),
        kwargs=dict(schedule.kwargs),
        enabled=schedule.enabled,
        options=dict(schedule.options),
        schedule_config=dict(schedule.schedule_config),
    )
    fields.update({name: [dict(one) for one in getattr(schedule, name)] for name in CALLBACK_FIELDS})
    fields["send_result"] = dict(schedule.send_result)
    for name in POLICY_FIELDS:
        value = getattr(schedule.policy, name)
        fields[name] = value.isoformat() if isinstance(value, datetime) else value
    return fields


def encode(schedule: Schedule) -> str:
    """A schedule as the text a store keeps."""
    body = {
        "format": FORMAT,
        "schedule_id": schedule.schedule_id,
        "version": schedule.version,
        "created_at": None if schedule.created_at is None else schedule.created_at.isoformat(),
        **to_fields(schedule),
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def decode(text: str | bytes, *, store: str | None = None) -> Schedule:
    """The schedule that :func:`encode` wrote. Raises InvalidSchedule for anything else; evaluates nothing.

    :param store: where it was found, whatever the text says.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise InvalidSchedule("definition", _short(text), f"is not JSON: {exc}") from None
    if not isinstance(body, dict):
        raise InvalidSchedule("definition", _short(text), "must be a JSON object")
    if body.get("format") != FORMAT:
        raise InvalidSchedule("format", body.get("format"), f"this version reads format {FORMAT} only")
    own = {name: body.pop(name, None) for name in ("format", "schedule_id", "version", "created_at")}
    schedule_id = _text("schedule_id", own["schedule_id"])
    if not isinstance(own["version"], int):
        raise InvalidSchedule("version", own["version"], "must be a whole number")
    created = None if own["created_at"] is None else _instant("created_at", own["created_at"])
    found: dict[str, Any] = {"version": own["version"], "created_at": created}
    return _new(body, str(schedule_id), found if store is None else {**found, "store": store})


# --- checks: each takes the field's name and value and returns the value to keep ------------------------------------

_Check = Callable[[str, Any], Any]
_NEVER_NULL: Final = frozenset({*_REQUIRED, "kind", "store", "timezone", "schedule_id"})


def _text(name: str, value: Any) -> str | None:
    if value is None and name not in _NEVER_NULL:
        return None
    if not isinstance(value, str) or not value.strip():
        raise InvalidSchedule(name, value, "must be a text that is not empty")
    if "\0" in value:
        raise InvalidSchedule(name, value, "must not contain a NUL character")
    return value


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidSchedule(name, value, "must be an object with text keys")
    return dict(value)


def _sequence(name: str, value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise InvalidSchedule(name, value, "must be a list")
    return tuple(value)


def _callbacks(name: str, value: Any) -> tuple[Mapping[str, Any], ...]:
    """Whatever a store may hold: what is no object is a callback of a type that nobody has, and fails when told."""
    given = value if isinstance(value, list | tuple) else [value]
    return tuple(dict(one) if isinstance(one, Mapping) else {"type": str(one)[:40]} for one in given if one is not None)


def _result_mail(name: str, value: Any) -> Mapping[str, Any]:
    if not value:
        return {}
    return dict(value) if isinstance(value, Mapping) else {"to": str(value)[:40]}


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise InvalidSchedule(name, value, "must be true or false")
    return value


def _choice(*allowed: str) -> _Check:
    def check(name: str, value: Any) -> Any:
        if value not in allowed:
            raise InvalidSchedule(name, value, f"must be one of {', '.join(allowed)}")
        return value

    return check


def _optional(inner: _Check) -> _Check:
    return lambda name, value: None if value is None else inner(name, value)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e10:
        raise InvalidSchedule(name, value, "must be a number of seconds, 0 or more")
    return float(value)


def _count(most: int) -> _Check:
    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise InvalidSchedule(name, value, f"must be a whole number from 1 to {most}")
        return value

    return check


def _instant(name: str, value: Any) -> datetime:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise InvalidSchedule(name, value, "must be an instant in ISO 8601, e.g. 2026-05-01T09:00:00+02:00") from None


def _zoned(policy: Policy, timezone: str) -> Policy:
    """Naive bounds are readings in the schedule's zone."""
    if policy.start_at is None and policy.end_at is None:
        return policy
    bounds = {name: getattr(policy, name) for name in ("start_at", "end_at")}
    naive = {name: value for name, value in bounds.items() if value is not None and value.tzinfo is None}
    if not naive:
        return policy
    try:
        zone = ZoneInfo(timezone)
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule("timezone", timezone, "must be the name of a time zone, such as Europe/Madrid") from None
    return replace(policy, **{name: value.replace(tzinfo=zone).astimezone(UTC) for name, value in naive.items()})


def _short(text: str | bytes) -> str:
    shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return shown if len(shown) <= 80 else shown[:80] + " …"


_a_missed = _choice(*Missed)
_CHECKS: dict[str, _Check] = {
    "schedule_config": _mapping,
    "args": _sequence,
    "kwargs": _mapping,
    "options": _mapping,
    "enabled": _flag,
    "callbacks": _callbacks,
    "failure_callbacks": _callbacks,
    "missed_callbacks": _callbacks,
    "send_result": _result_mail,
}
_POLICY_CHECKS: dict[str, _Check] = {
    "missed": lambda name, value: Missed(_a_missed(name, value)),
    "misfire_grace": _optional(_number),
    "catch_up_limit": _count(5000),
    "overlap": _optional(_choice(*OVERLAPS)),
    "exclusion_group": _text,
    "jitter": _number,
    "start_at": _optional(_instant),
    "end_at": _optional(_instant),
    "max_fires": _optional(_count(1_000_000_000)),
    "recover": _flag,
    "dst_gap": _optional(_choice(*GAPS)),
    "dst_fold": _optional(_choice(*FOLDS)),
}
