"""Messages in hand: noted with a coordinator that keeps limits, for as long as this process has them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from celery_parrot.dispatch import reserving
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Grant, Hold, Lease, Limit, LimitRequest, Outcome, Reservation, StartVerdict
from tests.unit.dispatch.bench import LEASE, Bench, success

THIRD = LEASE / 3


@pytest.fixture
def bench() -> Bench:
    return Bench()


def holding(bench: Bench, number: int = 0) -> None:
    """A fire that holds a limit, and whose message is with the broker."""
    key = bench.committed(number)
    coordinator = bench.server.client()
    (reply,) = coordinator.request([LimitRequest(hold=Hold(key, "beat"), limits=(Limit(f"group:{number}"),))])
    assert reply.grant is Grant.GRANTED
    coordinator.confirm([Hold(key, "beat")])


def receive(bench: Bench, worker: Lifecycle, number: int = 0, wanted: Callable[[], bool] = lambda: True) -> None:
    worker.received(bench.delivery(f"t{number}", number), wanted)


def asked(bench: Bench, link: int = 0) -> list[list[Reservation]]:
    return [list(batch) for name, batch in bench.links[link].said if name == "reserve"]


def numbers(batch: list[Reservation]) -> list[str]:
    return [reservation.key.schedule_id for reservation in batch]


def test_what_comes_together_is_asked_for_together_and_renewed_in_thirds(bench: Bench) -> None:
    for number in range(3):
        holding(bench, number)
    worker = bench.worker()
    for number in range(3):
        receive(bench, worker, number)
    assert worker.wake.is_set()
    assert worker.keep() <= reserving.GATHER
    assert asked(bench) == [], "the event loop that received them does not ask"
    bench.pass_time(THIRD - 0.5, worker)
    assert [numbers(batch) for batch in asked(bench)] == [["s0", "s1", "s2"]]
    bench.pass_time(2 * LEASE, worker)
    assert len(asked(bench)) in (6, 7)
    assert bench.server.client().reap() == [], "noted all the time"


def test_what_starts_at_once_is_never_asked_for(bench: Bench) -> None:
    holding(bench)
    worker = bench.worker()
    receive(bench, worker)
    worker.accepted("t0")
    bench.pass_time(LEASE, worker)
    assert asked(bench) == []


def test_a_fire_without_limits_costs_one_call(bench: Bench) -> None:
    bench.sent()
    worker = bench.worker()
    receive(bench, worker)
    bench.pass_time(2 * LEASE, worker)
    assert len(asked(bench)) == 1


def test_a_worker_that_dies_with_a_message_lets_it_go_on(bench: Bench) -> None:
    holding(bench)
    worker = bench.worker()
    receive(bench, worker)
    bench.pass_time(1, worker)
    bench.pass_time(LEASE - 1)
    assert bench.server.client().reap() == []
    bench.pass_time(2)
    assert [reaped.again for reaped in bench.server.client().reap()] == [True]
    assert (bench.claim().status, bench.claim().sent_as) == (Status.PENDING, 2)
    assert bench.worker().open(bench.delivery("t9")).verdict is StartVerdict.DUPLICATE, "the broker's old message"


def test_one_that_was_given_back_is_forgotten(bench: Bench) -> None:
    """Without a word from anybody: what received it is gone."""
    holding(bench)
    worker = bench.worker()
    wanted = [True]
    receive(bench, worker, wanted=lambda: wanted[0])
    bench.pass_time(1, worker)
    wanted[0] = False
    bench.pass_time(LEASE + 1, worker)
    assert len(asked(bench)) == 1
    assert [reaped.again for reaped in bench.server.client().reap()] == [True]


def test_another_worker_that_starts_it_ends_the_reservation(bench: Bench) -> None:
    holding(bench)
    first, second = bench.worker(), bench.worker()
    receive(bench, first)
    bench.pass_time(1, first)
    second.open(bench.delivery("t9"))
    bench.pass_time(2 * LEASE, first, second)
    assert len(asked(bench)) == 2
    second.close(success(bench.delivery("t9")))
    assert bench.claim().status is Status.SUCCESS


def test_a_message_before_a_retry_is_never_noted_for_the_retry(bench: Bench) -> None:
    """The task was quicker than the worker's main process: its retry, far away, is not sent sooner."""
    holding(bench)
    worker = bench.worker()
    receive(bench, worker)
    delivery = bench.delivery("t9")
    other = bench.worker()
    other.open(delivery)
    other.close(Outcome(lease=Lease(delivery.key, "t9"), status=Status.SENT, retry_at=bench.clock.now()))
    bench.pass_time(LEASE + 2, worker)
    assert len(asked(bench)) == 1
    assert bench.server.client().reap() == []


def test_an_outage_is_waited_out(bench: Bench) -> None:
    holding(bench)
    worker = bench.worker()
    bench.links[0].down = True
    receive(bench, worker)
    bench.pass_time(5, worker)
    assert 4 <= len(asked(bench)) <= 6
    bench.links[0].down = False
    tries = len(asked(bench))
    bench.pass_time(2, worker)
    assert len(asked(bench)) == tries + 1
    bench.pass_time(LEASE, worker)
    assert bench.server.client().reap() == []


def test_a_lost_reply_changes_nothing(bench: Bench) -> None:
    holding(bench)
    worker = bench.worker()
    bench.links[0].lose_reply = True
    receive(bench, worker)
    bench.pass_time(2, worker)
    assert len(asked(bench)) == 2
    assert len({reservation.worker for batch in asked(bench) for reservation in batch}) == 1


def test_two_workers_are_two(bench: Bench) -> None:
    holding(bench)
    first, second = bench.worker(), bench.worker()
    receive(bench, first)
    receive(bench, second)
    bench.pass_time(1, first, second)
    assert asked(bench, 0)[0][0].worker != asked(bench, 1)[0][0].worker


def test_batches_are_bounded_and_so_is_what_is_kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserving, "MAX_BATCH", 2)
    monkeypatch.setattr(reserving, "MAX_RESERVED", 5)
    worker = bench.worker()
    for number in range(7):
        holding(bench, number)
        receive(bench, worker, number)
    bench.pass_time(1, worker)
    assert [numbers(batch) for batch in asked(bench)] == [["s0", "s1"], ["s2", "s3"], ["s4"]]
