"""How a worker's process asks the coordinator, and tells what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from celery_parrot.dispatch.worker_events import Describer
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey
from celery_parrot.protocols import (
    Delivery,
    EventSink,
    FinishReply,
    Lease,
    Outcome,
    Reading,
    Reservation,
    Running,
    StartReply,
)

T = TypeVar("T")

RETRY_EVERY = 1.0  # seconds between tries of what could not be asked
MAX_BATCH = 500  # items of one call


class WorkerCoordinator(Protocol):
    """The part of :class:`~celery_parrot.protocols.Coordinator` that a worker uses."""

    def attach(self) -> Reading: ...
    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]: ...
    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]: ...
    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]: ...
    def remember_running(self, running: Sequence[Running]) -> Reading: ...
    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]: ...

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        """As :meth:`~celery_parrot.protocols.Limits.reserve`; false for each where no limits are kept."""
        ...


class Unforeseen(Unreachable):
    """The coordinator answered with an error that is not about reaching it."""


class Asking:
    """The one way to the coordinator, for everything that lives in one process.

    :param running: what runs here, for a coordinator that forgot.
    :ivar describe: the words for :meth:`tell`.
    """

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        running: Callable[[], Sequence[Running]],
        describe: Describer,
        events: EventSink | None,
    ) -> None:
        self._coordinator = coordinator
        self._running = running
        self.describe = describe
        self._events = events

    def ask(self, call: Callable[[WorkerCoordinator], T]) -> T:
        """What ``call`` answers. A loss of memory is mended and asked about again.

        :raises Unreachable: for every other failure; :exc:`Unforeseen` if the coordinator can be reached.
        """
        try:
            try:
                return call(self._coordinator)
            except MemoryLost as exc:
                self.tell(self.describe.memory_lost(exc))
                self._coordinator.remember_running(self._running())
                return call(self._coordinator)
        except Unreachable:
            raise
        except MemoryLost as exc:
            raise Unreachable(str(exc)) from exc
        except Exception as exc:
            # An error nobody foresaw, in the coordinator or its server, must not become the task's.
            raise Unforeseen(f"{type(exc).__name__}: {exc}") from exc

    def tell(self, event: Event) -> None:
        """Say what happened."""
        if self._events is not None:
            self._events.emit(event)
