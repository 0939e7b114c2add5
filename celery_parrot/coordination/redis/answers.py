"""From what the scripts answer to the model's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from celery_parrot.coordination.redis.codec import from_ms, key_from_text, key_of, load, text
from celery_parrot.coordination.redis.faults import Fault
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Origin, Proof, Status
from celery_parrot.model.plan import Plan, PlannedFire, Verdict
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import (
    Busy,
    Carried,
    CommitReply,
    Grant,
    Holder,
    Limit,
    LimitReply,
    LimitState,
    StartReply,
    StartVerdict,
    Waiting,
)
from celery_parrot.protocols.holding import Held

T = TypeVar("T")
Report = Callable[[Fault], None]

#: Of a place in line: how much stands before the claim text, and where its arrival is.
PLACE: Final = 37
ARRIVAL: Final = slice(20, 36)

#: What reading a rubbish value raises.
UNREADABLE: Final = (ValueError, TypeError, KeyError, AttributeError, OverflowError)


def whole(read: Callable[[], T], report: Report, suffix: str, part: str = "") -> T | None:
    """What was read, or None if it is rubbish, which is reported: the others are read all the same."""
    try:
        return read()
    except UNREADABLE as exc:
        report(Fault(suffix, part, f"cannot be read ({type(exc).__name__}: {exc})"))
        return None


class FiresIn:
    """Reads claims of one reply. A plan that proves several of them comes with the first.

    :param report: told of one that cannot be read; it is None then.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._plans: dict[tuple[str, str], str] = {}

    def __call__(self, claim: bytes | str, raw: bytes, plan: bytes = b"") -> Fire | None:
        name = text(claim, "replace")
        return whole(lambda: self._read(text(claim), raw, plan), self._report, f"fire:{name}")

    def _read(self, claim_text: str, raw: bytes, plan: bytes) -> Fire:
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
            deadline=_stamp(claim, "deadline"),
            progress_at=_stamp(claim, "progressed"),
            progress=claim.get("progress", ""),
            silent_after=claim["silent_after"] / 1000 if "silent_after" in claim else None,
            recover=bool(claim.get("recover", False)),
            recovered=bool(claim.get("recovered", False)),
            store=claim.get("store", "code"),
            tells=tuple(claim.get("tells") or ()),
            guard=claim["guard"] / 1000 if "guard" in claim else None,
            override=claim.get("override", ""),
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
        waited_for=entry.get("waited_for", ""),
        waited_from=_stamp(entry, "waited_from"),
        waited_until=_stamp(entry, "waited_until"),
        held_by=entry.get("held_by", ""),
        until=datetime.fromisoformat(until) if until else None,
        count=int(entry.get("count", 1)),
        traceback=entry.get("traceback"),
        delivery={about: _note_in(note) for about, note in (entry.get("delivery") or {}).items()},
    )


def _note_in(note: Mapping[str, Any]) -> dict[str, Any]:
    return {**note, "tries": int(note["tries"]), "callbacks": load(note["callbacks"])}


def _stamp(entry: Mapping[str, Any], name: str) -> datetime | None:
    ms = entry.get(name)
    return from_ms(ms) if ms is not None else None


def start_in(reply: Sequence[Any]) -> StartReply:
    verdict, attempt, lease, pause, *holds = reply
    return StartReply(
        verdict=StartVerdict(text(verdict)),
        attempt=attempt,
        lease_until=from_ms(lease) if lease else None,
        retry_after=pause / 1000,
        holds=tuple(
            Limit(text(name), int(capacity), Busy(text(busy)), int(buffer) if buffer != b"" else None)
            for name, capacity, busy, buffer in zip(*(holds[part::4] for part in range(4)), strict=True)
        ),
    )


def commit_in(plan: Plan, reply: Sequence[Any]) -> CommitReply:
    if not reply:  # nothing was decided, and planning it anew would not help: `held` says why
        return CommitReply(
            schedule_id=plan.schedule_id, verdict=Verdict.MOVED, mark=plan.expected_mark, held="unreadable"
        )
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
    return {text(name, "replace"): value for name, value in zip(flat[::2], flat[1::2], strict=True)}


