"""What the client asks the coordinator itself: who beats, who holds what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from celery_parrot.client import health
from celery_parrot.client.groups import Groups
from celery_parrot.clock import Clock
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """:ivar where: the coordinator, for a sentence; no password.
    :ivar guard: seconds a run-now keeps others out without a sign of life (``parrot_run_now_lock_ttl``).
    """

    coordinator: Coordinator
    namespace: Namespace
    clock: Clock
    where: str = "the coordinator"
    guard: float = 3600.0

    @property
    def groups(self) -> Groups:
        return Groups(self.coordinator, self.namespace)

    def now(self) -> datetime:
        """The coordinator's clock."""
        return self.coordinator.attach().now

    def beats(self) -> tuple[Sequence[health.BeatView], datetime]:
        """See :func:`celery_parrot.client.health.beats`."""
        return health.beats(self.coordinator, self.clock)

    def health(self) -> health.Health:
        """Raises Unreachable where the coordinator cannot be asked."""
        return health.judge(self.beats()[0], self.namespace.name, self.where)
