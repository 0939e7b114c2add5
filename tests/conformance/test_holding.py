"""Both coordinators hold schedules of code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_parrot.testing.conformance import Backend
from celery_parrot.testing.conformance.holding import HoldingConformance
from tests.conformance.test_memory_coordinator import MemoryBackend
from tests.conformance.test_redis_coordinator import RedisBackend


class TestMemory(HoldingConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestRedis(HoldingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()
