"""What :func:`celery_parrot.runtime.worker.install` leaves behind for one app and one registered name."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal

from celery_parrot.clock import Clock
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, EventSink
from celery_parrot.runtime.worker.guard import Guard
from celery_parrot.runtime.worker.parent import Parent
from celery_parrot.runtime.worker.session import Session, Sessions
from celery_parrot.runtime.worker.thresholds import Thresholds

Unreachable = Literal["hold", "run"]


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
        clock: Clock,
        events: EventSink,
    ) -> None:
        self.namespace = namespace
        self.unreachable = unreachable
        self.result_max_chars = result_max_chars
        self.lease = lease
        self.thresholds = thresholds
        self.clock = clock
        self.main_pid: int | None = None
        self.sessions = Sessions(lambda: Session(connect, clock, lease, namespace, events))
        self.guard = Guard(self)
        self.parent = Parent(self)

    @property
    def in_pool_process(self) -> bool:
        """Whether a main process elsewhere sees how this one ends."""
        return self.main_pid != os.getpid()

    def worker_starts(self) -> None:
        """This process is a worker's main process."""
        self.main_pid = os.getpid()

    def worker_stops(self) -> None:
        """The worker shuts down: nothing unsaid is kept back. A thread whose body still runs keeps the session."""
        session = self.sessions.existing()
        if session is None:
            return
        if session.lifecycle.running:
            session.lifecycle.flush()
        else:
            self.sessions.stop()

    def process_stops(self) -> None:
        """This process ends now. What still runs here is cut off, and says so; an unacknowledged message comes again
        and is the next attempt, so its fire goes on."""
        session = self.sessions.existing()
        if session is None:
            return
        self.guard.cut_off(session)
        self.sessions.stop()
