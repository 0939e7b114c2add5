"""Outcomes of deliveries on their way to the coordinator, through every outage."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from celery_parrot.clock import Clock
from celery_parrot.dispatch.asking import MAX_BATCH, RETRY_EVERY, Asking, Unforeseen
from celery_parrot.dispatch.keeping import Leases
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Delivery, FinishReply, FinishVerdict, Lease, Outcome

MAX_UNSENT = 10_000  # outcomes kept for a coordinator that does not answer
MAX_ENDED = 1_000  # tokens remembered, so that two hooks that see the same end report it once


@dataclass(frozen=True, slots=True)
class _Unsent:
    outcome: Outcome
    delivery: Delivery | None  # of an outcome whose delivery may never have been opened
    of: Delivery | None  # for words only


class Outcomes:
    """A queue of outcomes. Thread-safe; nothing is held locked while the coordinator is asked but the sending itself.

    :param leases: what runs here; an outcome that arrived ends its run.
    :param wake: called when :meth:`send` is to be called sooner than it was.
    """

    def __init__(self, clock: Clock, lease: float, leases: Leases, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._every = min(RETRY_EVERY, lease / 3)
        self._leases = leases
        self._wake = wake
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._unsent: deque[_Unsent] = deque()
        self._ended: deque[str] = deque(maxlen=MAX_ENDED)
        self._send_at = 0.0

    def add(self, asking: Asking, outcome: Outcome, delivery: Delivery | None, of: Delivery | None = None) -> bool:
        """Queue an outcome, unless its token has one. True if it is worth a try to :meth:`send` now."""
        dropped: _Unsent | None = None
        token = outcome.lease.token
        with self._lock:
            if token:
                if token in self._ended:
                    return False
                self._ended.append(token)
                self._leases.ending(token)
            waiting = bool(self._unsent)
            if len(self._unsent) >= MAX_UNSENT:
                dropped = self._unsent.popleft()
                self._leases.pop(dropped.outcome.lease.token)
            self._unsent.append(_Unsent(outcome, delivery, of or delivery))
            if not waiting:
                self._send_at = self._clock.monotonic()
            now = not waiting or self._clock.monotonic() >= self._send_at
        if dropped is not None:
            asking.tell(asking.describe.outcome_dropped(dropped.outcome, "too many wait for the coordinator"))
        # Behind others that the coordinator did not take, a task need not wait to be told so as well.
        return now

    @property
    def left(self) -> tuple[Outcome, ...]:
        """Those that the coordinator does not have yet."""
        with self._lock:
            return tuple(unsent.outcome for unsent in self._unsent)

    def due(self) -> float | None:
        """When to :meth:`send`, monotonic seconds."""
        with self._lock:
            return self._send_at if self._unsent else None

    def send(self, asking: Asking) -> None:
        """Try to get rid of all."""
        with self._sending:  # one at a time, so that nothing is sent twice or out of order
            while batch := self._batch():
                try:
                    self._settle(asking, batch, self._finish(asking, batch))
                except Unreachable as exc:
                    if isinstance(exc, Unforeseen) and len(batch) > 1:
                        self._send_singly(asking, batch)  # one that it chokes on must not hold up the others
                    asking.tell(asking.describe.unreachable("record outcomes", exc))
                    with self._lock:
                        self._send_at = self._clock.monotonic() + self._every
                    self._wake()
                    return

    def _batch(self) -> Sequence[_Unsent]:
        with self._lock:
            return tuple(islice(self._unsent, MAX_BATCH))

    def _send_singly(self, asking: Asking, batch: Sequence[_Unsent]) -> None:
        for unsent in batch:
            try:
                self._settle(asking, [unsent], self._finish(asking, [unsent]))
            except Unforeseen:
                continue
            except Unreachable:
                return

    def _finish(self, asking: Asking, batch: Sequence[_Unsent]) -> Sequence[FinishReply]:
        outcomes = [unsent.outcome for unsent in batch]
        replies = list(asking.ask(lambda to: to.finish(outcomes)))
        for i, (unsent, reply) in enumerate(zip(batch, replies, strict=True)):
            if unsent.delivery is not None and reply.verdict is not FinishVerdict.RECORDED:
                replies[i] = self._finish_unopened(asking, unsent.outcome, unsent.delivery) or reply
        return replies

    def _finish_unopened(self, asking: Asking, outcome: Outcome, delivery: Delivery) -> FinishReply | None:
        (claim,) = asking.ask(lambda to: to.claims([delivery.key]))
        if claim is None or outcome.status is Status.SENT:
            return None
        newer = (claim.sent_as, claim.retries) < (delivery.attempt, delivery.retries)
        if claim.started_at is not None and not newer:
            return None  # it was opened, and has ended or gone on
        unowned = replace(outcome, lease=Lease(delivery.key, ""))
        (reply,) = asking.ask(lambda to: to.finish([unowned]))
        return reply

    def _settle(self, asking: Asking, batch: Sequence[_Unsent], replies: Sequence[FinishReply]) -> None:
        for unsent, reply in zip(batch, replies, strict=True):
            running = self._leases.pop(unsent.outcome.lease.token)
            with self._lock:
                if unsent in self._unsent:
                    self._unsent.remove(unsent)
            asking.tell(asking.describe.ended(unsent.outcome, reply, running, unsent.of))
