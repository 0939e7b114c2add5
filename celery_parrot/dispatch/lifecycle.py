"""The worker's side of a fire: open it, keep its lease, record its outcome.

One :class:`Lifecycle` per process. Tasks call :meth:`~Lifecycle.open` and :meth:`~Lifecycle.close` from their own
threads; one keeper beside them calls :meth:`~Lifecycle.keep` in a loop, so that a lease never depends on the thread
that runs the task. Nothing is held locked while the coordinator is asked.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice
from typing import Protocol, TypeVar

from celery_parrot.clock import Clock
from celery_parrot.dispatch import worker_events
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey, Namespace, Status
from celery_parrot.protocols import (
    Delivery,
    EventSink,
    FinishReply,
    FinishVerdict,
    Lease,
    Outcome,
    Reading,
    Running,
    StartReply,
    StartVerdict,
)

T = TypeVar("T")

OPEN_PAUSES = (0.2, 0.5)  # seconds before asking again for Start, within OPEN_PATIENCE
OPEN_PATIENCE = 4.0  # seconds after which Start is not asked again: a pool slot is waiting
RETRY_EVERY = 1.0  # seconds between tries of renewals and outcomes after a failure
MAX_UNSENT = 10_000  # outcomes kept for a coordinator that does not answer
MAX_BATCH = 500  # outcomes in one call
MAX_ENDED = 1_000  # tokens remembered, so that two hooks that see the same end report it once


class _Unforeseen(Unreachable):
    """The coordinator answered with an error that is not about reaching it."""


class WorkerCoordinator(Protocol):
    """The part of :class:`~celery_parrot.protocols.Coordinator` that a worker uses."""

    def attach(self) -> Reading: ...
    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]: ...
    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]: ...
    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]: ...
    def remember_running(self, running: Sequence[Running]) -> Reading: ...
    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]: ...


@dataclass(slots=True)
class _Run:
    """A fire that runs here. ``confirmed``: when its lease was last asked for and granted, monotonic seconds."""

    running: Running
    confirmed: float
    refused: bool = False
    ending: bool = False

    @property
    def lease(self) -> Lease:
        return Lease(self.running.delivery.key, self.running.delivery.token)


@dataclass(frozen=True, slots=True)
class _Unsent:
    outcome: Outcome
    delivery: Delivery | None  # of an outcome whose delivery may never have been opened


@dataclass(slots=True)
class _State:
    runs: dict[str, _Run] = field(default_factory=dict)  # by token
    unsent: deque[_Unsent] = field(default_factory=deque)
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))
    renew_at: float = 0.0
    send_at: float = 0.0


class Lifecycle:
    """Opens fires, keeps their leases, records their outcomes, through every failure of the coordinator.

    :param lease: seconds a lease lives between renewals; the coordinator's :attr:`~Timing.lease`.
    :param events: told what happened; never of arguments.
    """

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        clock: Clock,
        lease: float,
        *,
        namespace: Namespace,
        events: EventSink | None = None,
    ) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self.lease = lease
        self._every = min(RETRY_EVERY, lease / 3)
        self._describe = worker_events.Describer(namespace)
        self._events = events
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._state = _State()
        self.wake = threading.Event()  #: set when :meth:`keep` has something to do before its time

    # --- start ---

    def open(self, delivery: Delivery) -> StartReply:
        """Ask whether this delivery may run; with ``RUN``, its lease is kept from here until :meth:`close`.

        Repeating it with the same token wins again. Only a ``PUT_BACK`` copy may carry the mark ``put_back``: one
        held back for another reason has met nobody who runs it, and would be dropped by a coordinator that forgot.

        :raises Unreachable: the coordinator could not be asked, within a few tries and :data:`OPEN_PATIENCE` seconds.
        """
        began = self._clock.monotonic()
        pauses = iter(OPEN_PAUSES)
        while True:
            asked = self._clock.monotonic()
            try:
                (reply,) = self._ask(lambda: self._coordinator.start([delivery]))
                break
            except Unreachable as exc:
                pause = next(pauses, None)
                if pause is None or self._clock.monotonic() - began >= OPEN_PATIENCE:
                    self._tell(self._describe.held(delivery, exc))
                    raise
                self._clock.sleep(pause)
        if reply.verdict is StartVerdict.RUN:
            self._track(delivery, reply, asked)
        self._tell(self._describe.met(delivery, reply))
        return reply

    def _track(self, delivery: Delivery, reply: StartReply, asked: float) -> None:
        # The coordinator's own clock where it said something; ours is only a stand-in.
        until = reply.lease_until
        started = self._clock.now() if until is None else until - timedelta(seconds=self.lease)
        running = Running(delivery=delivery, started_at=started, attempt=reply.attempt, holds=reply.holds)
        with self._lock:
            if not self._state.runs:
                self._state.renew_at = asked + self.lease / 3
            self._state.runs[delivery.token] = _Run(running, asked)

    # --- lease ---

    @property
    def running(self) -> tuple[Running, ...]:
        """The fires that run here now."""
        with self._lock:
            return tuple(run.running for run in self._state.runs.values())

    def lost(self, lease: Lease) -> bool:
        """Whether this run may have a successor: its renewal was refused, or none succeeded for one lease time, or
        it has ended."""
        with self._lock:
            run = self._state.runs.get(lease.token)
            return run is None or run.refused or self._clock.monotonic() - run.confirmed > self.lease

    def forget(self, lease: Lease) -> None:
        """Stop keeping a lease without an outcome: somebody else judges, or the message comes again. The lease then
        lapses in its own time."""
        with self._lock:
            self._state.runs.pop(lease.token, None)

    def keep(self) -> float:
        """Do what is due: renew the leases of what runs here, send outcomes that could not be sent. Never raises.

        :returns: seconds until it should be called again, sooner if :attr:`wake` is set.
        """
        if self._due(self._state.send_at, self._state.unsent):
            self._send()
        if self._due(self._state.renew_at, self._state.runs):
            self._renew()
        now = self._clock.monotonic()
        with self._lock:
            moments = [now + self.lease / 3]
            moments += [self._state.renew_at] if self._state.runs else []
            moments += [self._state.send_at] if self._state.unsent else []
        return max(0.01, min(moments) - now)

    def _due(self, moment: float, work: object) -> bool:
        with self._lock:
            return bool(work) and self._clock.monotonic() >= moment

    def _renew(self) -> None:
        with self._lock:
            runs = [run for run in self._state.runs.values() if not run.refused]
        asked = self._clock.monotonic()
        pause = self._every
        try:
            if runs:
                answers = self._ask(lambda: self._coordinator.renew_leases([run.lease for run in runs]))
                self._renewed(runs, answers, asked)
            pause = self.lease / 3
        except Unreachable as exc:
            self._tell(self._describe.unreachable("renew leases", exc))
        with self._lock:
            self._state.renew_at = asked + pause

    def _renewed(self, runs: Sequence[_Run], answers: Sequence[bool], asked: float) -> None:
        with self._lock:
            for run, granted in zip(runs, answers, strict=True):
                if granted:
                    run.confirmed = asked
            # One that ends meanwhile was refused because its outcome arrived first.
            refused = [run for run, granted in zip(runs, answers, strict=True) if not granted and not self._over(run)]
            for run in refused:
                run.refused = True
        for run in refused:
            self._tell(self._describe.lease_lost(run.running))

    def _over(self, run: _Run) -> bool:
        return run.ending or run.lease.token not in self._state.runs

    # --- finish ---

    def close(self, outcome: Outcome, *, delivery: Delivery | None = None) -> None:
        """Record how a delivery ended: at once if the coordinator answers, else from :meth:`keep`, every second until
        it does. Never raises. A second outcome for one token is ignored.

        :param delivery: given by one who saw a delivery end without knowing whether it was opened: if it was not, the
            fire is ended as one that nobody runs.
        """
        if self._enqueue(outcome, delivery):
            self._send()

    def close_soon(self, outcome: Outcome, *, delivery: Delivery | None = None) -> None:
        """As :meth:`close`, from :meth:`keep` instead of the calling thread: for an event loop that must not wait."""
        if self._enqueue(outcome, delivery):
            self.wake.set()

    def _enqueue(self, outcome: Outcome, delivery: Delivery | None) -> bool:
        dropped: _Unsent | None = None
        token = outcome.lease.token
        with self._lock:
            state = self._state
            if token:
                if token in state.ended:
                    return False
                state.ended.append(token)
                if token in state.runs:
                    state.runs[token].ending = True
            waiting = bool(state.unsent)
            if len(state.unsent) >= MAX_UNSENT:
                dropped = state.unsent.popleft()
                state.runs.pop(dropped.outcome.lease.token, None)
            state.unsent.append(_Unsent(outcome, delivery))
            if not waiting:
                state.send_at = self._clock.monotonic()
        if dropped is not None:
            self._tell(self._describe.outcome_dropped(dropped.outcome, "too many wait for the coordinator"))
        # Behind others that the coordinator did not take, a task need not wait to be told so as well.
        return not waiting or self._due(self._state.send_at, True)

    def flush(self, seconds: float = 2.0) -> bool:
        """Before this process ends: try for at most ``seconds`` to get rid of every outcome. True if none is left."""
        end = self._clock.monotonic() + seconds
        while self._state.unsent:
            self._send()
            if not self._state.unsent:
                break
            if self._clock.monotonic() >= end:
                for unsent in tuple(self._state.unsent):
                    self._tell(self._describe.outcome_dropped(unsent.outcome, "this process ends"))
                return False
            self._clock.sleep(min(0.1, seconds / 10))
        return True

    def _send(self) -> None:
        with self._sending:  # one at a time, so that nothing is sent twice or out of order
            while batch := self._batch():
                try:
                    self._settle(batch, self._finish(batch))
                except Unreachable as exc:
                    if isinstance(exc, _Unforeseen) and len(batch) > 1:
                        self._send_singly(batch)  # one that the coordinator chokes on must not hold up the others
                    self._tell(self._describe.unreachable("record outcomes", exc))
                    with self._lock:
                        self._state.send_at = self._clock.monotonic() + self._every
                    self.wake.set()
                    return

    def _batch(self) -> Sequence[_Unsent]:
        with self._lock:
            return tuple(islice(self._state.unsent, MAX_BATCH))

    def _send_singly(self, batch: Sequence[_Unsent]) -> None:
        for unsent in batch:
            try:
                self._settle([unsent], self._finish([unsent]))
            except _Unforeseen:
                continue
            except Unreachable:
                return

    def _finish(self, batch: Sequence[_Unsent]) -> Sequence[FinishReply]:
        replies = list(self._ask(lambda: self._coordinator.finish([unsent.outcome for unsent in batch])))
        for i, (unsent, reply) in enumerate(zip(batch, replies, strict=True)):
            if unsent.delivery is not None and reply.verdict is not FinishVerdict.RECORDED:
                replies[i] = self._finish_unopened(unsent.outcome, unsent.delivery) or reply
        return replies

    def _finish_unopened(self, outcome: Outcome, delivery: Delivery) -> FinishReply | None:
        (claim,) = self._ask(lambda: self._coordinator.claims([delivery.key]))
        if claim is None or outcome.status is Status.SENT:
            return None
        newer = (claim.sent_as, claim.retries) < (delivery.attempt, delivery.retries)
        if claim.started_at is not None and not newer:
            return None  # it was opened, and has ended or gone on
        unowned = replace(outcome, lease=Lease(delivery.key, ""))
        (reply,) = self._ask(lambda: self._coordinator.finish([unowned]))
        return reply

    def _settle(self, batch: Sequence[_Unsent], replies: Sequence[FinishReply]) -> None:
        for unsent, reply in zip(batch, replies, strict=True):
            with self._lock:
                run = self._state.runs.pop(unsent.outcome.lease.token, None)
                if unsent in self._state.unsent:
                    self._state.unsent.remove(unsent)
            self._tell(self._describe.ended(unsent.outcome, reply, run.running if run is not None else None))

    # --- asking ---

    def _ask(self, call: Callable[[], T]) -> T:
        """The one way to the coordinator: a loss of memory is mended and asked about again, every other failure is
        :exc:`Unreachable`."""
        try:
            try:
                return call()
            except MemoryLost as exc:
                self._tell(self._describe.memory_lost(exc))
                self._coordinator.remember_running(self.running)
                return call()
        except Unreachable:
            raise
        except MemoryLost as exc:
            raise Unreachable(str(exc)) from exc
        except Exception as exc:
            # An error nobody foresaw, in the coordinator or its server, must not become the task's.
            raise _Unforeseen(f"{type(exc).__name__}: {exc}") from exc

    def _tell(self, event: Event | None) -> None:
        if event is not None and self._events is not None:
            self._events.emit(event)
