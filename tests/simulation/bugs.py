"""Known bugs, to be patched in: what the simulator is worth shows in whether it finds them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from unittest import mock

from celery_parrot.coordination.rules import limits, memory, outbox, reaping, runs, turns
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.dispatch.asking import Asking
from celery_parrot.dispatch.keeping import Leases
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.dispatch.outbox import Outbox
from celery_parrot.dispatch.writing import Written
from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import (
    CommitReply,
    Delivery,
    FinishReply,
    FinishVerdict,
    Hold,
    Limit,
    Memory,
    Outcome,
    StartReply,
)

_EVER = datetime.min.replace(tzinfo=UTC)


@contextmanager
def _patched(where: Any, name: str, bad: Any) -> Iterator[None]:
    with mock.patch.object(where, name, bad):
        yield


@dataclass(frozen=True, slots=True)
class Bug:
    """:ivar patch: with it, the code under test has the bug. ``quick``: found within a hundred seeds or so."""

    name: str
    patch: Callable[[], Any]
    quick: bool = True


# --- commit ---


def _commit_blindly(space: Space, plan: Plan, owner: str) -> CommitReply:
    """Neither the mark is compared nor the claim."""
    state = space.state(plan.schedule_id)
    for fire in plan.fires:
        space.forget(FireKey(plan.schedule_id, fire.due_at))
    mark = state.run.last_due if state is not None else None
    return _commit(space, replace(plan, expected_mark=mark or plan.expected_mark), owner)


def _commit_without_mark(space: Space, plan: Plan, owner: str) -> CommitReply:
    """The claims are right, the mark stays: the scan sees again what the outbox owns."""
    state = space.state(plan.schedule_id)
    mark = state.run.last_due if state is not None else None
    reply = _commit(space, plan, owner)
    if state is not None and reply.verdict is Verdict.COMMITTED:
        state.run = replace(state.run, last_due=mark)
    return reply


_commit = outbox.commit


# --- the owner's moves ---


def _confirm_before_send(self: Outbox, chunk: list[Written]) -> list[Written] | None:
    self._coordinator.confirm([item.ticket.hold for item in chunk])
    return _send_chunk(self, chunk)


_send_chunk = Outbox._send_chunk


def _never_renew(self: Outbox, chunk: list[Written]) -> list[Written]:
    """However old, it is sent."""
    now = self._clock.monotonic()
    return [replace(item, ticket=replace(item.ticket, since=now)) for item in chunk]


def _renew_without_heartbeat(space: Space, hold: Hold) -> bool:
    with mock.patch.object(outbox, "seen"):
        return _renew(space, hold)


_renew = outbox.renew


def _renew_anything(space: Space, hold: Hold) -> bool:
    claim = space.claim(hold.key)
    if claim is not None and claim.fire.status is Status.PENDING:
        space.change(claim, owned_at=space.now)
    return True


# --- takeover ---


def _takeable_during_an_outage(space: Space, claim: Claim, who: str) -> bool:
    """``judge_from`` is not asked."""
    with mock.patch.object(space, "judge_from", _EVER):
        return _takeable(space, claim, who)


_takeable = outbox.takeable


def _take_anything(space: Space, hold: Hold, owner: str) -> Fire | None:
    """Neither owner nor tries are compared, nor is it judged again."""
    claim = space.claim(hold.key)
    if claim is None or claim.fire.status.terminal:
        return None
    return space.change(claim, status=Status.PENDING, owner=owner, owned_at=space.now, tries=claim.fire.tries + 1)


def _always_fresh(space: Space, seen_at: datetime | None) -> bool:
    """What a beat saw long ago is put back, too."""
    return True


def _marks_only(space: Space, memory_: Memory) -> None:
    """Of what a beat remembers only the marks are put back."""
    _restore(space, replace(memory_, outbox=(), line=()))


_restore = memory.restore


# --- workers ---


def _start_without_token(space: Space, delivery: Delivery) -> StartReply:
    return _start(space, replace(delivery, token="a worker"))


def _start_during_an_outage(space: Space, delivery: Delivery) -> StartReply:
    before, space.judge_from = space.judge_from, _EVER
    try:
        return _start(space, delivery)
    finally:
        space.judge_from = before


def _start_ended(space: Space, delivery: Delivery) -> StartReply:
    """An ended fire is opened again."""
    claim = space.claim(delivery.key)
    if claim is not None and claim.fire.status.terminal:
        space.change(claim, status=Status.SENT)
    return _start(space, delivery)


_start = runs.start


def _finish_anything(space: Space, outcome: Outcome) -> FinishReply:
    """Neither state nor token are compared."""
    claim = space.claim(outcome.lease.key)
    if claim is None:
        return FinishReply(verdict=FinishVerdict.UNKNOWN)
    return FinishReply(verdict=FinishVerdict.RECORDED, named=tuple(runs._end(space, claim, outcome)))


def _finish_any_token(space: Space, outcome: Outcome) -> FinishReply:
    """The state is compared, the token is not."""
    claim = space.claim(outcome.lease.key)
    if claim is not None and claim.fire.token:
        outcome = replace(outcome, lease=replace(outcome.lease, token=claim.fire.token))
    return _finish(space, outcome)


_finish = runs.finish


def _reap_during_an_outage(space: Space, limit: int, holding: bool) -> Sequence[Any]:
    before, space.judge_from = space.judge_from, _EVER
    try:
        return _reap(space, limit, holding)
    finally:
        space.judge_from = before


_reap = reaping.reap


# --- limits ---


def _passes_the_line(space: Space, claim: Claim, blocked: dict[str, FireKey]) -> bool:
    """Who has room goes on, whoever stands before."""
    wanted = turns.waited_for(claim.limits)
    return not all(turns.has_room(space, limit, claim.fire.key) for limit in wanted)


def _names_nobody(space: Space, newcomer: FireKey | None = None) -> Sequence[FireKey]:
    """A release frees; somebody else would have to look who is next."""
    return _admit(space, newcomer) if newcomer is not None else ()


_admit = turns.admit


def _room_by_lease(space: Space, limit: Limit, key: FireKey) -> bool:
    """A hold is worth as much as the lease of who runs."""
    claims = [space.find(holder) for holder in space.holders(limit.name)]
    leases = [claim.fire.lease_until for claim in claims if claim is not None]
    return any(until is not None and until <= space.now for until in leases) or _has_room(space, limit, key)


_has_room = turns.has_room


def _released_at_retry(space: Space, claim: Claim, outcome: Outcome) -> Sequence[FireKey]:
    """What ends an attempt frees what the fire holds."""
    named = _end(space, claim, outcome)
    return limits.release(space, claim) if outcome.status is Status.SENT else named


_end = runs._end


def _never_renew_leases(self: Leases, asking: Asking) -> None:
    """What runs here is not kept."""
    self._renew_at = self._clock.monotonic() + self._lease


def _keep_forgetting(self: Lifecycle) -> float:
    """An outcome that the coordinator did not take at once is dropped."""
    if self._outcomes.left:
        self._leases.pop(self._outcomes._unsent.popleft().outcome.lease.token)
    return _keep(self)


_keep = Lifecycle.keep

BUGS: Mapping[str, Bug] = {
    bug.name: bug
    for bug in (
        Bug("commit without comparing mark and claim", lambda: _patched(outbox, "commit", _commit_blindly)),
        Bug("scan plans again what is in the outbox", lambda: _patched(outbox, "commit", _commit_without_mark)),
        Bug("confirm before send", lambda: _patched(Outbox, "_send_chunk", _confirm_before_send)),
        Bug(
            "an old claim is sent without renewing", lambda: _patched(Outbox, "_still_ours", _never_renew), quick=False
        ),
        Bug("renewing is no sign of life", lambda: _patched(outbox, "renew", _renew_without_heartbeat), quick=False),
        Bug("renew without comparing the hold", lambda: _patched(outbox, "renew", _renew_anything), quick=False),
        Bug("takeover judged during an outage", lambda: _patched(outbox, "takeable", _takeable_during_an_outage)),
        Bug("takeover without comparing the hold", lambda: _patched(outbox, "take", _take_anything)),
        Bug("a stale mirror is put back", lambda: _patched(memory, "_is_fresh", _always_fresh), quick=False),
        Bug("the outbox is not put back", lambda: _patched(memory, "restore", _marks_only), quick=False),
        Bug("Start without a token per delivery", lambda: _patched(runs, "start", _start_without_token)),
        Bug("Start judges during an outage", lambda: _patched(runs, "start", _start_during_an_outage)),
        Bug("Start opens an ended fire", lambda: _patched(runs, "start", _start_ended)),
        Bug("Finish without comparing state and token", lambda: _patched(runs, "finish", _finish_anything)),
        Bug("Finish without comparing the token", lambda: _patched(runs, "finish", _finish_any_token)),
        Bug("a worker does not renew", lambda: _patched(Leases, "keep", _never_renew_leases)),
        Bug("a worker says its outcome once", lambda: _patched(Lifecycle, "keep", _keep_forgetting), quick=False),
        Bug("a newcomer passes the line", lambda: _patched(turns, "_blocks", _passes_the_line)),
        Bug("a release names nobody", lambda: _patched(turns, "admit", _names_nobody)),
        Bug("a hold lapses with the lease", lambda: _patched(turns, "has_room", _room_by_lease), quick=False),
        Bug("a retry gives its limits back", lambda: _patched(runs, "_end", _released_at_retry)),
        Bug("reaper judges during an outage", lambda: _patched(reaping, "reap", _reap_during_an_outage)),
    )
}
