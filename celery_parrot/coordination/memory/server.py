"""What would be the server: the data of every registered name, one lock, one clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Protocol

from celery_parrot.clock import new_id
from celery_parrot.coordination.memory.space import MemorySpace
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Timing


class ServerClock(Protocol):
    """The coordinator's own clock. A :class:`~celery_parrot.clock.Clock` is one; in simulation, a fake."""

    def now(self) -> datetime:
        """Aware, UTC."""
        ...


class MemoryServer:
    """Shared by every :class:`MemoryCoordinator` that is to meet the others.

    Thread-safe: each operation of a coordinator holds :attr:`lock` from beginning to end, which makes it atomic.
    """

    def __init__(self, clock: ServerClock) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.run_id = new_id()
        self._spaces: dict[str, MemorySpace] = {}

    @contextmanager
    def space(self, namespace: Namespace, timing: Timing) -> Iterator[MemorySpace]:
        """The data of one registered name, locked, with ``space.now`` set to this instant."""
        with self.lock:
            space = self._spaces.get(namespace.prefix)
            if space is None:
                space = self._spaces[namespace.prefix] = MemorySpace(namespace, timing)
            space.timing = timing
            space.now = self.clock.now()
            space.run_id = self.run_id
            yield space

    def flush(self) -> None:
        """Memory loss: everything is gone, the server is the same."""
        with self.lock:
            self._spaces.clear()

    def forget_identity(self) -> None:
        """A restart that kept the data: another run id, as after a failover."""
        with self.lock:
            self.run_id = new_id()
