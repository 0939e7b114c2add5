"""What a beat does for stores whose rows keep run state and history: carry outcomes there, and prune."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from celery_parrot.clock import Clock
from celery_parrot.dispatch.stores import Stores
from celery_parrot.protocols import Coordinator, Preparing, RowStore

_CARRY_EVERY = 0.5
_CARRY_BATCH = 500
_PRUNE_EVERY = 60.0
_PRUNE_BATCH = 1000
_SAY_UNAVAILABLE_EVERY = 10.0


class Errands:
    """Runs between ticks; any beat may do them, each is idempotent. A store that fails never delays dispatch."""

    def __init__(
        self, coordinator: Coordinator, rows: Sequence[RowStore], stores: Stores, clock: Clock, batch: int
    ) -> None:
        self._coordinator, self._rows, self._stores, self._clock = coordinator, tuple(rows), stores, clock
        self._batch = batch
        self._next_carry = self._next_prune = self._next_unavailable = clock.monotonic()

    def run(self) -> None:
        """Whatever is its time. Raises Unreachable or MemoryLost where the coordinator does."""
        if not self._rows:
            return
        now = self._clock.monotonic()
        if now >= self._next_carry:
            self._next_carry = now + (0.0 if self._carry() else _CARRY_EVERY)
        if now >= self._next_prune:
            self._next_prune = now + _PRUNE_EVERY
            for store in self._rows:
                self._ask(store, partial(store.prune, limit=_PRUNE_BATCH))

    def _carry(self) -> bool:
        """Bring what happened into the rows; true if there is more."""
        assert isinstance(self._coordinator, Preparing)
        items = self._coordinator.uncarried(limit=_CARRY_BATCH)
        for store in self._rows:
            if not items or not self._ask(store, partial(store.record, items)):
                return False
        self._coordinator.carried(items)
        return len(items) == _CARRY_BATCH

    def lock_unavailable(self, kinds: frozenset[str], now: datetime | None) -> None:
        """Write into the rows that are due that the coordinator cannot be asked.

        :param now: the coordinator's clock as far as known; None if it was never read."""
        if not self._rows or now is None or self._clock.monotonic() < self._next_unavailable:
            return
        self._next_unavailable = self._clock.monotonic() + _SAY_UNAVAILABLE_EVERY
        due = self._stores.due(now, kinds, self._batch)
        for store in self._rows:
            ids = [item.schedule.schedule_id for item in due if item.schedule.store == store.name]
            if ids:
                self._ask(store, partial(store.lock_unavailable, ids))

    def _ask(self, store: RowStore, call: Callable[[], object]) -> bool:
        try:
            call()
        except Exception as exc:  # what a database refuses for good, too, must not keep the reaper from its work
            self._stores.failed(store.name, exc)
            return False
        return True
