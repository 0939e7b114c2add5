"""Every coordinator commits what a person asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryWake
from celery_parrot.coordination.redis import RedisWake
from celery_parrot.model.fire import Namespace
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import Backend
from celery_parrot.testing.conformance.demanding import DemandingConformance, DemandingScene
from tests.conformance.test_memory_coordinator import MemoryBackend
from tests.conformance.test_redis_coordinator import RedisBackend


class TestMemory(DemandingConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()

    def test_beats_are_woken(self) -> None:
        """Whoever asks wakes them."""
        wake = MemoryWake(FakeClock())
        coordinator = MemoryCoordinator(Namespace("n"), clock=FakeClock(), wake=wake)
        DemandingScene(coordinator, MemoryBackend()).asked()
        assert wake.wait(0)


class TestRedis(DemandingConformance):
    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()

    def test_beats_are_woken(self, scene: DemandingScene, redis_url: str) -> None:
        """In the same step."""
        wake = RedisWake(redis_url, Namespace("conformance"))
        try:
            assert wake.wait(1)  # it listens
            scene.asked()
            assert wake.wait(5)
        finally:
            wake.close()

    def test_the_key(self, scene: DemandingScene, redis_client: Any) -> None:
        """A key with the fire's id is the guard; it lives as long as that, and goes with the fire."""
        name = "parrot:scheduler:conformance:running:a"
        key = scene.asked(guard=60)
        assert redis_client.get(name) == Namespace("conformance").fire_id(key)
        assert 55_000 < redis_client.pttl(name) <= 60_000
        lease = scene.run(key)
        scene.pass_time(10)
        assert redis_client.pttl(name) < 51_000
        scene.c.renew_leases([lease])
        assert 55_000 < redis_client.pttl(name) <= 60_000
        scene.end(lease)
        assert redis_client.get(name) is None
        assert redis_client.hgetall("parrot:scheduler:conformance:guards") == {}

    def test_what_is_in_the_key_by_other_hands(self, scene: DemandingScene, redis_client: Any) -> None:
        """What is no id of a fire on its way keeps nobody out."""
        name = "parrot:scheduler:conformance:running:a"
        redis_client.set(name, "whatever")
        scene.end(scene.run(scene.asked()))
        redis_client.hset(name, "what", "ever")
        scene.asked("n2")
