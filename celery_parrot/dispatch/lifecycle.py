"""The worker's side of a fire: open it, keep its lease, record its outcome.

One :class:`Lifecycle` per process. Tasks call :meth:`~Lifecycle.open` and :meth:`~Lifecycle.close` from their own
threads; one keeper beside them calls :meth:`~Lifecycle.keep` in a loop, so that a lease never depends on the thread
that runs the task. Nothing is held locked while the coordinator is asked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

from celery_parrot.clock import Clock
from celery_parrot.dispatch import worker_events
from celery_parrot.dispatch.asking import Asking, WorkerCoordinator
from celery_parrot.dispatch.closing import Outcomes
from celery_parrot.dispatch.keeping import Leases
from celery_parrot.dispatch.reserving import Reservations
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Delivery, EventSink, Lease, Outcome, Progress, Running, StartReply, StartVerdict

__all__ = ["Lifecycle", "WorkerCoordinator"]

OPEN_PAUSES = (0.2, 0.5)  # seconds before asking again for Start, within OPEN_PATIENCE
OPEN_PATIENCE = 4.0  # seconds after which Start is not asked again: a pool slot is waiting


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
        self._clock = clock
        self.lease = lease
        self.wake = threading.Event()  #: set when :meth:`keep` has something to do before its time
        self._leases = Leases(clock, lease, self._wake)
        self._outcomes = Outcomes(clock, lease, self._leases, self._wake)
        self._reservations = Reservations(clock, lease, self._wake)
        describe = worker_events.Describer(namespace)
        self._asking = Asking(coordinator, lambda: self.running, describe, events)

    # --- before the start ---

    def received(self, delivery: Delivery, wanted: Callable[[], bool]) -> None:
        """This process has a message that it has not started: :meth:`keep` notes that, if the fire holds limits.

        :param wanted: false once nobody here will start it, whatever became of it.
        """
        self._reservations.add(delivery, wanted)

    def accepted(self, token: str) -> None:
        """It starts now, here or in a process of the pool."""
        self._reservations.drop(token)

    def open(self, delivery: Delivery) -> StartReply:
        """Ask whether this delivery may run; with ``RUN``, its lease is kept from here until :meth:`close`.

        Repeating it with the same token wins again. Only a ``PUT_BACK`` copy may carry the mark ``put_back``: one
        held back for another reason has met nobody who runs it, and would be dropped by a coordinator that forgot.

        :raises Unreachable: the coordinator could not be asked, within a few tries and :data:`OPEN_PATIENCE` seconds.
        """
        tell, describe = self._asking.tell, self._asking.describe
        began = self._clock.monotonic()
        pauses = iter(OPEN_PAUSES)
        while True:
            asked = self._clock.monotonic()
            try:
                (reply,) = self._asking.ask(lambda to: to.start([delivery]))
                break
            except Unreachable as exc:
                pause = next(pauses, None)
                if pause is None or self._clock.monotonic() - began >= OPEN_PATIENCE:
                    tell(describe.held(delivery, exc))
                    raise
                self._clock.sleep(pause)
        if reply.verdict is StartVerdict.RUN:
            self._leases.add(delivery, reply, asked)
        tell(describe.met(delivery, reply))
        return reply

    # --- while it runs ---

    @property
    def running(self) -> tuple[Running, ...]:
        """The fires that run here now."""
        return self._leases.running

    def lost(self, lease: Lease) -> bool:
        """Whether this run may have a successor: its renewal was refused, or none succeeded for one lease time, or
        it has ended."""
        return self._leases.lost(lease.token)

    def forget(self, lease: Lease) -> None:
        """Stop keeping a lease without an outcome: somebody else judges, or the message comes again. The lease then
        lapses in its own time."""
        self._leases.pop(lease.token)

    def progress(self, lease: Lease, sign: Progress) -> None:
        """A sign of progress: noted here, told by :meth:`keep` at once or with others of the same second, the newest
        only, until the coordinator has it. Never waits; nothing where the fire does not run or is lost."""
        self._leases.progress(lease.token, sign)

    def now(self, lease: Lease) -> datetime:
        """The coordinator's clock, as far as this run knows it; else this machine's."""
        return self._leases.now(lease.token) or self._clock.now()

    def keep(self) -> float:
        """Do what is due: send outcomes that could not be sent, renew the leases of what runs here and what is noted
        of messages in hand. Never raises.

        :returns: seconds until it should be called again, sooner if :attr:`wake` is set.
        """
        if self._reached(self._outcomes.due()):
            self._outcomes.send(self._asking)
        if self._reached(self._leases.due()):
            self._leases.keep(self._asking)
        if self._reached(self._reservations.due()):
            self._reservations.keep(self._asking)
        now = self._clock.monotonic()
        due = [self._outcomes.due(), self._leases.due(), self._reservations.due()]
        return max(0.01, min(moment - now for moment in (now + self.lease / 3, *due) if moment is not None))

    def _reached(self, moment: float | None) -> bool:
        return moment is not None and self._clock.monotonic() >= moment

    def _wake(self) -> None:
        self.wake.set()

    # --- finish ---

    def close(self, outcome: Outcome, *, delivery: Delivery | None = None) -> None:
        """Record how a delivery ended: at once if the coordinator answers, else from :meth:`keep`, every second until
        it does. Never raises. A second outcome for one token is ignored.

        :param delivery: given by one who saw a delivery end without knowing whether it was opened: if it was not, the
            fire is ended as one that nobody runs.
        """
        if self._outcomes.add(self._asking, outcome, delivery):
            self._outcomes.send(self._asking)

    def close_soon(self, outcome: Outcome, *, delivery: Delivery | None = None, of: Delivery | None = None) -> None:
        """As :meth:`close`, from :meth:`keep` instead of the calling thread: for an event loop that must not wait.

        :param of: what ended, to tell of it, where ``delivery`` is not given.
        """
        if self._outcomes.add(self._asking, outcome, delivery, of):
            self.wake.set()

    def flush(self, seconds: float = 2.0) -> bool:
        """Before this process ends: try for at most ``seconds`` to get rid of every outcome. True if none is left."""
        end = self._clock.monotonic() + seconds
        while self._outcomes.left:
            self._outcomes.send(self._asking)
            if not self._outcomes.left:
                break
            if self._clock.monotonic() >= end:
                for outcome in self._outcomes.left:
                    self._asking.tell(self._asking.describe.outcome_dropped(outcome, "this process ends"))
                return False
            self._clock.sleep(min(0.1, seconds / 10))
        return True
