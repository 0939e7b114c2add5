"""Several wake channels as one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from celery_parrot.clock import Clock
from celery_parrot.protocols import WakeChannel

_SLICE: Final = 1.0


class EitherWake:
    """Woken by whichever of its channels is: Redis tells of one kind of edit, PostgreSQL of another.

    Each channel is waited for in a thread of its own, begun at the first wait. The wait itself is on an event, which
    keeps a wake-up that comes between two waits.
    """

    def __init__(self, channels: Sequence[WakeChannel], clock: Clock) -> None:
        self._channels, self._clock = tuple(channels), clock
        self._woken = threading.Event()
        self._closed = False
        self._threads: list[threading.Thread] = []

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken."""
        if not self._threads and not self._closed:
            for channel in self._channels:
                thread = threading.Thread(target=self._listen, args=(channel,), name="parrot-wake", daemon=True)
                self._threads.append(thread)
                thread.start()
        woken = self._clock.wait(self._woken, seconds)
        if woken:  # else it may have been set since, and is the next wait's
            self._woken.clear()
        return woken

    def wake(self) -> None:
        """Wake every beat, over every channel."""
        for channel in self._channels:
            channel.wake()

    def close(self) -> None:
        """Stop listening; a wait in another thread ends."""
        self._closed = True
        self._woken.set()
        for channel in self._channels:
            channel.close()

    def _listen(self, channel: WakeChannel) -> None:
        while not self._closed:
            # An unreachable backend is slept through by the channel itself: no busy loop.
            if channel.wait(_SLICE):
                self._woken.set()