def state_in(flat: Sequence[bytes], report: Callable[[str, Exception], None] | None = None) -> RunState | None:
    """:param report: told of each field that cannot be read; it counts as not there."""
    fields = {name: text(value, "replace") for name, value in pairs(flat).items()}
    if not fields:
        return None

    def field(name: str, read: Callable[[str], T], without: T) -> T:
        try:
            return read(fields[name]) if fields.get(name) else without
        except ValueError as exc:
            if report is not None:
                report(name, exc)
            return without

    def moment(name: str) -> datetime | None:
        return field(name, _aware, None)

    def number(name: str) -> int:
        return field(name, int, 0)

    return RunState(
        last_due=moment("last_due"),
        last_run=moment("last_run"),
        next_run=moment("next_run"),
        run_count=number("run_count"),
        auto_count=number("auto_count"),
        last_status=fields.get("last_status"),
        last_error=fields.get("last_error"),
        last_error_at=moment("last_error_at"),
        last_result=fields.get("last_result"),
        last_result_at=moment("last_result_at"),
        consecutive_failures=number("consecutive_failures"),
        failing_since=moment("failing_since"),
        last_delivery_status=fields.get("last_delivery_status"),
        last_delivery_at=moment("last_delivery_at"),
        last_callbacks=field("last_callbacks", _objects, ()),
        disabled_by=fields.get("disabled_by") or None,
    )


def _objects(said: str) -> tuple[Mapping[str, Any], ...]:
    found = load(said)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError("no list of objects")
    return tuple(found)


def _aware(said: str) -> datetime:
    moment = datetime.fromisoformat(said)
    if moment.tzinfo is None:
        raise ValueError(f"no zone: {said!r}")
    return moment


def beats_in(beats: Sequence[bytes], seen: Sequence[bytes], report: Report) -> tuple[Beat, ...]:
    """Those that have said who they are and are not forgotten."""
    last = pairs(seen)
    found = []
    for owner, raw in sorted(pairs(beats).items()):
        if owner not in last:
            continue
        beat = whole(partial(_beat_in, owner, raw, last[owner]), report, "beats", owner)
        if beat is not None:
            found.append(beat)
    return tuple(found)


def _beat_in(owner: str, raw: bytes, seen: bytes) -> Beat:
    said = load(raw)
    return Beat(
        owner=owner,
        host=said["host"],
        pid=int(said["pid"]),
        version=said["version"],
        started=_aware(said["started"]),
        seen=from_ms(float(seen)),
        skew=float(said["skew"]),
        tzdata=said["tzdata"],
        claims=float(said.get("claims") or 0.0),
        failing=dict(said.get("failing") or {}),
    )


def keys_in(texts: Sequence[bytes]) -> tuple[FireKey, ...]:
    """Keys of fires that a release named, told as claim text and moment in turn."""
    told = [text(part) for part in texts]
    return tuple(key_from_text(claim, moment) for claim, moment in zip(told[::2], told[1::2], strict=True))


# --- limits -----------------------------------------------------------------------------------------------------------


def limit_reply_in(namespace: Namespace, reply: Sequence[bytes]) -> LimitReply:
    if not reply:  # the outbox has it, and whoever takes it asks again
        return LimitReply(grant=Grant.LOST)
    grant, limit, claim, moment, kind = (text(part) for part in reply)
    held_by = namespace.fire_id(key_from_text(claim, moment)) if claim else ""
    return LimitReply(grant=Grant(grant), held_by=held_by, held_by_kind=kind, limit=limit)


def waiting_in(claim: bytes | str, raw: bytes, fire: Fire | None, report: Report) -> Waiting | None:
    def read() -> Waiting | None:
        said = load(raw)
        if fire is None or fire.status is not Status.WAITING:
            return None
        limits = tuple(
            Limit(limit["name"], int(limit["capacity"]), Busy(limit["busy"]), limit.get("buffer"))
            for limit in said.get("limits") or ()
        )
        return Waiting(fire, limits, since=_stamp(said, "since"), until=_stamp(said, "wait_until"))

    return whole(read, report, f"fire:{text(claim, 'replace')}")


def limit_state_in(
    told: Sequence[Any], fires: Mapping[str, Fire | None], raws: Mapping[str, bytes], report: Report
) -> LimitState:
    name, capacity, holders, queued = told
    pairs_of = zip(map(text, holders[::2]), holders[1::2], strict=True)
    line = (waiting_in(claim, raws[claim], fires[claim], report) for claim in map(text, queued))
    return LimitState(
        name=text(name),
        capacity=int(capacity),
        holders=tuple(
            Holder(fire=fire, since=from_ms(since)) for claim, since in pairs_of if (fire := fires[claim]) is not None
        ),
        waiting=tuple(waiting for waiting in line if waiting is not None),
    )
