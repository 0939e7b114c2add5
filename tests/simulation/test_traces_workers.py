"""Interleavings of workers that break a naive version, step by step; each also shown to go wrong without its rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest import mock

import pytest

from celery_parrot.coordination.rules import runs
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import Delivery, FinishVerdict, Lease, Outcome, StartReply, StartVerdict
from tests.simulation.bugs import BUGS
from tests.simulation.rig import Rig, delivery_of, ended, every, sent

LEASE = 15.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _sent_fire(rig: Rig) -> FireKey:
    """A fire that a beat has sent and confirmed."""
    beat = rig.beat("B1", every(60))
    beat.tick()
    rig.keep_touched(60)
    beat.tick()
    assert sent(beat) == [rig.key(60)]
    return rig.key(60)


# --- 10, 11: an outage of the coordinator -----------------------------------------------------------------------------


def _redelivered_after_an_outage(rig: Rig) -> StartReply:
    """W1 runs F through an outage of 20 s; another delivery of F is heard before W1's renewal."""
    key = _sent_fire(rig)
    rig.start(delivery_of(key, "W1#1"))
    rig.clock.advance(20)
    return rig.start(delivery_of(key, "W2#1"))


def test_10_a_redelivery_right_after_an_outage_does_not_run(rig: Rig) -> None:
    """Put back: nobody is judged yet. W1 renews, and the copy is a duplicate."""
    reply = _redelivered_after_an_outage(rig)
    assert (reply.verdict, reply.retry_after) == (StartVerdict.PUT_BACK, LEASE)
    assert rig.coordinator.renew_leases([Lease(rig.key(60), "W1#1")]) == [True]
    rig.keep_touched(5)
    copy = delivery_of(rig.key(60), "W2#2", put_back=True)
    assert rig.start(copy).verdict is StartVerdict.DUPLICATE


def test_10_without_judge_from_it_runs_beside_the_first(rig: Rig) -> None:
    """The lease had lapsed, nobody asks why."""
    with BUGS["Start judges during an outage"].patch():
        assert _redelivered_after_an_outage(rig).verdict is StartVerdict.RUN


def _beat_wakes_after_an_outage(rig: Rig) -> Status:
    key = _sent_fire(rig)
    beat = rig.beat("B2", every(60))
    beat.tick()
    rig.start(delivery_of(key, "W1#1"))
    rig.clock.advance(40)
    beat.run(1)
    return rig.status(key)


def test_11_a_beat_that_slept_through_an_outage_reaps_nobody(rig: Rig) -> None:
    """The gap in everybody's calls says nothing about W1, whose renewal is then heard."""
    assert _beat_wakes_after_an_outage(rig) is Status.RUNNING
    assert rig.coordinator.renew_leases([Lease(rig.key(60), "W1#1")]) == [True]
    assert rig.finish(delivery_of(rig.key(60), "W1#1")).verdict is FinishVerdict.RECORDED


def test_11_without_judge_from_it_reaps(rig: Rig) -> None:
    """The fire of a living worker is abandoned."""
    with BUGS["reaper judges during an outage"].patch():
        assert _beat_wakes_after_an_outage(rig) is Status.ABANDONED


# --- 12: a worker dies, acks_late -------------------------------------------------------------------------------------


def _redelivered_after_a_death(rig: Rig) -> StartReply:
    """W1 dies with F; the broker redelivers at once, while W1's lease is live."""
    key = _sent_fire(rig)
    rig.start(delivery_of(key, "W1#1"))
    return rig.start(delivery_of(key, "W2#1"))


def test_12_a_redelivery_is_put_back_and_then_runs_as_the_next_attempt(rig: Rig) -> None:
    """It is not dropped as a duplicate, and the reaper leaves the fire to it."""
    assert _redelivered_after_a_death(rig).verdict is StartVerdict.PUT_BACK
    rig.keep_touched(LEASE, rig.beat("B2", every(60)))
    assert rig.status(rig.key(60)) is Status.RUNNING
    reply = rig.start(delivery_of(rig.key(60), "W2#2", put_back=True))
    assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 2)


def test_12_dropped_as_a_duplicate_it_never_runs(rig: Rig) -> None:
    """If a live lease made every other delivery a duplicate, the only message would be acknowledged away."""

    def dropped(space: Space, claim: Claim, delivery: Delivery) -> StartReply:
        return StartReply(verdict=StartVerdict.DUPLICATE)

    with mock.patch.object(runs, "_meet", dropped):
        assert _redelivered_after_a_death(rig).verdict is StartVerdict.DUPLICATE
    rig.keep_touched(LEASE + 6, rig.beat("B2", every(3600)))
    assert rig.status(rig.key(60)) is Status.ABANDONED


# --- 14: retry(countdown=0) -------------------------------------------------------------------------------------------


def _retries_at_once(rig: Rig) -> StartReply:
    """The next attempt's message is delivered before the first attempt has ended."""
    key = _sent_fire(rig)
    rig.start(delivery_of(key, "W1#1"))
    return rig.start(delivery_of(key, "W2#1", retries=1))


