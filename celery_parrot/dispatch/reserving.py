"""Messages of fires that a worker has received and not started yet, told to a coordinator that keeps limits.

If this process dies with them, the coordinator notices, and what they hold up goes on without waiting for the broker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from celery_parrot.clock import Clock, new_id
from celery_parrot.dispatch.asking import MAX_BATCH, RETRY_EVERY, Asking
from celery_parrot.errors import Unreachable
from celery_parrot.protocols import Delivery, Reservation

GATHER = 0.1  # seconds: what starts within them is never reserved, what comes within them is asked for together
MAX_RESERVED = 10_000


@dataclass(slots=True)
class _Message:
    reservation: Reservation
    wanted: Callable[[], bool]
    due: float


class Reservations:
    """What this process has in hand, by token of the delivery. Thread-safe.

    :param wake: called when :meth:`keep` has something to do before its time.
    """

    def __init__(self, clock: Clock, lease: float, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._lease = lease
        self._every = min(RETRY_EVERY, lease / 3)
        self._wake = wake
        self._worker = new_id()
        self._lock = threading.Lock()
        self._messages: dict[str, _Message] = {}
        self._at: float | None = None

    def add(self, delivery: Delivery, wanted: Callable[[], bool]) -> None:
        """A message arrived. Nothing is asked here; more than :data:`MAX_RESERVED` are not told of.

        :param wanted: false once nobody here will start it, however that came; asked before each renewal.
        """
        reservation = Reservation(
            key=delivery.key, attempt=delivery.attempt, worker=self._worker, retries=delivery.retries
        )
        due = self._clock.monotonic() + GATHER
        with self._lock:
            if len(self._messages) >= MAX_RESERVED:
                return
            self._messages[delivery.token] = _Message(reservation, wanted, due)
            sooner = self._at is None or due < self._at
            if sooner:
                self._at = due
        if sooner:
            self._wake()

    def drop(self, token: str) -> None:
        """It starts now, or never will: what was noted of it lapses, unless its Start ends it."""
        with self._lock:
            self._messages.pop(token, None)

    def due(self) -> float | None:
        """When :meth:`keep` has something to do, monotonic seconds."""
        with self._lock:
            return self._at if self._messages else None

    def keep(self, asking: Asking) -> None:
        """Note or renew what is due."""
        now = self._clock.monotonic()
        with self._lock:
            if self._at is None or now < self._at:
                return
            found = list(self._messages.items())
        gone = {token for token, message in found if not message.wanted()}
        batch = [(token, message) for token, message in found if message.due <= now and token not in gone]
        for token in gone:
            self.drop(token)
        for begin in range(0, len(batch), MAX_BATCH):
            if not self._reserve(asking, dict(batch[begin : begin + MAX_BATCH])):
                break
        with self._lock:
            # An entry whose call failed is due again soon, as are those behind it that were not asked for.
            self._at = min((message.due for message in self._messages.values()), default=None)

    def _reserve(self, asking: Asking, batch: dict[str, _Message]) -> bool:
        reservations = [message.reservation for message in batch.values()]
        asked = self._clock.monotonic()
        try:
            answers = asking.ask(lambda to: to.reserve(reservations))
        except Unreachable as exc:
            asking.tell(asking.describe.unreachable("reserve messages", exc))
            with self._lock:
                for message in self._messages.values():
                    message.due = max(message.due, asked + self._every)
            return False
        with self._lock:
            for (token, message), noted in zip(batch.items(), answers, strict=True):
                if noted:
                    message.due = asked + self._lease / 3
                else:  # it holds nothing, has started or has ended: there is nothing to keep
                    self._messages.pop(token, None)
        return True
