"""Connections to a Redis keep the budget also where each step is within its own timeout."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot.runtime.bounded import Budget, bounded_redis
from celery_parrot.testing import FakeClock


class Socket:
    timeout = 0.0

    def settimeout(self, seconds: float) -> None:
        self.timeout = seconds


class Slow:
    """A connection whose server takes each part just within the timeout."""

    clock: FakeClock

    def __init__(self) -> None:
        self._sock = Socket()
        self.written: list[tuple[str, bool]] = []
        self.disconnected = False

    def send_packed_command(self, command: list[str], check_health: bool = True) -> None:
        for part in command:
            self.clock.advance(min(0.9, self._sock.timeout))
            self.written.append((part, check_health))

    def disconnect(self) -> None:
        self.disconnected = True


class Channel:
    connection_class = Slow


def test_all_parts_of_a_batch_share_the_budget() -> None:
    """And a connection on which a part is missing is not used again, nor asked for its health between two parts."""
    clock = Slow.clock = FakeClock()
    budget = Budget(clock)
    connection: Any = bounded_redis(Channel, budget).connection_class()
    budget.start(2)
    with pytest.raises(TimeoutError):
        connection.send_packed_command([f"part{number}" for number in range(20)])
    assert connection.written == [("part0", True), ("part1", False), ("part2", False)]
    assert connection.disconnected
    assert clock.monotonic() == pytest.approx(2)
