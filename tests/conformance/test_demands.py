"""Every coordinator commits what a person asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_parrot.testing.conformance import Backend
from celery_parrot.testing.conformance.demanding import DemandingConformance
from tests.conformance.test_memory_coordinator import MemoryBackend
from tests.conformance.test_redis_coordinator import RedisBackend


class TestMemory(DemandingConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestRedis(DemandingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()
