"""The worker's side of a fire, over the coordinator in memory and a clock that is moved by hand."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from celery_parrot.dispatch import closing
from celery_parrot.dispatch import lifecycle as module
from celery_parrot.dispatch.worker_events import COORDINATOR_UNREACHABLE, FIRE_DUPLICATE, FIRE_HELD, OUTCOME_DROPPED
from celery_parrot.errors import Unreachable
from celery_parrot.model import events
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Hold, Lease, Limit, LimitRequest, Outcome, StartVerdict
from tests.unit.dispatch.bench import LEASE, NAME, Bench, success


@pytest.fixture
def bench() -> Bench:
    return Bench()


# --- open ---


def test_open_and_close(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    assert worker.open(delivery).verdict is StartVerdict.RUN
    assert [running.delivery for running in worker.running] == [delivery]
    worker.close(success(delivery))
    assert worker.running == ()
    assert bench.claim().status is Status.SUCCESS
    assert bench.record().output == "done"
    assert [event.name for event in bench.events.events] == [events.FIRE_STARTED, events.FIRE_SUCCEEDED]
    assert bench.events.events[0].fields["fire_id"] == NAME.fire_id(delivery.key)


def test_the_end_hands_over_whatever_the_worker_does_next(bench: Bench) -> None:
    """Those that waited are in the outbox by the step that recorded the outcome, and the log says which."""
    coordinator, group = bench.server.client(), (Limit("group:gpu"),)
    first, second = bench.committed(0), bench.committed(1)
    for key in (first, second):
        coordinator.request([LimitRequest(hold=Hold(key, "beat"), limits=group)])
    coordinator.confirm([Hold(first, "beat")])
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    assert bench.claim(1).status is Status.WAITING
    worker.close(success(delivery))
    assert bench.links[0].calls[-1] == "finish"
    assert bench.claim(1).status is Status.PENDING
    assert bench.events.events[-1].fields["named"] == [NAME.fire_id(second)]


def test_a_second_message_is_a_duplicate(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery("t1"))
    worker.close(success(bench.delivery("t1")))
    assert worker.open(bench.delivery("t2")).verdict is StartVerdict.DUPLICATE
    assert worker.running == ()
    assert [event.name for event in bench.events.events][-1] == FIRE_DUPLICATE


def test_a_lost_reply_of_start_wins_again(bench: Bench) -> None:  # trace 15
    bench.sent()
    worker = bench.worker()
    bench.links[0].lose_reply = True
    assert worker.open(bench.delivery()).verdict is StartVerdict.RUN
    assert bench.links[0].calls == ["start", "start"]


def test_unreachable_after_bounded_tries(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    bench.links[0].down = True
    began = bench.clock.monotonic()
    with pytest.raises(Unreachable):
        worker.open(bench.delivery())
    assert bench.clock.monotonic() - began < module.OPEN_PATIENCE
    assert len(bench.links[0].calls) == 1 + len(module.OPEN_PAUSES)
    assert bench.claim().status is Status.SENT
    assert [event.name for event in bench.events.events] == [FIRE_HELD]


def test_an_unforeseen_error_is_unreachable(bench: Bench) -> None:
    worker = bench.worker()
    bench.links[0].error = ZeroDivisionError("a fault")
    with pytest.raises(Unreachable, match="ZeroDivisionError: a fault"):
        worker.open(bench.delivery())


def test_put_back_then_next_attempt(bench: Bench) -> None:  # trace 12
    bench.sent()
    first, second = bench.worker(), bench.worker()
    first.open(bench.delivery("t1"))
    reply = second.open(bench.delivery("t2"))
    assert reply.verdict is StartVerdict.PUT_BACK
    bench.pass_time(reply.retry_after)  # the first is dead: nobody calls its keep()
    again = second.open(bench.delivery("t3", put_back=True))
    assert (again.verdict, again.attempt) == (StartVerdict.RUN, 2)


def test_put_back_then_duplicate(bench: Bench) -> None:
    bench.sent()
    first, second = bench.worker(), bench.worker()
    first.open(bench.delivery("t1"))
    bench.clock.advance(1)
    reply = second.open(bench.delivery("t2"))
    bench.pass_time(reply.retry_after, first)
    assert second.open(bench.delivery("t3", put_back=True)).verdict is StartVerdict.DUPLICATE


def test_redelivery_after_an_outage_meets_a_lease_not_to_be_judged(bench: Bench) -> None:  # trace 10
    bench.sent()
    first, second = bench.worker(), bench.worker()
    first.open(bench.delivery("t1"))
    bench.links[0].down = True
    bench.pass_time(20, first, touch=False)
    assert second.open(bench.delivery("t2")).verdict is StartVerdict.PUT_BACK
    bench.links[0].down = False
    bench.pass_time(LEASE, first)
    assert second.open(bench.delivery("t3", put_back=True)).verdict is StartVerdict.DUPLICATE
    assert not first.lost(Lease(bench.key(), "t1"))


def test_retry_published_before_the_attempt_has_ended(bench: Bench) -> None:  # trace 14
    bench.sent()
    first, second = bench.worker(), bench.worker()
    first.open(bench.delivery("t1"))
    reply = second.open(bench.delivery("t2", retries=1))
    assert (reply.verdict, reply.attempt) == (StartVerdict.RUN, 2)
    first.close(Outcome(lease=Lease(bench.key(), "t1"), status=Status.SENT, retry_at=bench.clock.now()))
    assert bench.claim().token == "t2"
    second.close(success(bench.delivery("t2")))
    assert bench.claim().status is Status.SUCCESS


# --- lease ---


def test_leases_are_renewed_in_thirds(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    assert worker.keep() == pytest.approx(LEASE / 3)
    bench.pass_time(4 * LEASE, worker)
    assert not bench.server.client().reap()
    assert not worker.lost(Lease(bench.key(), "t1"))
    assert bench.links[0].calls.count("renew_leases") == 11  # at 5, 10, … 55 of 60


def test_renewal_is_tried_each_second_after_a_failure(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    bench.links[0].down = True
    bench.pass_time(LEASE / 3 + 4, worker)
    assert bench.links[0].calls.count("renew_leases") == 4
    assert bench.events.named(COORDINATOR_UNREACHABLE)


def test_lost_when_cut_off_for_a_lease_and_found_when_renewed(bench: Bench) -> None:
    bench.sent()
    worker, lease = bench.worker(), Lease(bench.key(), "t1")
    worker.open(bench.delivery())
    bench.links[0].down = True
    bench.pass_time(LEASE, worker)
    assert not worker.lost(lease)
    bench.pass_time(1, worker)
    assert worker.lost(lease)
    bench.links[0].down = False
    bench.pass_time(1, worker)
    assert not worker.lost(lease)


def test_lost_for_good_when_refused(bench: Bench) -> None:  # trace 20
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    bench.pass_time(LEASE + 1)  # nobody keeps it
    assert bench.server.client().reap()
    bench.pass_time(1, worker)
    assert worker.lost(Lease(bench.key(), "t1"))
    worker.close(success(bench.delivery()))
    assert bench.claim().status is Status.ABANDONED
    assert bench.record().late_result == "success: done"


def test_a_forgotten_lease_lapses(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    worker.forget(Lease(bench.key(), "t1"))
    bench.pass_time(LEASE + 1, worker)
    assert bench.server.client().reap()


# --- close ---


def test_outcome_of_an_outage_is_recorded_later(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    bench.links[0].down = True
    worker.close(success(delivery))
    assert worker.wake.is_set()
    assert bench.claim().status is Status.RUNNING
    bench.pass_time(3 * LEASE, worker, touch=False)
    bench.links[0].down = False
    bench.pass_time(1.1, worker)
    assert bench.claim().status is Status.SUCCESS
    assert worker.running == ()


def test_a_fire_with_an_unsent_outcome_keeps_its_lease(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    bench.links[0].choke_on = lambda args: isinstance(args[0][0], Outcome)
    worker.close(success(delivery))
    bench.pass_time(3 * LEASE, worker)
    assert not bench.server.client().reap()
    bench.links[0].choke_on = lambda args: False
    bench.pass_time(1.1, worker)
    assert bench.claim().status is Status.SUCCESS


def test_lost_reply_of_finish(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    bench.links[0].lose_reply = True
    worker.close(success(delivery))
    bench.pass_time(1.1, worker)
    assert bench.record().output == "done"
    assert bench.record().late_result is None


def test_one_that_chokes_does_not_hold_up_the_others(bench: Bench) -> None:
    worker = bench.worker()
    for number in range(3):
        bench.sent(number)
        worker.open(bench.delivery(f"t{number}", number))
    bench.links[0].choke_on = lambda args: any(getattr(one, "output", None) == "poison" for one in args[0])
    bench.links[0].down = True
    for number in range(3):
        worker.close(success(bench.delivery(f"t{number}", number), "poison" if number == 0 else "fine"))
    bench.links[0].down = False
    bench.pass_time(1.1, worker)
    assert [bench.claim(number).status for number in range(3)] == [Status.RUNNING, Status.SUCCESS, Status.SUCCESS]


def test_a_second_outcome_of_one_token_is_ignored(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    worker.close(success(delivery))
    worker.close(Outcome(lease=Lease(delivery.key, "t1"), status=Status.ERROR, error="late"))
    assert bench.links[0].calls.count("finish") == 1


def test_close_soon_leaves_it_to_the_keeper(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.close_soon(Outcome(lease=Lease(bench.key(), ""), status=Status.ERROR, reason="revoked", counted=False))
    assert bench.links[0].calls == []
    assert worker.wake.is_set()
    worker.keep()
    assert bench.claim().reason == "revoked"


@pytest.mark.parametrize("opened", [True, False])
def test_ended_from_outside(bench: Bench, opened: bool) -> None:
    bench.sent()
    child, parent, delivery = bench.worker(), bench.worker(), bench.delivery()
    if opened:
        child.open(delivery)
    lost = Outcome(lease=Lease(delivery.key, "t1"), status=Status.ABANDONED, reason="worker lost")
    parent.close(lost, delivery=delivery)
    assert bench.claim().status is Status.ABANDONED


def test_a_death_after_the_retry_was_recorded_leaves_the_retry_alone(bench: Bench) -> None:
    bench.sent()
    child, parent, delivery = bench.worker(), bench.worker(), bench.delivery()
    child.open(delivery)
    child.close(Outcome(lease=Lease(delivery.key, "t1"), status=Status.SENT))
    lost = Outcome(lease=Lease(delivery.key, "t1"), status=Status.ABANDONED, reason="worker lost")
    parent.close(lost, delivery=delivery)
    assert bench.claim().status is Status.SENT
    assert child.open(bench.delivery("t2", retries=1)).verdict is StartVerdict.RUN


def test_unsent_outcomes_are_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "MAX_UNSENT", 3)
    worker = bench.worker()
    bench.links[0].down = True
    for number in range(5):
        worker.close(success(bench.delivery(f"t{number}", number)))
    assert len(bench.events.named(OUTCOME_DROPPED)) == 2
    assert len(bench.links[0].calls) == 1, "those behind the first need not wait for a coordinator that is out"


def test_flush_is_bounded(bench: Bench) -> None:
    bench.sent()
    worker, delivery = bench.worker(), bench.delivery()
    worker.open(delivery)
    bench.links[0].down = True
    worker.close(success(delivery))
    began = bench.clock.monotonic()
    assert not worker.flush(2)
    assert bench.clock.monotonic() - began == pytest.approx(2, abs=0.2)
    assert bench.events.named(OUTCOME_DROPPED)
    bench.links[0].down = False
    assert worker.flush(2)
    assert bench.claim().status is Status.SUCCESS


# --- memory loss (trace 29) ---


def test_what_runs_is_told_to_a_coordinator_that_forgot(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    bench.server.flush()
    bench.pass_time(LEASE / 3 + 0.1, worker)
    claim = bench.claim()
    assert (claim.status, claim.token) == (Status.RUNNING, "t1")
    assert bench.events.named(events.MEMORY_LOST)
    worker.close(success(bench.delivery()))
    assert bench.claim().status is Status.SUCCESS


def test_an_outcome_survives_a_memory_loss(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    worker.open(bench.delivery())
    bench.server.flush()
    worker.close(success(bench.delivery()))
    assert bench.claim().status is Status.SUCCESS


def test_open_after_a_memory_loss_is_quiet(bench: Bench) -> None:
    bench.sent(0)
    worker = bench.worker()
    worker.open(bench.delivery("t1"))
    bench.server.flush()
    reply = worker.open(bench.delivery("t2", number=1))
    assert reply.verdict is StartVerdict.QUIET
    assert 0 < reply.retry_after <= LEASE
    bench.pass_time(reply.retry_after, worker)
    assert worker.open(bench.delivery("t3", number=1)).verdict is StartVerdict.RUN


# --- threads ---


def test_many_threads_and_a_keeper(bench: Bench) -> None:
    worker = bench.worker()
    numbers = range(60)
    for number in numbers:
        bench.sent(number)
    stop = threading.Event()

    def run(mine: Sequence[int]) -> None:
        for number in mine:
            delivery = bench.delivery(f"t{number}", number)
            assert worker.open(delivery).verdict is StartVerdict.RUN
            worker.close(success(delivery))

    def keep() -> None:
        while not stop.is_set():
            worker.keep()

    keeper = threading.Thread(target=keep)
    threads = [threading.Thread(target=run, args=(numbers[i::4],)) for i in range(4)]
    keeper.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    stop.set()
    keeper.join(20)
    assert worker.running == ()
    assert {bench.claim(number).status for number in numbers} == {Status.SUCCESS}
