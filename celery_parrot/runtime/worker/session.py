"""One coordinator connection, one lifecycle and one keeper thread per process, made on first use after any fork."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TypeVar

from celery_parrot.clock import Clock
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.model.fire import Fire, FireKey, Namespace
from celery_parrot.protocols import (
    Coordinator,
    Delivery,
    EventSink,
    FinishReply,
    Lease,
    Limits,
    Outcome,
    Reading,
    Reservation,
    Running,
    StartReply,
)

T = TypeVar("T")
logger = logging.getLogger("celery_parrot.worker")


class LazyCoordinator:
    """Connects at the first call, and again after a connect that failed; the first to connect adopts the epoch."""

    def __init__(self, connect: Callable[[], Coordinator]) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._coordinator: Coordinator | None = None

    def attach(self) -> Reading:
        return self._there().attach()

    def start(self, deliveries: Sequence[Delivery]) -> Sequence[StartReply]:
        return self._there().start(deliveries)

    def renew_leases(self, leases: Sequence[Lease]) -> Sequence[bool]:
        return self._there().renew_leases(leases)

    def finish(self, outcomes: Sequence[Outcome]) -> Sequence[FinishReply]:
        return self._there().finish(outcomes)

    def remember_running(self, running: Sequence[Running]) -> Reading:
        return self._there().remember_running(running)

    def claims(self, keys: Sequence[FireKey]) -> Sequence[Fire | None]:
        return self._there().claims(keys)

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        there = self._there()
        return there.reserve(reservations) if isinstance(there, Limits) else [False] * len(reservations)

    def close(self) -> None:
        with self._lock:
            coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            coordinator.close()

    def _there(self) -> Coordinator:
        with self._lock:
            if self._coordinator is None:
                coordinator = self._connect()
                try:
                    coordinator.attach()
                except BaseException:
                    coordinator.close()
                    raise
                self._coordinator = coordinator
            return self._coordinator


class Session:
    """What one process needs to open and close fires."""

    def __init__(
        self,
        connect: Callable[[], Coordinator],
        clock: Clock,
        lease: float,
        namespace: Namespace,
        events: EventSink,
    ) -> None:
        self.pid = os.getpid()
        self._clock = clock
        self._coordinator = LazyCoordinator(connect)
        self.lifecycle = Lifecycle(self._coordinator, clock, lease, namespace=namespace, events=events)
        self._stopping = False
        # Threading as it is when the first fire starts: under gevent, patched, this is a greenlet.
        self._keeper = threading.Thread(target=self._keep, name="parrot-lease-keeper", daemon=True)
        self._keeper.start()

    def stop(self, seconds: float) -> None:
        """End the keeper, send what is left for at most ``seconds``, and close the connection."""
        self._stopping = True
        self.lifecycle.wake.set()
        self.lifecycle.flush(seconds)
        self._keeper.join(seconds)
        try:
            self._coordinator.close()
        except Exception as exc:
            logger.debug("closing the coordinator's connection failed: %s", exc)

    def _keep(self) -> None:
        lifecycle, pause = self.lifecycle, 0.0
        while not self._stopping:
            self._clock.wait(lifecycle.wake, pause)
            lifecycle.wake.clear()
            try:
                pause = lifecycle.keep()
            except Exception:  # a fault of ours must not end the renewals of everything that runs here
                logger.exception("keeping leases failed")
                pause = 1.0


class Sessions:
    """The session of whichever process asks. A child never touches what it inherited: neither its parent's
    connection nor a lock that a thread of the parent held during the fork."""

    def __init__(self, make: Callable[[], Session]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._session: Session | None = None
        _everywhere.add(self)

    def get(self) -> Session:
        """This process's session, made now if there is none."""
        session = self._session
        if session is None or session.pid != os.getpid():
            with self._lock:
                session = self._session
                if session is None or session.pid != os.getpid():
                    session = self._session = self._make()
        return session

    def existing(self) -> Session | None:
        """This process's session if it has made one."""
        session = self._session
        return session if session is not None and session.pid == os.getpid() else None

    def stop(self, seconds: float = 2.0) -> None:
        """End this process's session, if any; the next :meth:`get` makes another."""
        with self._lock:
            session, self._session = self.existing(), None
        if session is not None:
            session.stop(seconds)

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._session = None


_everywhere: weakref.WeakSet[Sessions] = weakref.WeakSet()


def _after_fork() -> None:
    for sessions in list(_everywhere):
        sessions._forked()


os.register_at_fork(after_in_child=_after_fork)
