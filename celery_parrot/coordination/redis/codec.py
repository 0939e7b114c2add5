"""Between the model's values and what the scripts read and write: JSON, milliseconds, ISO text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Origin, Status
from celery_parrot.model.plan import NotFired, Plan, PlannedFire, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import CommitReply, Delivery, Hold, Outcome, Running, Timing

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT: Final = re.compile(r"^(\S+?\+00:00)(?::(.*))?$", re.DOTALL)


def dump(value: Any) -> bytes:
    """JSON as the scripts take it. Lone surrogates, which no server could store, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def load(raw: bytes | str) -> Any:
    return json.loads(raw)


def text(raw: bytes | str) -> str:
    return raw.decode() if isinstance(raw, bytes) else raw


def to_ms(moment: datetime) -> int:
    """Whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_ms(ms: float) -> datetime:
    return _EPOCH + timedelta(milliseconds=int(ms))


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
            "retry_cap": _ms(timing.retry_cap),
            "history_limit": timing.history_limit,
            "history_ms": _ms(history),
            "keep": _ms(max(history, 2 * timing.claim_ttl)),
            "forget_beats": 3_600_000,
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
    if plan.max_fires is not None:
        out["max_fires"] = plan.max_fires
    return out


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
    return out


def running_out(running: Running) -> dict[str, Any]:
    return delivery_out(running.delivery) | {
        "attempt": running.attempt,
        "sent_as": running.delivery.attempt,
        "started": to_ms(running.started_at),
    }


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
    return out


def late_text(outcome: Outcome) -> str:
    said = outcome.error or outcome.output or outcome.reason
    return f"{outcome.status}: {said}" if said else str(outcome.status)


def beat_out(beat: Beat) -> dict[str, Any]:
    return dict(beat.to_json())


def fire_out(fire: Fire) -> dict[str, Any]:
    """A remembered outbox entry, its claim as the scripts write it."""
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
    return {"text": fire.key.text, "claim": dump(claim).decode()}


# --- in ---------------------------------------------------------------------------------------------------------------


def fire_in(claim_text: str, raw: bytes) -> Fire:
    claim = load(raw)
    return Fire(
        key=key_from_text(claim_text, claim["moment"]),
        name=claim["name"],
        kind=claim["kind"],
        origin=Origin(claim["origin"]),
        status=Status(claim["status"]),
        owner=claim["owner"],
        owned_at=from_ms(claim["owned"]),
        committed_at=from_ms(claim["committed"]),
        tries=int(claim["tries"]),
        attempt=int(claim["attempt"]),
        sent_as=int(claim["sent_as"]),
        retries=int(claim["retries"]),
        token=claim["token"],
        lease_until=_stamp(claim, "lease"),
        worker=claim["worker"],
        sent_at=_stamp(claim, "sent"),
        started_at=_stamp(claim, "started"),
        finished_at=_stamp(claim, "finished"),
        reason=claim["reason"],
    )


def record_in(namespace: Namespace, schedule_id: str, moment: str, raw: bytes) -> FireRecord:
    key, entry = key_of(schedule_id, moment), load(raw)
    until = entry.get("until")
    return FireRecord(
        fire_id=namespace.fire_id(key),
        key=key,
        name=entry["name"],
        kind=entry["kind"],
        origin=Origin(entry["origin"]),
        status=Status(entry["status"]),
        reason=entry["reason"],
        attempt=int(entry["attempt"]),
        beat=entry["beat"],
        worker=entry["worker"],
        committed_at=_stamp(entry, "committed"),
        sent_at=_stamp(entry, "sent"),
        started_at=_stamp(entry, "started"),
        finished_at=_stamp(entry, "finished"),
        output=entry.get("output"),
        error=entry.get("error"),
        late_result=entry.get("late"),
        until=datetime.fromisoformat(until) if until else None,
        count=int(entry.get("count", 1)),
    )


def _stamp(entry: Mapping[str, Any], name: str) -> datetime | None:
    ms = entry.get(name)
    return from_ms(ms) if ms is not None else None


def commit_in(plan: Plan, reply: Sequence[Any]) -> CommitReply:
    verdict, mark, held, lost, *won = reply
    fires: tuple[PlannedFire, ...] = tuple(plan.fires[int(index) - 1] for index in won)
    return CommitReply(
        schedule_id=plan.schedule_id,
        verdict=Verdict(text(verdict)),
        mark=datetime.fromisoformat(text(mark)) if mark else None,
        held=text(held) or None,
        fires=fires,
        lost=int(lost),
    )


def pairs(flat: Sequence[bytes]) -> dict[str, bytes]:
    """A flat reply of names and values."""
    return {text(name): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def state_in(flat: Sequence[bytes]) -> RunState | None:
    fields = {name: text(value) for name, value in pairs(flat).items()}
    if not fields:
        return None

    def moment(name: str) -> datetime | None:
        return datetime.fromisoformat(fields[name]) if fields.get(name) else None

    return RunState(
        last_due=moment("last_due"),
        last_run=moment("last_run"),
        next_run=moment("next_run"),
        run_count=int(fields.get("run_count", 0)),
        auto_count=int(fields.get("auto_count", 0)),
        last_status=fields.get("last_status"),
        last_error=fields.get("last_error"),
        last_error_at=moment("last_error_at"),
        last_result=fields.get("last_result"),
        last_result_at=moment("last_result_at"),
        consecutive_failures=int(fields.get("consecutive_failures", 0)),
        disabled_by=fields.get("disabled_by") or None,
    )


def beats_in(beats: Sequence[bytes], seen: Sequence[bytes]) -> tuple[Beat, ...]:
    """Those that have said who they are and are not forgotten."""
    last = pairs(seen)
    found = []
    for owner, raw in sorted(pairs(beats).items()):
        if owner not in last:
            continue
        said = load(raw)
        found.append(
            Beat(
                owner=owner,
                host=said["host"],
                pid=int(said["pid"]),
                version=said["version"],
                started=datetime.fromisoformat(said["started"]),
                seen=from_ms(float(last[owner])),
                skew=float(said["skew"]),
                tzdata=said["tzdata"],
            )
        )
    return tuple(found)
