"""Between the model's values and what the scripts read and write: JSON, milliseconds, ISO text."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery_parrot.model.fire import Fire, FireKey, Namespace
from celery_parrot.model.plan import NotFired, Plan
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    Delivery,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Outcome,
    Reservation,
    Running,
    Timing,
    Waiting,
)
from celery_parrot.protocols.holding import Release

#: History entries kept here of a schedule whose history is in a database.
_COPIES: Final = 100

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT: Final = re.compile(r"^(\S+?\+00:00)(?::(.*))?$", re.DOTALL)


def dump(value: Any) -> bytes:
    """JSON as the scripts take it. Lone surrogates, which no server could store, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def load(raw: bytes | str) -> Any:
    return json.loads(raw)


def text(raw: bytes | str, errors: str = "strict") -> str:
    return raw.decode(errors=errors) if isinstance(raw, bytes) else raw


def to_ms(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(ms))


def ms_text(moment: datetime | None) -> str:
    """Milliseconds since 1970, rounded up, as the score of a sorted set takes them; empty for None."""
    return "" if moment is None else str(-((_EPOCH - moment) // timedelta(milliseconds=1)))


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def conf(namespace: Namespace, timing: Timing) -> bytes:
    """What is the same in every call of a client."""
    history = timing.history_days * 86400
    return dump(
        {
            "prefix": namespace.prefix,
            "claim_ttl": _ms(timing.claim_ttl),
            "ended_ttl": _ms(min(timing.claim_ttl, timing.ended_ttl)),
            "takeover": _ms(timing.takeover_after),
            "heartbeat": _ms(timing.heartbeat),
            "lease": _ms(timing.lease),
            "untouched": _ms(timing.untouched),
            "unknown_after": _ms(timing.unknown_after),
            "retry_cap": _ms(timing.retry_cap),
            "send_within": _ms(timing.send_within),
            "history_limit": timing.history_limit,
            "history_ms": _ms(history),
            "copy_limit": min(timing.history_limit, _COPIES),
            "copy_ms": _ms(timing.claim_ttl + timing.unknown_after),  # a fire never started is told of by its copy
            "keep": _ms(max(history, 2 * timing.claim_ttl)),
            "forget_beats": 3_600_000,
            "max_failures": timing.max_failures,
        }
    )


def _ms(seconds: float) -> int:
    return max(round(seconds * 1000), 1)


# --- keys -----------------------------------------------------------------------------------------------------------


def key_of(schedule_id: str, moment: str) -> FireKey:
    match = _MOMENT.match(moment)
    if match is None:
        raise ValueError(f"not the moment of a fire: {moment!r}")
    return FireKey(schedule_id, datetime.fromisoformat(match[1]), match[2] or "")


def key_from_text(claim_text: str, moment: str) -> FireKey:
    return key_of(claim_text[: -len(moment) - 1], moment)


# --- out --------------------------------------------------------------------------------------------------------------


def hold_out(hold: Hold) -> dict[str, Any]:
    return {"text": hold.key.text, "owner": hold.owner, "tries": hold.tries}


def confirmed_out(confirmed: tuple[Hold, datetime | None]) -> dict[str, Any]:
    hold, deadline = confirmed
    return hold_out(hold) if deadline is None else hold_out(hold) | {"deadline": to_ms(deadline)}


def plan_out(plan: Plan) -> dict[str, Any]:
    out: dict[str, Any] = {
        "id": plan.schedule_id,
        "name": plan.name,
        "kind": plan.kind,
        "mark": iso(plan.expected_mark),
        "new_mark": iso(max(plan.new_mark, plan.expected_mark)),
        "fires": [[iso(fire.due_at), fire.origin.value] for fire in plan.fires],
        "ranges": [_range_out(run) for run in plan.not_fired],
    }
    if plan.recover:
        out["recover"] = True
    if plan.tells:
        out["tells"] = list(plan.tells)
    if plan.max_fires is not None:
        out["max_fires"] = plan.max_fires
    if plan.store == "redis":
        out.update(store=plan.store, version=plan.expected_version, at=ms_text(plan.next_at))
    return out


def prepared_out(plan: Plan) -> dict[str, Any]:
    return {
        "id": plan.schedule_id,
        "name": plan.name,
        "kind": plan.kind,
        "store": plan.store,
        "mark": iso(plan.expected_mark),
        "fires": [[iso(fire.due_at), fire.origin.value] for fire in plan.fires],
        "proof": plan.to_json(),
        **({"recover": True} if plan.recover else {}),
        **({"tells": list(plan.tells)} if plan.tells else {}),
    }


def release_out(release: Release) -> dict[str, Any]:
    return {
        "id": release.schedule_id,
        "name": release.name,
        "kind": release.kind,
        "mark": iso(release.expected_mark),
        "new_mark": iso(max(release.new_mark, release.expected_mark)),
        "ranges": [_range_out(run) for run in release.skipped],
    }


def _range_out(run: NotFired) -> dict[str, Any]:
    return {
        "status": run.status.value,
        "reason": run.reason,
        "first": iso(run.first),
        "last": iso(run.last),
        "count": run.count,
    }


def delivery_out(delivery: Delivery) -> dict[str, Any]:
    out: dict[str, Any] = {
        "text": delivery.key.text,
        "id": delivery.key.schedule_id,
        "moment": delivery.key.moment,
        "name": delivery.name,
        "kind": delivery.kind,
        "origin": delivery.origin.value,
        "token": delivery.token,
        "worker": delivery.worker,
        "attempt": delivery.attempt,
        "retries": delivery.retries,
        "put_back": delivery.put_back,
    }
    if delivery.deadline is not None:
        out["deadline"] = to_ms(delivery.deadline)
    if delivery.silent_after is not None:
        out["silent_after"] = _ms(delivery.silent_after)
    if delivery.limits:
        out["limits"] = True
    if delivery.override:
        out["override"] = delivery.override
    return out


def running_out(running: Running) -> dict[str, Any]:
    return delivery_out(running.delivery) | {
        "attempt": running.attempt,
        "sent_as": running.delivery.attempt,
        "started": to_ms(running.started_at),
        "holds": [limit_out(limit) for limit in running.holds],
    }


def lease_out(lease: Lease) -> dict[str, Any]:
    out: dict[str, Any] = {"text": lease.key.text, "token": lease.token}
    if lease.progress is not None:
        out["progress"] = lease.progress.text
    return out


def outcome_out(outcome: Outcome) -> dict[str, Any]:
    out: dict[str, Any] = {
        "text": outcome.lease.key.text,
        "token": outcome.lease.token,
        "status": outcome.status.value,
        "reason": outcome.reason,
        "counted": outcome.counted,
        "late": late_text(outcome),
    }
    if outcome.output is not None:
        out["output"] = outcome.output
    if outcome.error is not None:
        out["error"] = outcome.error
    if outcome.traceback is not None:
        out["traceback"] = outcome.traceback
    if outcome.attempt:
        out["attempt"] = outcome.attempt
    if outcome.deadline is not None:
        out["deadline"] = to_ms(outcome.deadline)
    return out


def late_text(outcome: Outcome) -> str:
    said = outcome.error or outcome.output or outcome.reason
    return f"{outcome.status}: {said}" if said else str(outcome.status)


def beat_out(beat: Beat) -> dict[str, Any]:
    return dict(beat.to_json())


def fire_out(fire: Fire) -> dict[str, Any]:
    """A remembered outbox entry, its claim as the scripts write it."""
    return {"text": fire.key.text, "claim": dump(_claim_out(fire)).decode()}


def _claim_out(fire: Fire) -> dict[str, Any]:
    claim: dict[str, Any] = {
        "moment": fire.key.moment,
        "name": fire.name,
        "kind": fire.kind,
        "origin": fire.origin.value,
        "status": fire.status.value,
        "owner": fire.owner,
        "owned": to_ms(fire.owned_at),
        "committed": to_ms(fire.committed_at),
        "tries": fire.tries,
        "attempt": fire.attempt,
        "sent_as": fire.sent_as,
        "retries": fire.retries,
        "token": "",
        "worker": fire.worker,
        "reason": fire.reason,
    }
    if fire.store != "code":
        claim["store"] = fire.store
    if fire.proof is not None:
        claim["proof"] = fire.proof.token
    if fire.tells:
        claim["tells"] = list(fire.tells)
    if fire.guard is not None:
        claim["guard"] = _ms(fire.guard)
    if fire.override:
        claim["override"] = fire.override
    for name in ("recover", "recovered"):
        if getattr(fire, name):
            claim[name] = True
    if fire.sent_at is not None:  # sent before, it was counted before
        claim.update(sent=to_ms(fire.sent_at), counted=True)
    return claim


def waiting_out(waiting: Waiting) -> dict[str, Any]:
    """A remembered fire of the line, likewise."""
    claim = _claim_out(waiting.fire) | {"status": "waiting", "limits": [limit_out(limit) for limit in waiting.limits]}
    for name, moment in (("since", waiting.since), ("wait_until", waiting.until)):
        if moment is not None:
            claim[name] = to_ms(moment)
    return {"text": waiting.fire.key.text, "claim": dump(claim).decode()}


# --- limits -----------------------------------------------------------------------------------------------------------


def limit_out(limit: Limit) -> dict[str, Any]:
    out: dict[str, Any] = {"name": limit.name, "capacity": limit.capacity, "busy": limit.busy.value}
    if limit.buffer is not None:
        out["buffer"] = limit.buffer
    return out


def request_out(request: LimitRequest) -> dict[str, Any]:
    out = hold_out(request.hold) | {"limits": [limit_out(limit) for limit in request.limits]}
    if request.wait is not None:
        out["wait"] = _ms(request.wait)
    return out


def reservation_out(reservation: Reservation) -> dict[str, Any]:
    return {
        "text": reservation.key.text,
        "attempt": reservation.attempt,
        "retries": reservation.retries,
        "worker": reservation.worker,
    }


def proofs_out(fires: Sequence[Fire]) -> dict[str, str]:
    """The plans that these fires need, each once."""
    return {f"{fire.proof.token}:{fire.key.schedule_id}": fire.proof.plan for fire in fires if fire.proof is not None}
