"""Ctrl-C and SIGTERM, noticed only where the demo waits.

A handler that raised would do so anywhere, between the start of a process and its being written down, say. So it
counts, and the clock's :meth:`~InterruptibleClock.sleep`, where all waiting happens, looks at the count.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

from celery_parrot.clock import SystemClock

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """The person, or the system, wants the demo gone now."""


class InterruptibleClock(SystemClock):
    """The machine's clock, whose sleep ends with :exc:`Interrupted` after too many signals.

    :ivar signals: how many have come.
    :ivar patience: how many are borne: 0 while starting, 1 while running (the first means "finish"), None: all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.signals = 0
        self.patience: int | None = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def sleep(self, seconds: float) -> None:
        self._look()
        super().sleep(seconds)
        self._look()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1

    def _look(self) -> None:
        if self.patience is not None and self.signals > self.patience:
            raise Interrupted
