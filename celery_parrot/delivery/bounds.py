"""A bound for a whole exchange, however slowly the other side drips."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from celery_parrot.clock import Clock
from celery_parrot.delivery.failures import NotDelivered

T = TypeVar("T")


class Deadline:
    """Cuts the connection it watches when ``seconds`` are over. A context manager.

    Timeouts of sockets count from the last byte; this counts from the beginning.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds, self._clock = seconds, clock
        self._until = clock.monotonic() + seconds
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._socket = None
        if isinstance(exc, TimeoutError) or (self._over and isinstance(exc, Exception)):
            # A wait that was bounded by what was left, or whatever a library made of a connection that ended under it.
            raise NotDelivered(f"no answer within {self._seconds:g} s") from None

    def left(self) -> float:
        """Seconds left. Raises NotDelivered if there are none."""
        left = self._until - self._clock.monotonic()
        if left <= 0 or self._over:
            self._over = True
            raise NotDelivered(f"no answer within {self._seconds:g} s")
        return left

    def watch(self, connection: socket.socket) -> socket.socket:
        """From now on this is the connection to cut; each wait on it is bounded by what is left."""
        connection.settimeout(self.left())
        with self._lock:
            self._socket = connection
            over = self._over
        if over:
            self._cut()
        return connection

    def call(self, work: Callable[[], T]) -> T:
        """``work()``, in a thread of its own that is left behind when the time is over: for what cannot be cut."""
        answer: list[T] = []
        fault: list[BaseException] = []

        def run() -> None:
            try:
                answer.append(work())
            except BaseException as exc:
                fault.append(exc)

        thread = threading.Thread(target=run, name="parrot-delivery", daemon=True)
        thread.start()
        thread.join(self.left())
        if fault:
            raise fault[0]
        if not answer:
            self._over = True
            raise NotDelivered(f"no answer within {self._seconds:g} s")
        return answer[0]

    def _cut(self) -> None:
        with self._lock:
            self._over = True
            if self._socket is not None:
                with suppress(OSError):
                    # Not the method of an SSL socket: it would take the encryption away under a reader.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
