"""Backfills as jobs: a few at once, cancelled, known for an hour."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from celery_parrot.client import Backfill
from celery_parrot.errors import Unreachable
from celery_parrot.flower.backfills import KEPT, Backfills, Job, TooMany
from celery_parrot.testing import FakeClock
from tests.support.waiting import wait_until

DUE = datetime(2026, 3, 1, tzinfo=UTC)
PLANNED = Backfill(
    name="report", schedule_id="r", start=DUE, end=DUE, due_times=(DUE, DUE + timedelta(hours=1)), fired=3
)


class Work:
    """Says that it has begun, and goes on until it is let."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def __call__(self, progress: Callable[[Backfill], None], stop: threading.Event) -> Backfill:
        progress(replace(PLANNED, asked=1, active=("f1",)))
        while not self.goes_on.wait(0.01):
            if stop.is_set():
                return replace(PLANNED, asked=1, active=("f1",))
        return replace(PLANNED, asked=2, outcomes={"success": 2})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backfills(clock: FakeClock) -> Iterator[Backfills]:
    found = Backfills(clock, at_once=2)
    yield found
    found.close()


def ended(job: Job) -> str:
    wait_until(lambda: job.ended is not None, "the backfill to end", 5)
    return job.state


def test_a_job_tells_how_far_it_has_come(backfills: Backfills) -> None:
    work = Work()
    job = backfills.start(PLANNED, work, "ann")
    wait_until(lambda: job.progress.asked, "the first to be asked for", 5)
    told = job.to_json()
    assert (told["state"], told["total"], told["fired"], told["asked"]) == ("running", 2, 3, 1)
    assert (told["active"], told["asked_by"]) == (["f1"], "ann")
    work.goes_on.set()
    assert ended(job) == "done"
    assert job.to_json()["outcomes"] == {"success": 2}


def test_a_cancelled_one_asks_for_no_more(backfills: Backfills) -> None:
    job = backfills.start(PLANNED, Work())
    job.stop.set()
    assert job.to_json()["state"] in ("stopping", "cancelled")
    assert ended(job) == "cancelled"


def test_one_that_ended_keeps_no_due_times(backfills: Backfills) -> None:
    """A hundred thousand of them for an hour, for each that somebody began and cancelled, are gigabytes."""
    job = backfills.start(PLANNED, Work())
    job.stop.set()
    ended(job)
    assert (job.progress.due_times, job.to_json()["total"]) == ((), 2)


def test_one_more_than_a_few_is_refused(backfills: Backfills) -> None:
    """And begun once another has ended."""
    first = backfills.start(PLANNED, Work())
    backfills.start(PLANNED, Work())
    with pytest.raises(TooMany, match="2 backfills are under way"):
        backfills.start(PLANNED, Work())
    first.stop.set()
    ended(first)
    backfills.start(PLANNED, Work())


def test_what_fails_says_so_in_a_sentence_without_passwords(backfills: Backfills) -> None:
    def fail(progress: object, stop: object) -> Backfill:
        raise Unreachable("redis://:hunter2@cache:6379/0: refused")

    job = backfills.start(PLANNED, fail)
    assert ended(job) == "failed"
    assert job.error == "redis://:**@cache:6379/0: refused"


def test_a_fault_of_ours_ends_the_job_and_is_logged(backfills: Backfills, caplog: pytest.LogCaptureFixture) -> None:
    def fail(progress: object, stop: object) -> Backfill:
        raise ZeroDivisionError

    job = backfills.start(PLANNED, fail)
    assert ended(job) == "failed"
    assert "ZeroDivisionError" in caplog.text


def test_one_that_ended_is_forgotten_after_an_hour(backfills: Backfills, clock: FakeClock) -> None:
    job = backfills.start(PLANNED, Work())
    job.stop.set()
    ended(job)
    clock.advance(KEPT)
    assert backfills.get(job.id) is job
    assert backfills.all() == [job]
    clock.advance(1)
    assert backfills.get(job.id) is None