def test_14_a_retry_is_no_duplicate_of_what_still_runs(rig: Rig) -> None:
    """It runs at once as the next attempt; what the first then says of itself changes nothing."""
    reply = _retries_at_once(rig)
    assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 2)
    first = rig.finish(delivery_of(rig.key(60), "W1#1"), Status.SENT)
    assert first.verdict is FinishVerdict.RECORDED
    assert rig.status(rig.key(60)) is Status.RUNNING
    rig.finish(delivery_of(rig.key(60), "W2#1"))
    assert (rig.record(rig.key(60)).status, rig.record(rig.key(60)).attempt) == (Status.SUCCESS, 2)


def test_14_without_comparing_retries_it_does_not_run(rig: Rig) -> None:
    """To a guard that knows fires only, it is another delivery of what runs."""
    real = runs.start

    def blind(space: Space, delivery: Delivery) -> StartReply:
        return real(space, replace(delivery, retries=0))

    with mock.patch.object(runs, "start", blind):
        assert _retries_at_once(rig).verdict is StartVerdict.PUT_BACK


# --- 15: Start's reply is lost ----------------------------------------------------------------------------------------


def _start_reply_lost(rig: Rig) -> StartReply:
    key = _sent_fire(rig)
    lifecycle, wire = rig.worker()
    wire.lose_reply("start")
    return lifecycle.open(delivery_of(key, "W1#1"))


def test_15_asking_again_with_the_same_token_wins_again(rig: Rig) -> None:
    """A lost reply is harmless: the delivery runs, as the first attempt."""
    reply = _start_reply_lost(rig)
    assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 1)


def test_15_without_the_token_the_worker_meets_itself(rig: Rig) -> None:
    """A new identity for each asking: the first asking holds the lease, nobody runs."""
    real, asked = runs.start, iter(range(10))

    def stranger(space: Space, delivery: Delivery) -> StartReply:
        return real(space, replace(delivery, token=f"asking {next(asked)}"))

    with mock.patch.object(runs, "start", stranger):
        assert _start_reply_lost(rig).verdict is StartVerdict.PUT_BACK


# --- 16: a duplicate while the coordinator is out ---------------------------------------------------------------------


class _RunsUnopened(Lifecycle):
    """What ``parrot_unreachable: run`` trades the guard for."""

    def open(self, delivery: Delivery) -> StartReply:
        try:
            return super().open(delivery)
        except Unreachable:
            return StartReply(verdict=StartVerdict.RUN)


def _duplicate_during_an_outage(rig: Rig, kind: type[Lifecycle]) -> StartReply | None:
    """F has finished on W1; what W2 makes of a duplicate, None if it may not run."""
    key = _sent_fire(rig)
    rig.start(delivery_of(key, "W1#1"))
    rig.finish(delivery_of(key, "W1#1"))
    lifecycle, wire = rig.worker(kind)
    wire.out = True
    try:
        return lifecycle.open(delivery_of(key, "W2#1"))
    except Unreachable:
        wire.out = False
        return lifecycle.open(delivery_of(key, "W2#2"))


def test_16_a_duplicate_does_not_run_unopened(rig: Rig) -> None:
    """The worker cannot ask, so it holds the message back; when it can, it hears that the fire has ended."""
    reply = _duplicate_during_an_outage(rig, Lifecycle)
    assert reply is not None
    assert reply.verdict is StartVerdict.DUPLICATE


def test_16_run_unopened_it_is_a_second_execution(rig: Rig) -> None:
    """Availability instead of the guard: the fire that has ended runs again."""
    reply = _duplicate_during_an_outage(rig, _RunsUnopened)
    assert reply is not None
    assert reply.verdict is StartVerdict.RUN
    assert rig.record(rig.key(60)).status is Status.SUCCESS


# --- a lost reply of Finish -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("carried_out", [True, False])
def test_an_outcome_whose_reply_was_lost_is_recorded_once(rig: Rig, carried_out: bool) -> None:
    """The worker says it again until it hears an answer; nothing is counted twice."""
    key = _sent_fire(rig)
    lifecycle, wire = rig.worker()
    delivery = delivery_of(key, "W1#1")
    lifecycle.open(delivery)
    (wire.lose_reply if carried_out else wire.refuse)("finish")
    lifecycle.close(ended(delivery, Status.ERROR))
    for _ in range(5):
        rig.clock.advance(0.5)
        lifecycle.keep()
    assert wire.calls.count("finish") == 2
    assert rig.coordinator.run_states(["s"])["s"].consecutive_failures == 1
    assert rig.record(key).status is Status.ERROR


def test_a_late_outcome_is_a_note(rig: Rig) -> None:
    """A worker that was cut off for longer than its lease reports what nobody waits for any more."""
    key = _sent_fire(rig)
    rig.start(delivery_of(key, "W1#1"))
    rig.keep_touched(LEASE + 6, rig.beat("B2", every(3600)))
    late: Sequence[Outcome] = [ended(delivery_of(key, "W1#1"))]
    (reply,) = rig.coordinator.finish(late)
    assert reply.verdict is FinishVerdict.LATE
    record = rig.record(key)
    assert (record.status, record.late_result) == (Status.ABANDONED, "success")
