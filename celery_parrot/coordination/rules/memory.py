"""Loss of memory: epochs, and what beats and workers put back."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from celery_parrot.clock import new_id
from celery_parrot.coordination.rules import limits, records
from celery_parrot.coordination.rules.space import GUARD_OF_STRAYS, ScheduleState, Space
from celery_parrot.model.fire import Fire, Origin, Status
from celery_parrot.model.schedule import TELLS_ALL
from celery_parrot.model.state import RunState
from celery_parrot.protocols import SAME_AGE, Mark, Memory, Registration, Running


def attach(space: Space) -> None:
    """Adopt the epoch, or make one. A changed server may have lost the last writes, so it starts with silence."""
    if not space.epoch:
        space.new_epoch(new_id())
    elif space.made_on != space.run_id:
        space.new_epoch(new_id())
        space.keep_quiet()


def rejoin(space: Space, known: str) -> None:
    """As :meth:`~celery_parrot.protocols.Coordinator.remember` says; the first to remember sets the silence."""
    if not space.epoch or space.made_on != space.run_id:
        space.new_epoch(new_id())
        space.keep_quiet()
    elif space.epoch != known and not space.remembered:
        space.keep_quiet()
    if space.epoch != known:
        space.remembered = True


def restore(space: Space, memory: Memory) -> None:
    registrations = {r.schedule_id: r for r in memory.registrations}
    for mark in memory.marks:
        _restore_mark(space, mark, registrations.get(mark.schedule_id))
    if not _is_fresh(space, memory.seen_at):
        return
    for fire in memory.outbox:
        if space.claim(fire.key) is None and fire.status is Status.PENDING:
            claim = space.add(fire)
            claim.counted = fire.sent_at is not None  # sent before, it was counted before
            claim.mirrored = space.epoch
            space.change(claim)
            records.record(space, claim)
    for waiting in memory.line:
        if space.claim(waiting.fire.key) is None:
            limits.restore_waiting(space, waiting)


def _is_fresh(space: Space, seen_at: datetime | None) -> bool:
    """False for a memory older than another that was put back; a fresher one takes back what older ones added."""
    if seen_at is None or space.mirror_of is None:
        space.mirror_of = seen_at or space.mirror_of
        return True
    ahead = (seen_at - space.mirror_of).total_seconds()
    if ahead > SAME_AGE and space.quiet:
        for claim in space.mirrored():
            limits.release(space, claim)
            space.forget(claim.fire.key)
            space.strike(claim.fire.key)
    space.mirror_of = max(seen_at, space.mirror_of)
    return ahead >= -SAME_AGE


def _restore_mark(space: Space, mark: Mark, registration: Registration | None) -> None:
    when = registration.when if registration is not None else ""
    state = space.state(mark.schedule_id)
    if state is None:
        state = ScheduleState(run=RunState(last_due=mark.last_due, disabled_by=mark.held), when=when)
        space.put_state(mark.schedule_id, state)
    elif when and state.when and when != state.when:
        return  # it belongs to another definition
    elif state.initial or state.run.last_due is None:
        state.run = replace(state.run, last_due=mark.last_due, disabled_by=state.run.disabled_by or mark.held)
    else:
        state.run = replace(state.run, last_due=max(state.run.last_due, mark.last_due))
    state.initial = False
    state.when = state.when or when


def restore_running(space: Space, running: Running) -> None:
    delivery = running.delivery
    claim = space.claim(delivery.key)
    if claim is None:
        claim = space.add(
            Fire(
                key=delivery.key,
                name=delivery.name,
                kind=delivery.kind,
                origin=delivery.origin,
                status=Status.SENT,
                owned_at=space.now,
                committed_at=running.started_at,
                sent_at=running.started_at,
                tells=TELLS_ALL,
                guard=GUARD_OF_STRAYS if delivery.origin is Origin.RUN_NOW else None,
            )
        )
        claim.counted = records.recorded(space, delivery.key)
        claim.stray = True
    fire = claim.fire
    if fire.status.terminal or (fire.status is Status.RUNNING and fire.token != delivery.token):
        return
    if (delivery.attempt, delivery.retries) < (fire.sent_as, fire.retries):
        return  # it goes on as a later attempt
    records.count_sent(space, claim)
    limits.restore_holds(space, claim, running.holds)
    space.change(
        claim,
        status=Status.RUNNING,
        attempt=max(fire.attempt, running.attempt),
        sent_as=delivery.attempt,
        retries=delivery.retries,
        token=delivery.token,
        worker=delivery.worker,
        sent_at=fire.sent_at or running.started_at,
        started_at=running.started_at,
        lease_until=space.now + space.lease,
        progress_at=space.now,
        silent_after=delivery.silent_after,
    )
    records.record(space, claim)
