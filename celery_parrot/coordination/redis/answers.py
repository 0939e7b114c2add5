"""From what the scripts answer to the model's values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from celery_parrot.coordination.redis.codec import from_ms, key_from_text, key_of, load, text
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Origin, Proof, Status
from celery_parrot.model.plan import Plan, PlannedFire, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import Carried, CommitReply
from celery_parrot.protocols.holding import Held


class FiresIn:
    """Reads claims of one reply. A plan that proves several of them comes with the first."""

    def __init__(self) -> None:
        self._plans: dict[tuple[str, str], str] = {}

    def __call__(self, claim_text: str, raw: bytes, plan: bytes = b"") -> Fire:
        claim = load(raw)
        key = key_from_text(claim_text, claim["moment"])
        proof = None
        if token := claim.get("proof"):
            known = (token, key.schedule_id)
            if plan or known not in self._plans:
                self._plans[known] = text(plan) or _no_plan(claim, key)
            proof = Proof(token, self._plans[known])
        return Fire(
            key=key,
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
            store=claim.get("store", "code"),
            proof=proof,
        )


def _no_plan(claim: Mapping[str, Any], key: FireKey) -> str:
    """A plan for a claim whose own was evicted: it can move no row, so the token alone proves or refutes."""
    never = datetime.min.replace(tzinfo=UTC)
    return Plan(
        schedule_id=key.schedule_id,
        name=claim["name"],
        kind=claim["kind"],
        expected_mark=never,
        new_mark=never,
        expected_version=-1,
        fires=(PlannedFire(key.due_at, Origin(claim["origin"])),),
        store=claim.get("store", "db"),
    ).to_json()


def carried_in(namespace: Namespace, claim_text: str, raw: bytes) -> Carried:
    entry = load(raw)
    moment = entry["moment"]
    schedule_id = claim_text[: -len(moment) - 1]
    return Carried(
        record=record_in(namespace, schedule_id, moment, raw),
        serial=int(entry["serial"]),
        counted=not entry.get("uncounted", False),
    )


def held_in(reply: Sequence[bytes]) -> Held | None:
    by, note, at, mark = (text(part) for part in reply)
    if not mark:
        return None
    return Held(
        mark=datetime.fromisoformat(mark),
        by=by or None,
        note=note or None,
        at=datetime.fromisoformat(at) if at else None,
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
                failing=dict(said.get("failing") or {}),
            )
        )
    return tuple(found)
