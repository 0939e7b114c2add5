"""Interleavings around turns, leases and deadlines that break a naive version; each also without its rule."""

from __future__ import annotations

from unittest import mock

import pytest

from celery_parrot.coordination.rules import turns
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import FinishVerdict, Limit, StartVerdict
from celery_parrot.testing import ManualBeat
from tests.simulation.bugs import BUGS
from tests.simulation.rig import Rig, delivery_of, every, sent

LEASE = 15.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _f_is_sent_and_others_wait(
    rig: Rig, *others: str, bounds: Bounds | None = None
) -> tuple[ManualBeat, list[FireKey]]:
    """Schedules of one group, due together: ``f`` is first, the others are in line behind it."""
    names = ("f", *others)
    group = [every(3600, name, offset=60, exclusion_group="gpu", misfire_grace=None) for name in names]
    beat = rig.beat("B1", *group, bounds=bounds)
    beat.tick()
    rig.keep_touched(50)
    beat.run(11)
    keys = [rig.key(60, name) for name in names]
    assert sent(beat) == keys[:1]
    assert [rig.status(key) for key in keys[1:]] == [Status.WAITING] * len(others)
    return beat, keys


def _lapsed_by_then(space: Space, key: FireKey) -> bool:
    claim = space.find(key)
    return claim is not None and claim.fire.lease_until is not None and claim.fire.lease_until <= space.now


# --- 13: the lease lapses, the redelivery was put back ----------------------------------------------------------------


def _dies_and_its_redelivery_is_put_back(rig: Rig) -> tuple[ManualBeat, FireKey, FireKey]:
    beat, (f, g) = _f_is_sent_and_others_wait(rig, "g")
    assert rig.start(delivery_of(f, "W1#1")).verdict is StartVerdict.RUN
    beat.run(3)
    assert rig.start(delivery_of(f, "W2#1")).verdict is StartVerdict.PUT_BACK
    beat.run(LEASE)
    assert rig.start(delivery_of(f, "W2#2", put_back=True)).verdict is StartVerdict.RUN
    beat.run(2)
    return beat, f, g


def test_13_only_an_outcome_frees_the_limit(rig: Rig) -> None:
    """F goes on as its next attempt and keeps the group; G has its turn when F has ended."""
    beat, f, g = _dies_and_its_redelivery_is_put_back(rig)
    assert (rig.status(f), rig.status(g)) == (Status.RUNNING, Status.WAITING)
    rig.finish(delivery_of(f, "W2#2"))
    beat.run(1)
    assert g in sent(beat)


def test_13_freed_by_the_lapsed_lease_both_hold_it(rig: Rig) -> None:
    """If a limit were as long-lived as the lease, G would be sent while F runs again."""
    real = turns.has_room

    def lease_bound(space: Space, limit: Limit, key: FireKey) -> bool:
        if any(_lapsed_by_then(space, holder) for holder in space.holders(limit.name)):
            return True
        return real(space, limit, key)

    with mock.patch.multiple(turns, has_room=lease_bound, _somebody_may_fit=lambda space: True):
        beat, f, g = _dies_and_its_redelivery_is_put_back(rig)
    assert rig.status(f) is Status.RUNNING
    assert g in sent(beat)


# --- 17: long in the queue after admission ----------------------------------------------------------------------------


def _waits_in_the_queue(rig: Rig, minutes: int) -> tuple[ManualBeat, FireKey, FireKey]:
    """Through a silence of the coordinator in every minute, and through moments at which beats do judge."""
    beat, (f, g) = _f_is_sent_and_others_wait(rig, "g", bounds=Bounds(reap_after=1260.0))
    for _ in range(minutes):
        rig.clock.advance(40)
        rig.keep_touched(20, beat, step=2.0)
    return beat, f, g


def test_17_a_queued_fire_keeps_its_limits_until_its_deadline(rig: Rig) -> None:
    """Nobody else has the group for twenty minutes; at the deadline F expires, and G has its turn."""
    beat, f, g = _waits_in_the_queue(rig, 20)
    assert (rig.status(f), rig.status(g)) == (Status.SENT, Status.WAITING)
    rig.keep_touched(66, beat, step=2.0)
    assert rig.status(f) is Status.EXPIRED
    assert g in sent(beat)
    assert rig.start(delivery_of(f, "W1#1")).verdict is StartVerdict.DUPLICATE


