"""Faults on demand, for tests with real processes. Nothing here happens unless its environment variable is set.

* ``PARROT_TEST_CLOCK_OFFSET``: seconds by which this process's wall clock is wrong.
* ``PARROT_TEST_CRASH``: where this process kills itself (SIGKILL), at the first fire that comes there:
  ``after-commit`` (committed, not sent) or ``after-send`` (sent, not confirmed).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Any

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.protocols import Coordinator, Message, Sender, SendResult, SendStatus

OFFSET, CRASH = "PARROT_TEST_CLOCK_OFFSET", "PARROT_TEST_CRASH"
AFTER_COMMIT, AFTER_SEND = "after-commit", "after-send"


def clock() -> Clock:
    """The machine's clock, wrong by as much as a test wants."""
    return SystemClock(float(os.environ.get(OFFSET) or 0.0))


def coordinator(real: Coordinator) -> Coordinator:
    """``real``, or one that kills the process after its first commit of a fire."""
    return _CrashAfterCommit(real) if os.environ.get(CRASH) == AFTER_COMMIT else real


def sender(real: Sender) -> Sender:
    """``real``, or one that kills the process after the first message it sent."""
    return _CrashAfterSend(real) if os.environ.get(CRASH) == AFTER_SEND else real


class _CrashAfterCommit:
    """Everything is the real coordinator's but :meth:`commit`."""

    def __init__(self, real: Coordinator) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def commit(self, *args: Any, **kwargs: Any) -> Any:
        reading, replies = self._real.commit(*args, **kwargs)
        if any(reply.fires for reply in replies):
            _die()
        return reading, replies


class _CrashAfterSend:
    def __init__(self, real: Sender) -> None:
        self._real = real

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        results: list[SendResult] = []
        for message in messages:
            results.extend(self._real.send([message], until))
            if results[-1].status is SendStatus.SENT:
                _die()
        return results

    def close(self) -> None:
        self._real.close()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
