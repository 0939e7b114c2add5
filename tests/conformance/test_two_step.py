"""Both coordinators can prepare for a row that decides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from celery_parrot.testing.conformance import Backend
from celery_parrot.testing.conformance.two_step import RowScene, TwoStepConformance
from celery_parrot.testing.conformance.two_step_limits import TwoStepLimitsConformance
from tests.conformance.test_memory_coordinator import MemoryBackend
from tests.conformance.test_redis_coordinator import RedisBackend
from tests.support.redis_keys import leaked_keys


class TestMemory(TwoStepConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestMemoryLimits(TwoStepLimitsConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestRedisLimits(TwoStepLimitsConformance):
    @pytest.fixture
    def permanent_keys(self) -> Sequence[str]:
        return ("state:a", "state:b")

    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()


class TestRedis(TwoStepConformance):
    @pytest.fixture
    def permanent_keys(self) -> Sequence[str]:
        return ("state:a", "state:b")

    @pytest.fixture
    def backend(self, redis_url: str, redis_client: Any) -> Iterator[Backend]:
        backend = RedisBackend(redis_url, redis_client)
        yield backend
        backend.close()

    def test_plans_are_kept_no_longer_than_their_fires_wait(self, scene: RowScene, redis_client: Any) -> None:
        """One copy a plan, gone with the last of its fires."""
        proofs = "parrot:scheduler:conformance:proofs"
        scene.prepare(1, 2, 3)
        assert redis_client.hlen(proofs) == 2
        scene.c.confirm([scene.hold(1)])
        scene.start(2)
        assert redis_client.hlen(proofs) == 2
        scene.rows.discard([scene.hold(3)], "k1")
        assert redis_client.exists(proofs) == 0

    def test_a_claim_whose_plan_was_evicted_can_still_be_judged(self, scene: RowScene, redis_client: Any) -> None:
        """By its token; the plan in its place moves no row."""
        scene.prepared()
        redis_client.delete("parrot:scheduler:conformance:proofs")
        (entry,) = scene.sweep().entries
        assert entry.proof is not None
        assert entry.proof.token == "k1"
        assert '"expected_version":-1' in entry.proof.plan
        assert leaked_keys(redis_client) == []