def test_17_a_hold_that_expires_is_given_to_another(rig: Rig) -> None:
    """As a lock with a time to live would: G is sent, and then F starts after all."""
    real = turns.has_room

    def short_lived(space: Space, limit: Limit, key: FireKey) -> bool:
        if any((space.now - since).total_seconds() > 900 for since in space.holders(limit.name).values()):
            return True
        return real(space, limit, key)

    with mock.patch.multiple(turns, has_room=short_lived, _somebody_may_fit=lambda space: True):
        beat, f, g = _waits_in_the_queue(rig, 20)
    assert g in sent(beat)
    assert rig.start(delivery_of(f, "W1#1")).verdict is StartVerdict.RUN


# --- 18: the head of the line lacks its group, and slots are free -----------------------------------------------------


def _slots_behind_a_full_group(rig: Rig) -> tuple[ManualBeat, FireKey]:
    group = [every(3600, name, offset=60, exclusion_group="gpu") for name in ("a", "b")]
    beat = rig.beat("B1", *group, every(3600, "c", offset=60), bounds=Bounds(max_concurrent=2))
    beat.tick()
    rig.keep_touched(50)
    beat.run(11)
    assert rig.status(rig.key(60, "b")) is Status.WAITING
    return beat, rig.key(60, "c")


def test_18_fires_that_need_only_slots_run(rig: Rig) -> None:
    """The head reserves no slot that it could not use."""
    beat, c = _slots_behind_a_full_group(rig)
    assert sent(beat) == [rig.key(60, "a"), c]


def test_18_reserving_slots_for_the_head_they_idle(rig: Rig) -> None:
    """If the head kept everybody from all that it needs, a slot would be empty and C in line."""

    def reserves_all(space: Space, claim: Claim, blocked: dict[str, FireKey]) -> bool:
        wanted = turns.waited_for(claim.limits)
        if all(limit.name not in blocked and turns.has_room(space, limit, claim.fire.key) for limit in wanted):
            return False
        blocked.update((limit.name, claim.fire.key) for limit in wanted)
        return True

    with mock.patch.object(turns, "_blocks", reserves_all):
        beat, c = _slots_behind_a_full_group(rig)
    assert c not in sent(beat)
    assert rig.status(c) is Status.WAITING


# --- 20: a worker that was given up finishes late ---------------------------------------------------------------------


def _given_up_and_finishes_late(rig: Rig) -> tuple[FireKey, FireKey, FireKey, FinishVerdict]:
    """F is abandoned, G has the group, H waits for it; then W1 says that F is done."""
    beat, (f, g, h) = _f_is_sent_and_others_wait(rig, "g", "h")
    rig.start(delivery_of(f, "W1#1"))
    beat.run(LEASE + 2)
    assert rig.status(f) is Status.ABANDONED
    assert g in sent(beat)
    rig.start(delivery_of(g, "W2#1"))
    reply = rig.finish(delivery_of(f, "W1#1"))
    beat.run(1)
    return f, g, h, reply.verdict


def test_20_a_late_finish_is_a_note_and_frees_nothing(rig: Rig) -> None:
    """F stays abandoned, G runs on, H waits."""
    f, g, h, verdict = _given_up_and_finishes_late(rig)
    assert verdict is FinishVerdict.LATE
    assert (rig.status(f), rig.status(g), rig.status(h)) == (Status.ABANDONED, Status.RUNNING, Status.WAITING)
    assert rig.record(f).late_result == "success"


def test_20_without_comparing_state_and_token_it_changes_the_outcome(rig: Rig) -> None:
    """What had counted as a failure becomes a success."""
    with BUGS["Finish without comparing state and token"].patch():
        f, *_, verdict = _given_up_and_finishes_late(rig)
    assert verdict is FinishVerdict.RECORDED
    assert rig.status(f) is Status.SUCCESS
