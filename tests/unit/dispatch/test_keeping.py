"""Signs of progress: what the task says of itself, told with its lease."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.dispatch import keeping
from celery_parrot.protocols import Lease, Progress
from tests.unit.dispatch.bench import DUE, LEASE, Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def lease(bench: Bench, number: int = 0) -> Lease:
    return Lease(bench.key(number), f"t{number}")


def told(bench: Bench) -> list[list[Progress | None]]:
    """The signs of each renewal that was asked for."""
    return [[one.progress for one in batch] for name, batch in bench.links[0].said if name == "renew_leases"]


def running(bench: Bench, *numbers: int, **changes: Any) -> Any:
    worker = bench.worker()
    for number in numbers or (0,):
        bench.sent(number)
        worker.open(bench.delivery(f"t{number}", number, **changes))
    return worker


def test_the_newest_sign_is_told_at_once_and_then_once_a_second(bench: Bench) -> None:
    worker = running(bench)
    worker.progress(lease(bench), Progress("first"))
    assert worker.wake.is_set(), "the keeper does not sleep on"
    assert told(bench) == [], "the task itself asks nothing"
    worker.progress(lease(bench), Progress("second"))
    worker.keep()
    worker.wake.clear()
    assert told(bench) == [[Progress("second")]]
    for i in range(100):
        worker.progress(lease(bench), Progress(f"then {i}"))
        assert worker.keep() <= keeping.PROGRESS_EVERY
    assert len(told(bench)) == 1
    bench.pass_time(keeping.PROGRESS_EVERY, worker)
    worker.keep()
    assert told(bench)[1:] == [[Progress("then 99")]]
    bench.pass_time(LEASE, worker)
    assert all(signs == [None] for signs in told(bench)[2:]), "a renewal alone is no sign"


def test_only_those_that_have_something_to_tell_are_renewed_early(bench: Bench) -> None:
    worker = running(bench, 0, 1, 2)
    worker.progress(lease(bench, 1), Progress("on"))
    worker.keep()
    assert told(bench) == [[Progress("on")]]
    worker.progress(lease(bench, 2), Progress("off"))
    bench.clock.advance(LEASE / 3)
    worker.keep()
    assert told(bench)[1:] == [[None, None, Progress("off")]], "with the renewal, if it is time for that"


def test_a_sign_given_during_an_outage_is_told_after_it(bench: Bench) -> None:
    worker = running(bench)
    bench.links[0].down = True
    worker.progress(lease(bench), Progress("early"))
    bench.pass_time(2.5, worker)
    worker.progress(lease(bench), Progress("late"))
    bench.pass_time(1.0, worker)
    bench.links[0].down = False
    tries = len(told(bench))
    assert 3 <= tries <= 6
    bench.pass_time(1.5, worker)
    assert told(bench)[tries:] == [[Progress("late")]]


def test_a_sign_whose_reply_was_lost_is_told_again(bench: Bench) -> None:
    worker = running(bench)
    bench.links[0].lose_reply = True
    worker.progress(lease(bench), Progress("on"))
    bench.pass_time(1.5, worker)
    assert told(bench) == [[Progress("on")], [Progress("on")]]


def test_a_sign_given_while_another_is_told_is_not_lost(bench: Bench) -> None:
    worker = running(bench)
    worker.progress(lease(bench), Progress("first"))
    bench.links[0].during = lambda: worker.progress(lease(bench), Progress("second"))
    worker.keep()
    bench.pass_time(1.5, worker)
    assert told(bench) == [[Progress("first")], [Progress("second")]]


def test_a_sign_outlives_a_loss_of_memory(bench: Bench) -> None:
    worker = running(bench)
    worker.progress(lease(bench), Progress("on"))
    bench.server.flush()
    worker.keep()
    assert told(bench) == [[Progress("on")], [Progress("on")]], "asked again once the coordinator knows the fire again"
    assert not worker.lost(lease(bench))


def test_what_is_over_gives_no_signs(bench: Bench) -> None:
    worker = running(bench)
    worker.forget(lease(bench))
    worker.progress(lease(bench), Progress("on"))
    assert not worker.wake.is_set()
    bench.pass_time(LEASE, worker)
    assert told(bench) == []


def test_whoever_gives_signs_learns_sooner_that_it_is_lost(bench: Bench) -> None:
    worker = running(bench)
    other = bench.worker()
    other.open(bench.delivery("t9", retries=1))
    assert not worker.lost(lease(bench))
    worker.progress(lease(bench), Progress("on"))
    worker.keep()
    assert worker.lost(lease(bench))
    worker.progress(lease(bench), Progress("still on"))
    bench.pass_time(LEASE, worker)
    assert told(bench) == [[Progress("on")]]


def test_the_time_of_the_coordinator_is_carried_on(bench: Bench) -> None:
    """A worker whose own clock is wrong names instants that the coordinator understands."""
    worker = running(bench)
    bench.clock.advance(7)
    bench.clock.offset = 3600
    assert worker.now(lease(bench)) == DUE + timedelta(seconds=7)
    assert worker.now(lease(bench, 5)) == DUE + timedelta(seconds=3607), "of what does not run here: its own"
