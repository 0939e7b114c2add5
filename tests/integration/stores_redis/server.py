"""A Redis store under test: real server, time moved by the clients' clock offset."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from celery_parrot.coordination.redis import PERMANENT_KEYS, RedisCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Timing
from celery_parrot.stores.redis import PERMANENT_KEYS as STORE_KEYS
from celery_parrot.stores.redis import RedisStore

PERMANENT = (*PERMANENT_KEYS, *STORE_KEYS)
NAME = "conformance"


class StoreServer:
    """Any number of processes on one server."""

    def __init__(self, url: str, client: Any, *, hash_tag: bool = False, timing: Timing | None = None) -> None:
        self.redis = client
        self.namespace = Namespace(NAME, hash_tag=hash_tag)
        self._url, self._timing = url, timing
        self._offset = 0.0
        self._spoilt: dict[str, str] = {}
        self._coordinators: list[RedisCoordinator] = []

    def coordinator(self) -> RedisCoordinator:
        made = RedisCoordinator(self._url, self.namespace, self._timing, clock_offset=self._offset)
        self._coordinators.append(made)
        return made

    def store(self) -> RedisStore:
        return RedisStore(self.coordinator())

    def counted(self) -> tuple[RedisStore, RedisCoordinator, list[str]]:
        """A process, and the scripts it has run so far."""
        coordinator = self.coordinator()
        calls: list[str] = []
        run = coordinator._link.run

        def counting(script: Any, keys: Sequence[str], args: Sequence[bytes | str]) -> Any:
            calls.append(script.name)
            return run(script, keys, args)

        coordinator._link.run = counting  # type: ignore[method-assign]
        return RedisStore(coordinator), coordinator, calls

    def sync(self, store: RedisStore) -> None:
        assert list(store.registrations()) == []

    def now(self) -> datetime:
        return self.store().now()

    def advance(self, seconds: float) -> None:
        self._offset += seconds
        for coordinator in self._coordinators:
            coordinator.clock_offset = self._offset

    def key(self, name: str) -> str:
        return self.namespace.key(name)

    def spoil(self, schedule_id: str) -> None:
        self._spoilt[schedule_id] = self.redis.hget(self.key("jobs"), schedule_id)
        self.redis.hset(self.key("jobs"), schedule_id, '{"format":1,"name"')

    def mend(self, schedule_id: str) -> None:
        self.redis.hset(self.key("jobs"), schedule_id, self._spoilt[schedule_id])

    def close(self) -> None:
        for coordinator in self._coordinators:
            coordinator.close()
