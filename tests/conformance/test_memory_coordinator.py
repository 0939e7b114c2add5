"""The coordinator in memory keeps the contract."""

from __future__ import annotations

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.model.fire import Namespace
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import TIMING, Backend, CoordinatorConformance, LimitsConformance


class MemoryBackend:
    def __init__(self) -> None:
        self._clock = FakeClock()
        self._server = MemoryServer(self._clock)
        self.advance = self._clock.advance
        self.flush = self._server.flush
        self.change_server = self._server.forget_identity

    def client(self, name: str = "conformance") -> MemoryCoordinator:
        return MemoryCoordinator(Namespace(name), TIMING, server=self._server)


class TestMemoryCoordinator(CoordinatorConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestMemoryLimits(LimitsConformance):
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()
