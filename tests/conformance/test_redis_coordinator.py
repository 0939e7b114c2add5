"""The coordinator in Redis keeps the contract."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.testing.conformance import TIMING, Backend, CoordinatorConformance, LimitsConformance
from celery_parrot.testing.conformance.delivering import DeliveringConformance
from celery_parrot.testing.conformance.disabling import DisablingConformance
from celery_parrot.testing.conformance.inspecting import Inspecting
from celery_parrot.testing.conformance.reaping import Reaping
from celery_parrot.testing.conformance.recovering import Recovering
from celery_parrot.testing.conformance.reserving import Reserving
from celery_parrot.testing.conformance.two_step_telling import TwoStepTellingConformance
from celery_parrot.testing.conformance.unsent import Unsent
from celery_parrot.testing.conformance.waiting import Waiting

# What would expire as time passes: the server's own clock cannot be moved, so the lives of its keys are cut instead.
_AGE = """
local keys = redis.call('KEYS', ARGV[1])
for _, key in ipairs(keys) do
  local left = redis.call('PTTL', key)
  if left >= 0 and left <= tonumber(ARGV[2]) then
    redis.call('DEL', key)
  elseif left >= 0 then
    redis.call('PEXPIRE', key, left - tonumber(ARGV[2]))
  end
end
"""


class RedisBackend:
    """Real Redis; time is moved by the clients' clock offset."""

    def __init__(self, url: str, client: Any, *, hash_tag: bool = False) -> None:
        self._url = url
        self._redis = client
        self._hash_tag = hash_tag
        self._offset = 0.0
        self._clients: list[RedisCoordinator] = []

    def client(self, name: str = "conformance") -> RedisCoordinator:
        namespace = Namespace(name, hash_tag=self._hash_tag)
        made = RedisCoordinator(self._url, namespace, TIMING, clock_offset=self._offset)
        self._clients.append(made)
        return made

    def advance(self, seconds: float) -> None:
        self._offset += seconds
        for client in self._clients:
            client.clock_offset = self._offset
        self._redis.eval(_AGE, 0, "parrot:*", round(seconds * 1000))

    def flush(self) -> None:
        self._redis.flushdb()

    def change_server(self) -> None:
        for key in self._redis.keys("parrot:*:coordinator"):
            self._redis.hset(key, "run_id", "0" * 40)

    def close(self) -> None:
        for client in self._clients:
            client.close()


class TestRedisCoordinator(CoordinatorConformance, Reaping, Recovering):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()


class TestRedisCoordinatorWithHashTag(CoordinatorConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client, hash_tag=True)
        yield backend
        backend.close()


class TestRedisLimits(LimitsConformance, Waiting, Inspecting, Reserving, Unsent):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()


class TestRedisLimitsWithHashTag(LimitsConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client, hash_tag=True)
        yield backend
        backend.close()


class TestRedisDeliveries(DeliveringConformance, DisablingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()


class TestRedisDeliveriesWithHashTag(DeliveringConformance, DisablingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client, hash_tag=True)
        yield backend
        backend.close()


class TestRedisDeliveriesOfRows(TwoStepTellingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()
