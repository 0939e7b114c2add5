"""Faults on demand, for tests with real processes. Nothing here happens unless its environment variable is set.

* ``PARROT_TEST_CLOCK_OFFSET``: seconds by which this process's wall clock is wrong.
* ``PARROT_TEST_CRASH``: where this process kills itself (SIGKILL), at the first fire that comes there:
  ``after-prepare`` (claimed for a row that has not moved), ``after-commit`` (committed, not sent) or ``after-send``
  (sent, not confirmed).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Coordinator, Message, Sender, SendResult, SendStatus

T = TypeVar("T")

OFFSET, CRASH = "PARROT_TEST_CLOCK_OFFSET", "PARROT_TEST_CRASH"
AFTER_PREPARE, AFTER_COMMIT, AFTER_SEND = "after-prepare", "after-commit", "after-send"


def clock() -> Clock:
    """The machine's clock, wrong by as much as a test wants."""
    return SystemClock(float(os.environ.get(OFFSET) or 0.0))


def coordinator(real: Coordinator) -> Coordinator:
    """``real``, which kills the process after it committed, or prepared, its first fire, if a test wants that."""
    where = os.environ.get(CRASH)
    if where == AFTER_COMMIT:
        _die_after(real, "commit", lambda answer: any(reply.fires for reply in answer[1]))
    if where == AFTER_PREPARE:
        _die_after(real, "prepare", lambda answer: any(reply.fires for reply in answer[1]))
    return real


def crashing(real: T) -> T:
    """A store whose rows decide, which kills the process after its first move, if a test wants that."""
    if os.environ.get(CRASH) == AFTER_COMMIT:
        _die_after(real, "advance", lambda answer: any(verdict is Verdict.COMMITTED for verdict, _ in answer))
    return real


def sender(real: Sender) -> Sender:
    """``real``, or one that kills the process after the first message it sent."""
    return _CrashAfterSend(real) if os.environ.get(CRASH) == AFTER_SEND else real


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


def _die_after(real: Any, name: str, when: Callable[[Any], bool]) -> None:
    call = getattr(real, name)

    def crashing_call(*args: Any, **kwargs: Any) -> Any:
        answer = call(*args, **kwargs)
        if when(answer):
            _die()
        return answer

    setattr(real, name, crashing_call)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
