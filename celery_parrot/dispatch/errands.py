"""What a beat does for stores whose rows keep run state and history: carry outcomes there, and prune."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from celery_parrot.clock import Clock
from celery_parrot.dispatch.stores import Stores
from celery_parrot.protocols import Coordinator, Deliveries, Owing, Parcel, Preparing, RowStore

_CARRY_EVERY = 0.5
_CARRY_BATCH = 500
_PAY_EVERY = 1.0
_PAY_BATCH = 100
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
        self._next_carry = self._next_pay = self._next_prune = self._next_unavailable = clock.monotonic()

    def run(self) -> None:
        """Whatever is its time. Raises Unreachable or MemoryLost where the coordinator does."""
        if not self._rows:
            return
        now = self._clock.monotonic()
        if now >= self._next_carry:
            self._next_carry = now + (0.0 if self._carry() else _CARRY_EVERY)
        if now >= self._next_pay:
            self._next_pay = now + (0.0 if self._pay() else _PAY_EVERY)
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
        if any(item.record.status.failure for item in items):
            self._next_pay = self._clock.monotonic()  # one may have been one too many
        return len(items) == _CARRY_BATCH

    def _pay(self) -> bool:
        """Queue the parcels that rows owe; true if there may be more.

        Queued first and settled then: a beat that dies in between leaves a parcel whose id is known already."""
        queue = self._coordinator
        if not isinstance(queue, Deliveries):
            return False
        more = [self._pay_from(store, queue) for store in self._rows if isinstance(store, Owing)]
        return any(more)

    def _pay_from(self, store: Any, queue: Deliveries) -> bool:
        owed: list[Parcel] = []
        if not self._ask(store, lambda: owed.extend(store.owed(limit=_PAY_BATCH))) or not owed:
            return False
        queue.queue_parcels(owed)
        return self._ask(store, partial(store.settled, [one.id for one in owed])) and len(owed) == _PAY_BATCH

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
