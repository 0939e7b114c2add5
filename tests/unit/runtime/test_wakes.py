"""Waiting to be woken: no wake-up is lost, whenever it comes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from celery_parrot.coordination.memory import MemoryWake
from celery_parrot.protocols import WakeChannel
from celery_parrot.runtime.wakes import EitherWake
from celery_parrot.testing import FakeClock


class LateClock(FakeClock):
    """Whoever waits gives up, and is woken before it does anything else."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        if event.is_set():
            return True
        self.advance(seconds)
        event.set()
        return False


@pytest.mark.parametrize("make", [MemoryWake, lambda clock: EitherWake([], clock)], ids=["memory", "either"])
def test_a_wake_up_just_after_a_wait_gave_up_ends_the_next(make: Callable[[FakeClock], WakeChannel]) -> None:
    channel = make(LateClock())
    assert channel.wait(1.0) is False
    assert channel.wait(1.0) is True
    assert channel.wait(1.0) is False
