"""Interleavings of fires that are asked for or sent once more; each also shown to go wrong without its rule."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from celery_parrot.coordination.rules import demands, runs
from celery_parrot.coordination.rules.space import Space
from celery_parrot.model.fire import FireKey, Namespace, Origin, Status
from celery_parrot.protocols import Demand, DemandReply, DemandVerdict, FinishVerdict, Lease, Outcome, StartVerdict
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import Died, Rig, delivery_of, every, sent

LEASE, HOUR = 15.0, 3600.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --- 26: a message expires in the worker, then recover ----------------------------------------------------------------


class _CeleryWorker:
    """Drops a message whose id it saw expire, as Celery does for three hours."""

    def __init__(self) -> None:
        self.revoked: set[str] = set()

    def takes(self, task_id: str) -> bool:
        return task_id not in self.revoked


def _recovered(rig: Rig, worker: _CeleryWorker) -> tuple[FireKey, ManualBeat]:
    """F starts on a worker that dies. Its message comes again, to a worker that sees it expire; F is sent once more."""
    beat = rig.beat("B1", every(60, recover=True))
    beat.tick()
    rig.keep_touched(60)
    beat.tick()
    key = rig.key(60)
    assert rig.start(delivery_of(key, "W1#1")).verdict is StartVerdict.RUN
    worker.revoked.add(beat.sent[0].task_id)
    rig.keep_touched(LEASE + 6, beat)
    assert len(sent(beat)) == 2
    return key, beat


def test_26_the_next_attempt_has_an_id_of_its_own_and_runs(rig: Rig) -> None:
    worker = _CeleryWorker()
    key, beat = _recovered(rig, worker)
    assert worker.takes(beat.sent[1].task_id)
    assert rig.start(delivery_of(key, "W2#2", attempt=2)).verdict is StartVerdict.RUN
    assert rig.record(key).attempt == 2


def test_26_with_the_same_id_it_is_dropped(rig: Rig) -> None:
    worker = _CeleryWorker()
    with mock.patch.object(Namespace, "task_id", lambda self, key, attempt: self.fire_id(key)):
        _, beat = _recovered(rig, worker)
    assert not worker.takes(beat.sent[1].task_id)


def _expired_late(rig: Rig, key: FireKey) -> FinishVerdict:
    """The worker says only now what it saw of the first message."""
    first = Outcome(lease=Lease(key, ""), status=Status.EXPIRED, reason="expires", attempt=1)
    (reply,) = rig.coordinator.finish([first])
    return reply.verdict


def test_26_what_became_of_the_first_message_does_not_end_it(rig: Rig) -> None:
    key, _ = _recovered(rig, _CeleryWorker())
    assert _expired_late(rig, key) is FinishVerdict.LATE
    assert rig.start(delivery_of(key, "W2#2", attempt=2)).verdict is StartVerdict.RUN


def test_26_without_comparing_attempts_it_ends_unrun(rig: Rig) -> None:
    key, _ = _recovered(rig, _CeleryWorker())
    may_end = runs._may_end
    with mock.patch.object(runs, "_may_end", lambda claim, outcome: may_end(claim, replace(outcome, attempt=0))):
        assert _expired_late(rig, key) is FinishVerdict.RECORDED
    assert rig.start(delivery_of(key, "W2#2", attempt=2)).verdict is StartVerdict.DUPLICATE


# --- 27: the client dies after setting the guard ----------------------------------------------------------------------


def _run_now(rig: Rig, nonce: str = "n1") -> DemandReply:
    key = FireKey("s", rig.clock.now(), nonce)
    demand = Demand(key=key, name="s", kind="task", origin=Origin.RUN_NOW, guard=HOUR)
    return rig.connect().demand([demand])[0]


def _run(rig: Rig, key: FireKey, token: str = "W1#1") -> None:
    assert rig.start(replace(delivery_of(key, token), origin=Origin.RUN_NOW)).verdict is StartVerdict.RUN


def test_27_whoever_asked_may_be_gone(rig: Rig) -> None:
    """Nobody remembers the answer: it runs, keeps others out, and frees the guard."""
    key = _run_now(rig).key
    assert key is not None
    beat = rig.beat("B1", every(HOUR))
    beat.tick()
    assert [one.due_at for one in sent(beat)] == [key.due_at]
    assert _run_now(rig, "n2").verdict is DemandVerdict.RUNNING
    _run(rig, key)
    rig.finish(delivery_of(key, "W1#1"))
    assert _run_now(rig, "n3").verdict is DemandVerdict.ASKED


def test_27_with_a_guard_set_before_it_never_runs(rig: Rig) -> None:
    """In two steps there is a moment to die in between."""

    def guard_only(space: Space, demand: Demand, *_: Any) -> None:
        space.hold(space.guard(demand.key.schedule_id), demand.key)
        raise Died

    with mock.patch.object(demands, "_commit", guard_only), pytest.raises(Died):
        _run_now(rig)
    beat = rig.beat("B1", every(HOUR))
    beat.run(30)
    assert sent(beat) == []


# --- 28: a task that runs for longer than its guard lasts -------------------------------------------------------------


def _two_hours(rig: Rig) -> DemandReply:
    """What a second request is told while the first has been running for two hours, its guard an hour."""
    key = _run_now(rig).key
    assert key is not None
    beat = rig.beat("B1", every(24 * HOUR))
    beat.tick()
    _run(rig, key)
    for _ in range(round(2 * HOUR / 5)):
        rig.clock.advance(2.5)
        rig.coordinator.beats()
        rig.clock.advance(2.5)
        assert rig.coordinator.renew_leases([Lease(key, "W1#1")]) == [True]
    return _run_now(rig, "n2")


def test_28_the_guard_is_renewed_with_the_lease(rig: Rig) -> None:
    assert _two_hours(rig).verdict is DemandVerdict.RUNNING


def test_28_without_that_two_run_at_once(rig: Rig) -> None:
    renew = runs.renew

    def lease_only(space: Space, lease: Lease) -> bool:
        claim = space.claim(lease.key)
        assert claim is not None
        changed = claim.changed
        renewed = renew(space, lease)
        claim.changed = changed
        return renewed

    with mock.patch.object(runs, "renew", lease_only):
        assert _two_hours(rig).verdict is DemandVerdict.ASKED
