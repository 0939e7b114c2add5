"""The coordinator of one process: the rules, under one lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from celery_parrot.coordination.memory.server import MemoryServer, ServerClock
from celery_parrot.coordination.memory.wake import MemoryWake
from celery_parrot.coordination.rules.face import RulesCoordinator
from celery_parrot.coordination.rules.space import Space
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Timing

T = TypeVar("T")


class MemoryCoordinator(RulesCoordinator):
    """A :class:`~celery_parrot.protocols.Coordinator` in memory, with all of its capabilities: limits, preparing for
    rows that decide, holding schedules of code.

    Thread-safe. Coordinates what shares one :class:`MemoryServer`: by default only this object; :meth:`client`
    makes another with an epoch knowledge of its own, as another process would have.

    :param namespace: the registered name.
    :param timing: the durations; the same for every coordinator of a name.
    :param clock: the coordinator's own clock. Ignored if ``server`` is given, which has one.
    :param wake: the channel by which the beats hear of fires that a release named.
    """

    def __init__(
        self,
        namespace: Namespace,
        timing: Timing | None = None,
        clock: ServerClock | None = None,
        *,
        server: MemoryServer | None = None,
        wake: MemoryWake | None = None,
    ) -> None:
        if server is None:
            if clock is None:
                raise TypeError("a MemoryCoordinator needs a clock or a server")
            server = MemoryServer(clock)
        super().__init__(namespace, timing)
        self.server = server
        self.wake = wake

    def client(self, namespace: Namespace | None = None) -> MemoryCoordinator:
        """Another coordinator on the same server, of the same name unless one is given."""
        return MemoryCoordinator(namespace or self.namespace, self.timing, server=self.server, wake=self.wake)

    def _transact(self, work: Callable[[Space], T]) -> T:
        # Nothing is undone when the work raises: the rules raise before they change anything.
        with self.server.space(self.namespace, self.timing) as space:
            return work(space)

    def _named(self) -> None:
        if self.wake is not None:
            self.wake.wake()

    def close(self) -> None:
        """Nothing to close."""

    # -- test hooks --

    def flush(self) -> None:
        """Lose everything, as FLUSHALL would."""
        self.server.flush()

    def forget_identity(self) -> None:
        """Become another server with the same data, as a restart would."""
        self.server.forget_identity()
