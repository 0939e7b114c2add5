"""Fires whose commit a row in a database decides: prepared here, and carried back to their row."""

from __future__ import annotations

from collections.abc import Sequence

from celery_parrot.coordination.rules import limits, records
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.model.fire import Fire, FireKey, Proof, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import Carried, CommitReply, Hold


def prepare(space: Space, plan: Plan, owner: str, token: str) -> CommitReply:
    moved = CommitReply(schedule_id=plan.schedule_id, verdict=Verdict.MOVED, mark=plan.expected_mark)
    if space.quiet:
        return moved
    there = {
        key: claim for planned in plan.fires if (claim := space.claim(key := FireKey(plan.schedule_id, planned.due_at)))
    }
    if not all(_mine(claim, owner, token) for claim in there.values()):
        return moved
    proof = Proof(token, plan.to_json())
    for planned in plan.fires:
        key = FireKey(plan.schedule_id, planned.due_at)
        if key in there:
            continue
        fire = Fire(
            key=key,
            name=plan.name,
            kind=plan.kind,
            origin=planned.origin,
            owner=owner,
            owned_at=space.now,
            committed_at=space.now,
            store=plan.store,
            recover=plan.recover,
            tells=plan.tells,
            proof=proof,
        )
        claim = space.add(fire)
        space.change(claim)
        records.record(space, claim)
    return CommitReply(
        schedule_id=plan.schedule_id, verdict=Verdict.COMMITTED, mark=plan.expected_mark, fires=plan.fires
    )


def _mine(claim: Claim, owner: str, token: str) -> bool:
    """Prepared by this very call, whose answer was lost."""
    fire = claim.fire
    return (
        fire.status is Status.PENDING
        and fire.proof is not None
        and (fire.proof.token, fire.owner, fire.tries) == (token, owner, 0)
    )


def discard(space: Space, hold: Hold, token: str) -> bool:
    """The token decides, not the owner: what a row refuted nobody may send, whoever has taken it since."""
    claim = space.claim(hold.key)
    if claim is None or claim.fire.status is not Status.PENDING:
        return False
    if claim.fire.proof is None or claim.fire.proof.token != token:
        return False
    limits.release(space, claim)
    space.forget(hold.key)
    space.strike(hold.key)
    return True


def carried(space: Space, item: Carried) -> None:
    space.carried(item.record.key, item.serial)
    records.go_on(space, item)


def uncarried(space: Space, limit: int) -> Sequence[Carried]:
    return space.uncarried(limit)
