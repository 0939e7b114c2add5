"""A server for these tests, and a scene to play on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from celery_parrot.testing.conformance.schedule_store import StoreScene
from tests.integration.stores_redis.server import PERMANENT, StoreServer


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return PERMANENT


@pytest.fixture
def server(redis_url: str, redis_client: Any) -> Iterator[StoreServer]:
    server = StoreServer(redis_url, redis_client)
    yield server
    server.close()


@pytest.fixture
def scene(server: StoreServer) -> StoreScene:
    return StoreScene(server)
