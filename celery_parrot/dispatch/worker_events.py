"""What a worker says about fires, as events. No arguments, no results: identities, verdicts and reasons only."""

from __future__ import annotations

import logging
from typing import Any, Final

from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import FireKey, Namespace, Status
from celery_parrot.protocols import (
    Delivery,
    FinishReply,
    FinishVerdict,
    Outcome,
    Running,
    StartReply,
    StartVerdict,
)

# Log only, beside those of model.events.
FIRE_DUPLICATE: Final = "fire-duplicate"
FIRE_PUT_BACK: Final = "fire-put-back"
FIRE_RETRIED: Final = "fire-retried"
FIRE_HELD: Final = "fire-held"
LEASE_LOST: Final = "lease-lost"
OUTCOME_LATE: Final = "outcome-late"
OUTCOME_DROPPED: Final = "outcome-dropped"
COORDINATOR_UNREACHABLE: Final = "coordinator-unreachable"

_MET: Final = {
    StartVerdict.RUN: (events.FIRE_STARTED, logging.INFO, "started"),
    StartVerdict.DUPLICATE: (FIRE_DUPLICATE, logging.INFO, "is a duplicate and does not run"),
    StartVerdict.PUT_BACK: (FIRE_PUT_BACK, logging.INFO, "runs elsewhere: put back for one lease time"),
    StartVerdict.QUIET: (FIRE_HELD, logging.INFO, "held back: the coordinator lost its memory"),
    StartVerdict.ASKS_AGAIN: (
        FIRE_HELD,
        logging.WARNING,
        "does not run: its limits were forgotten, a beat asks for them again and sends it anew",
    ),
    StartVerdict.EXPIRED: (events.FIRE_EXPIRED, logging.WARNING, "was not started before its deadline"),
}


class Describer:
    """Words for one registered name."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace

    def met(self, delivery: Delivery, reply: StartReply) -> Event:
        """What became of a delivery at Start."""
        name, level, text = _MET[reply.verdict]
        return self._of(name, level, delivery, text, attempt=reply.attempt, worker=delivery.worker)

    def held(self, delivery: Delivery, exc: Unreachable) -> Event:
        """A delivery that could not be opened."""
        text = "cannot be opened: the coordinator does not answer"
        return self._of(FIRE_HELD, logging.WARNING, delivery, text, worker=delivery.worker, cause=str(exc))

    def lease_lost(self, running: Running) -> Event:
        """A fire that runs here and is no longer ours."""
        text = "still runs here, but its lease was lost: its result will not count"
        return self._of(LEASE_LOST, logging.WARNING, running.delivery, text, attempt=running.attempt)

    def ended(
        self, outcome: Outcome, reply: FinishReply, running: Running | None, delivery: Delivery | None = None
    ) -> Event:
        """What became of an outcome. :param delivery: of one that was never opened, as far as it is known."""
        fields = self._identity(outcome.lease.key)
        known = running.delivery if running is not None else delivery
        if known is not None:
            attempt = running.attempt if running is not None else known.attempt
            fields |= _known(known) | {"attempt": attempt, "worker": known.worker}
        fields |= {"status": str(outcome.status), "reason": outcome.reason}
        if reply.named:
            fields["named"] = [self._namespace.fire_id(key) for key in reply.named]
        subject = self._subject(outcome.lease.key, fields["schedule"])
        if reply.verdict is FinishVerdict.LATE:
            return Event(OUTCOME_LATE, logging.INFO, f"{subject}: {outcome.status} came late, changes nothing", fields)
        if reply.verdict is FinishVerdict.UNKNOWN:
            text = f"{subject}: {outcome.status}, but the coordinator does not know this fire"
            return Event(OUTCOME_LATE, logging.WARNING, text, fields)
        name, level = _ended(outcome.status)
        why = f" ({outcome.reason})" if outcome.reason else ""
        return Event(name, level, f"{subject}: {outcome.status}{why}", fields)

    def outcome_dropped(self, outcome: Outcome, why: str) -> Event:
        """An outcome that is not going to be recorded by this process."""
        fields = self._identity(outcome.lease.key) | {"status": str(outcome.status), "reason": outcome.reason}
        text = f"{self._subject(outcome.lease.key)}: its outcome, {outcome.status}, could not be recorded: {why}"
        return Event(OUTCOME_DROPPED, logging.ERROR, text, fields)

    def unreachable(self, doing: str, exc: Unreachable) -> Event:
        """A call that failed and will be repeated."""
        return Event(
            COORDINATOR_UNREACHABLE, logging.WARNING, f"cannot {doing}, trying again: {exc}", {"cause": str(exc)}
        )

    def memory_lost(self, exc: MemoryLost) -> Event:
        """The coordinator forgot; what runs here is put back."""
        return Event(events.MEMORY_LOST, logging.WARNING, f"{exc}; telling it what runs here", {"epoch": exc.epoch})

    # --- inside ---

    def _of(self, name: str, level: int, delivery: Delivery, text: str, **fields: Any) -> Event:
        known = _known(delivery) | {"attempt": delivery.attempt}
        subject = self._subject(delivery.key, delivery.name)
        return Event(name, level, f"{subject} {text}", self._identity(delivery.key) | known | fields)

    def _identity(self, key: FireKey) -> dict[str, Any]:
        return {
            "schedule": key.schedule_id,  # the name, where it is known
            "schedule_id": key.schedule_id,
            "due_at": key.due_at.isoformat(),
            "fire_id": self._namespace.fire_id(key),
        }

    def _subject(self, key: FireKey, name: str | None = None) -> str:
        return f"fire {self._namespace.fire_id(key)} of {name or key.schedule_id}, due {key.due_at.isoformat()}"


def _known(delivery: Delivery) -> dict[str, Any]:
    return {"schedule": delivery.name, "kind": delivery.kind, "origin": str(delivery.origin)}


def _ended(status: Status) -> tuple[str, int]:
    if status is Status.SUCCESS:
        return events.FIRE_SUCCEEDED, logging.INFO
    if status is Status.EXPIRED:
        return events.FIRE_EXPIRED, logging.WARNING
    if status is Status.SENT:
        return FIRE_RETRIED, logging.INFO
    return events.FIRE_FAILED, logging.WARNING
