"""The thread that says where a loop stands still."""

from __future__ import annotations

import logging
import threading

import pytest

from celery_parrot.dispatch.health import STALLED, Health
from celery_parrot.runtime.watchdog import Watchdog
from celery_parrot.testing import FakeClock
from tests.support.waiting import wait_until


def health(status: str, since: float) -> Health:
    return Health(status=status, since=since, last_tick=0.0, now=None, skew=0.0, beats=1, pending=0)


def test_it_says_so_once_a_minute_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock, said = FakeClock(), [health("ok", 0.0)]
    dog = Watchdog(lambda: said[0], clock)
    dog.look()
    since = clock.monotonic()
    said[0] = health(STALLED, since)
    for seconds in (4, 10, 45, 2, 59):
        clock.advance(seconds)
        dog.look()
    said[0] = health("ok", 0.0)
    dog.look()
    dog.look()
    told = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == [logging.CRITICAL, logging.CRITICAL, logging.WARNING]
    assert told[0][1].startswith("this beat's loop has stood still for 4 s and claims nothing")
    assert told[1][1].startswith("this beat's loop has stood still for 120 s")
    assert told[2][1] == "this beat's loop goes on, after 120 s"


def test_it_names_the_call_that_hangs(caplog: pytest.LogCaptureFixture) -> None:
    """Function, file and line of the thread that ticks, and no values. The thread ends when it is told to."""
    stuck, go_on = threading.Event(), threading.Event()
    dogs: list[Watchdog] = []

    def hang_in_here(password: str) -> None:
        stuck.set()
        go_on.wait(30)

    def loop() -> None:
        dogs.append(Watchdog(lambda: health(STALLED, 0.0)))
        dogs[0].start()
        hang_in_here("s3cret")

    thread = threading.Thread(target=loop)
    thread.start()
    stuck.wait(10)
    wait_until(lambda: caplog.records, "the dog to bark", 10)
    go_on.set()
    thread.join(10)
    dogs[0].stop()
    text = caplog.records[0].getMessage()
    assert f"hang_in_here ({__file__}:" in text
    assert "s3cret" not in text
