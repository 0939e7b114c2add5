"""How events become the record of a fire.

Beats and workers tell independently, each with its own delay, so a fire may be heard to end before it is heard to be
sent: a status never goes back within an attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from celery_parrot.model import events
from celery_parrot.model.fire import Status

FIELDS: Final = (
    "schedule", "schedule_id", "kind", "store", "due_at", "until", "count", "origin", "worker", "late", "limit",
    "held_by", "held_by_kind",
)  # fmt: skip
"""What is taken over from any event that has it."""

_SAYS: Final = {
    events.FIRE_CLAIMED: (Status.PENDING, "claimed_at"),
    events.FIRE_WAITING: (Status.WAITING, "waiting_at"),
    events.FIRE_SENT: (Status.SENT, "sent_at"),
    events.FIRE_STARTED: (Status.RUNNING, "started_at"),
    events.FIRE_SUCCEEDED: (Status.SUCCESS, "ended_at"),
    events.FIRE_FAILED: (Status.ERROR, "ended_at"),
    events.FIRE_SKIPPED: (Status.SKIPPED, "ended_at"),
    events.FIRE_MISSED: (Status.MISSED, "ended_at"),
    events.FIRE_EXPIRED: (Status.EXPIRED, "ended_at"),
    events.FIRE_REAPED: (Status.ABANDONED, "ended_at"),
}
STAMPS: Final = ("claimed_at", "waiting_at", "sent_at", "started_at", "ended_at")
_OF_AN_ATTEMPT: Final = {"worker": None, "started_at": None, "ended_at": None, "reason": ""}
_ENDED: Final = 4
_RANK: Final = {Status.PENDING: 0, Status.WAITING: 1, Status.SENT: 2, Status.RUNNING: 3}

_EMPTY: Final[dict[str, Any]] = {
    "fire_id": "", "task_id": "", "status": str(Status.PENDING), "reason": "", "attempt": 1, "sent_as": 1,
    **dict.fromkeys(FIELDS), **dict.fromkeys(STAMPS),
}  # fmt: skip


def folded(known: Mapping[str, Any] | None, event: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record with what the event says; None for an event that says nothing of a fire's life.

    :param known: the record so far.
    """
    name = event.get("type")
    if name == events.FIRE_LATE and known is not None:
        return {**known, "late": _plain(event.get("late"), known["late"])}
    if name not in _SAYS:
        return None
    status, stamp = _SAYS[name]
    status = _status(event.get("status"), status)
    record = {**(known or _EMPTY), "fire_id": event["fire_id"]}
    attempt = event.get("attempt")
    attempt = attempt if isinstance(attempt, int) and attempt > 0 else record["attempt"]
    if name == events.FIRE_SENT:
        record["sent_as"] = max(attempt, record["sent_as"])
    # As model.fire.Namespace.task_id: a retry or redelivery is an attempt of the same message, and so of the same task.
    record["task_id"] = record["fire_id"] if record["sent_as"] == 1 else f"{record['fire_id']}:{record['sent_as']}"
    if attempt < record["attempt"]:
        return record
    goes_on = attempt > record["attempt"] or known is None or _rank(status) > _rank(_status(record["status"], status))
    if attempt > record["attempt"]:
        record |= _OF_AN_ATTEMPT
    record |= {key: _plain(event.get(key), record[key]) for key in FIELDS}
    if stamp != "ended_at" or _rank(status) == _ENDED:
        record[stamp] = record[stamp] or _instant(event.get("timestamp"))
    if goes_on:
        record |= {"status": str(status), "reason": _plain(event.get("reason"), "")}
    return record | {"attempt": attempt}


def _rank(status: Status) -> int:
    return _RANK.get(status, _ENDED)


def _status(value: object, otherwise: Status) -> Status:
    try:
        return Status(str(value))
    except ValueError:
        return otherwise


def _plain(value: object, otherwise: Any) -> Any:
    return value if isinstance(value, (str, int, float)) and value != "" else otherwise


def _instant(timestamp: object) -> str | None:
    try:
        return datetime.fromtimestamp(float(timestamp), UTC).isoformat()  # type: ignore[arg-type]  # as it came
    except (TypeError, ValueError, OverflowError, OSError):
        return None
