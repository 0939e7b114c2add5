"""Threads of requests: as many as may be, and no reason not to stop."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from celery_parrot.flower.threads import Threads

STUCK = """
import threading
from celery_parrot.flower.threads import Threads

threads, begun = Threads(1, "stuck"), threading.Event()
threads.submit(lambda: (begun.set(), threading.Event().wait()))
threads.submit(print, "done after the end")
assert begun.wait(10)
"""


@pytest.fixture
def threads() -> Iterator[Threads]:
    found = Threads(2, "unit")
    yield found
    found.close()


def test_answers_and_exceptions_reach_who_asked(threads: Threads) -> None:
    """Whatever was raised, the thread goes on."""
    failing = [threads.submit(int, "x") for _ in range(4)]
    assert [type(one.exception(5)) for one in failing] == [ValueError] * 4
    assert threads.submit(int, "1f", base=16).result(5) == 31


def test_no_more_than_there_may_be_work_at_once(threads: Threads) -> None:
    """The others wait, and those that are closed upon are cancelled."""
    both, go_on = threading.Barrier(3), threading.Event()

    def work() -> str:
        both.wait(5)
        assert go_on.wait(5)
        return threading.current_thread().name

    first, second = threads.submit(work), threads.submit(work)
    third = threads.submit(work)
    both.wait(5)
    assert not third.running()
    threads.close()
    with pytest.raises(CancelledError):
        third.result(5)
    go_on.set()
    assert {first.result(5), second.result(5)} == {"unit-1", "unit-2"}


def test_a_process_ends_though_a_question_has_no_answer() -> None:
    """Flower is restarted most of all while a store does not answer."""
    ended = subprocess.run([sys.executable, "-c", STUCK], timeout=20, capture_output=True, check=True)
    assert ended.stdout == b"", "what was queued is not done after the end"
