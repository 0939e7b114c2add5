"""The coordinator in memory keeps the contract."""

from __future__ import annotations

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer, MemoryWake
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Grant, Limit, LimitRequest
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import TIMING, Backend, CoordinatorConformance, LimitsConformance, Scene
from celery_parrot.testing.conformance.delivering import DeliveringConformance
from celery_parrot.testing.conformance.disabling import DisablingConformance
from celery_parrot.testing.conformance.inspecting import Inspecting
from celery_parrot.testing.conformance.reaping import Reaping
from celery_parrot.testing.conformance.recovering import Recovering
from celery_parrot.testing.conformance.reserving import Reserving
from celery_parrot.testing.conformance.two_step_telling import TwoStepTellingConformance
from celery_parrot.testing.conformance.unsent import Unsent
from celery_parrot.testing.conformance.waiting import Waiting


class MemoryBackend:
    def __init__(self) -> None:
        self._clock = FakeClock()
        self._server = MemoryServer(self._clock)
        self.advance = self._clock.advance
        self.flush = self._server.flush
        self.change_server = self._server.forget_identity

    def client(self, name: str = "conformance") -> MemoryCoordinator:
        return MemoryCoordinator(Namespace(name), TIMING, server=self._server)


class Memory:
    @pytest.fixture
    def backend(self) -> Backend:
        return MemoryBackend()


class TestMemoryCoordinator(Memory, CoordinatorConformance):
    """Beats and workers."""


class TestReaping(Memory, Reaping):
    """Deadlines and silence."""


class TestRecovering(Memory, Recovering):
    """Sent once more."""


class TestMemoryLimits(Memory, LimitsConformance):
    """Turns."""


class TestWaiting(Memory, Waiting):
    """Overlap, buffers, and what is told of a wait."""


class TestInspecting(Memory, Inspecting):
    """Looking, and freeing."""


class TestUnsent(Memory, Unsent):
    """Granted, and no beat sends it."""


class TestReserving(Memory, Reserving):
    """Messages in hand."""


class TestDelivering(Memory, DeliveringConformance):
    """Parcels."""


class TestDisabling(Memory, DisablingConformance):
    """Failures in a row."""


class TestTwoStepTelling(Memory, TwoStepTellingConformance):
    """Both, where rows decide."""


def test_a_release_that_names_a_fire_wakes_the_beats() -> None:
    """And one that names nobody does not."""
    clock = FakeClock()
    wake = MemoryWake(clock)
    coordinator = MemoryCoordinator(Namespace("wakes"), TIMING, clock, wake=wake)
    backend = MemoryBackend()
    scene = Scene(coordinator, backend)
    scene.register()
    scene.commit(1, 2)
    asked = [LimitRequest(hold=scene.hold(n), limits=(Limit("group:gpu"),)) for n in (1, 2)]
    assert [reply.grant for reply in coordinator.request(asked)] == [Grant.GRANTED, Grant.WAITING]
    scene.confirm(scene.hold(1))
    scene.start(1)
    assert not wake.wait(0)
    assert scene.finish(1).named == (scene.key(2),)
    assert wake.wait(0)
    assert scene.finish(1).named == ()
    assert not wake.wait(0)
