"""Values of the protocols as a trace shows them: short, and equal for equal seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from celery_parrot.model.fire import Fire, FireKey
from celery_parrot.model.plan import NotFired, Plan, PlannedFire
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    CommitReply,
    Delivery,
    Drop,
    FinishReply,
    Hold,
    Lease,
    Mark,
    Memory,
    Outcome,
    Reading,
    Reaped,
    Registration,
    Running,
    StartReply,
    SweepReply,
)
from tests.simulation.world import BASE


def _at(instant: datetime | None) -> str:
    return "-" if instant is None else f"{(instant - BASE).total_seconds():g}"


def _key(key: FireKey) -> str:
    return f"{key.schedule_id}@{_at(key.due_at)}"


def _plan(plan: Plan) -> str:
    fires = ",".join(_at(fire.due_at) for fire in plan.fires)
    gone = "".join(f" {text(one)}" for one in plan.not_fired)
    return f"{plan.schedule_id} {_at(plan.expected_mark)}..{_at(plan.new_mark)} fire[{fires}]{gone}"


def _fire(fire: Fire) -> str:
    token = f" {fire.token}" if fire.token else ""
    return f"{_key(fire.key)} {fire.status} {fire.owner}/{fire.tries}{token}"


def _sweep(reply: SweepReply) -> str:
    return f"entries{text(reply.entries)} due{text(reply.due)}"


def _commit(reply: CommitReply) -> str:
    won = ",".join(_at(fire.due_at) for fire in reply.fires)
    return f"{reply.verdict} mark {_at(reply.mark)} won[{won}] lost {reply.lost}"


def _start(reply: StartReply) -> str:
    return f"{reply.verdict} attempt {reply.attempt}"


def _delivery(one: Delivery) -> str:
    back = " put back" if one.put_back else ""
    return f"{_key(one.key)} {one.token} {one.attempt}.{one.retries}{back}"


_WORDS: Mapping[type, Callable[[Any], str]] = {
    datetime: _at,
    FireKey: _key,
    Plan: _plan,
    PlannedFire: lambda one: _at(one.due_at),
    NotFired: lambda one: f"{one.reason}[{_at(one.first)}..{_at(one.last)} x{one.count}]",
    Fire: _fire,
    Beat: lambda beat: beat.owner,
    CommitReply: _commit,
    Delivery: _delivery,
    Drop: lambda one: f"{text(one.hold)} {one.status} {one.reason}",
    FinishReply: lambda reply: str(reply.verdict),
    Hold: lambda hold: f"{_key(hold.key)} {hold.owner}/{hold.tries}",
    Lease: lambda lease: f"{_key(lease.key)} {lease.token}",
    Mark: lambda mark: f"{mark.schedule_id}={_at(mark.last_due)}",
    Memory: lambda memory: f"marks{text(memory.marks)} outbox{text(memory.outbox)}",
    Outcome: lambda one: f"{text(one.lease)} {one.status}",
    Reading: lambda reading: f"judge {_at(reading.judge_from)} quiet {_at(reading.quiet_until)}",
    Reaped: lambda reaped: _key(reaped.fire.key),
    Registration: lambda one: one.schedule_id,
    Running: lambda one: _delivery(one.delivery),
    StartReply: _start,
    SweepReply: _sweep,
}


def text(value: Any) -> str:
    """One value, or a sequence of them in brackets."""
    word = _WORDS.get(type(value))
    if word is not None:
        return word(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return str(value)
    return f"[{'; '.join(map(text, value))}]"
