"""What :func:`celery_parrot.runtime.worker.install` leaves behind for one app and one registered name."""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Callable
from typing import Final, Literal

from celery_parrot.clock import Clock
from celery_parrot.instrumentation import flush
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, EventSink
from celery_parrot.runtime.worker.guard import Guard
from celery_parrot.runtime.worker.parent import Parent
from celery_parrot.runtime.worker.permits import Permits
from celery_parrot.runtime.worker.session import Session, Sessions
from celery_parrot.runtime.worker.thresholds import Thresholds

Unreachable = Literal["hold", "run"]
logger = logging.getLogger("celery_parrot.worker")

_AT_THE_FIRST_CALL: Final = ("encodings.idna", "importlib.readers", "importlib.resources.readers", "secrets")
"""What Python and Redis clients import when a server is first called."""

_LAST_EVENTS_WITHIN: Final = 0.5


class Installed:
    """Settings and collaborators, and this process's session.

    :ivar main_pid: the worker's main process, None in a client and in a pool process that was spawned.
    """

    def __init__(
        self,
        connect: Callable[[], Coordinator],
        namespace: Namespace,
        *,
        unreachable: Unreachable,
        result_max_chars: int,
        lease: float,
        thresholds: Thresholds,
        permits: Permits,
        clock: Clock,
        events: EventSink,
    ) -> None:
        self.namespace = namespace
        self.unreachable = unreachable
        self.result_max_chars = result_max_chars
        self.lease = lease
        self.thresholds = thresholds
        self.permits = permits
        self.clock = clock
        self.main_pid: int | None = None
        self._connect = connect
        self._events = events
        self.sessions = Sessions(lambda: Session(connect, clock, lease, namespace, events))
        self.guard = Guard(self)
        self.parent = Parent(self)

    @property
    def in_pool_process(self) -> bool:
        """Whether a main process elsewhere sees how this one ends."""
        return self.main_pid != os.getpid()

    def worker_starts(self) -> None:
        """This process is a worker's main process.

        All that a connection needs is imported now. Were the keeper still importing while the pool replaces a process
        that died, the new one could not import it ever: it inherits the lock of a module, and no thread to open it.
        """
        self.main_pid = os.getpid()
        try:
            self._connect().close()
            for module in _AT_THE_FIRST_CALL:
                importlib.import_module(module)
        except Exception as exc:  # whoever needs the connection says so
            logger.debug("what a connection needs was not imported: %s", exc)

    def worker_stops(self) -> None:
        """The worker shuts down: nothing unsaid is kept back. A thread whose body still runs keeps the session."""
        session = self.sessions.existing()
        if session is not None and session.lifecycle.running:
            session.lifecycle.flush()
        else:
            self.sessions.stop()
        flush(self._events, _LAST_EVENTS_WITHIN)

    def process_stops(self) -> None:
        """This process ends now. What still runs here is cut off, and says so; an unacknowledged message comes again
        and is the next attempt, so its fire goes on."""
        session = self.sessions.existing()
        if session is None:
            return
        self.guard.cut_off(session)
        self.sessions.stop()
        flush(self._events, _LAST_EVENTS_WITHIN)
