"""The Redis store keeps the contracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from celery_parrot.testing.conformance.schedule_store import ScheduleStoreConformance
from tests.integration.stores_redis.server import PERMANENT, StoreServer


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return PERMANENT


class TestScheduleStore(ScheduleStoreConformance):
    """Reading and editing."""

    @pytest.fixture
    def stores(self, redis_url: str, redis_client: Any) -> Iterator[StoreServer]:
        server = StoreServer(redis_url, redis_client)
        yield server
        server.close()


class TestScheduleStoreWithHashTag(ScheduleStoreConformance):
    """The same with all keys in one slot of a cluster."""

    @pytest.fixture
    def stores(self, redis_url: str, redis_client: Any) -> Iterator[StoreServer]:
        server = StoreServer(redis_url, redis_client, hash_tag=True)
        yield server
        server.close()
