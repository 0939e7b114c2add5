"""The coordinator in memory keeps the contract."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer, MemoryWake
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.protocols import Coordinator, Grant, Limit, LimitRequest, StartVerdict
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import TIMING, Backend, CoordinatorConformance, LimitsConformance, Scene
from celery_parrot.testing.conformance.base import Conformance
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


def test_a_message_that_asks_for_its_limits_again_wakes_the_beats() -> None:
    wake = MemoryWake(clock := FakeClock())
    scene = Scene(MemoryCoordinator(Namespace("again"), TIMING, clock, wake=wake), MemoryBackend())
    assert scene.start(1, limits=True).verdict is StartVerdict.ASKS_AGAIN
    assert wake.wait(0)


class TestTheLastMoment(Memory, Conformance):
    """At exactly a deadline a fire is still in time, for Start and for the reaper."""

    def test_of_a_queue_deadline(self, coordinator: Coordinator, backend: Backend) -> None:
        scene = Scene(coordinator, backend)
        scene.pending()
        coordinator.confirm([scene.hold(1)], [scene.now() + timedelta(seconds=5)])
        scene.pass_time(5)
        assert coordinator.reap() == []
        assert scene.start(1).verdict is StartVerdict.RUN

    def test_of_a_wait_deadline(self, coordinator: MemoryCoordinator, backend: Backend) -> None:
        scene = Scene(coordinator, backend)
        scene.register()
        scene.commit(1, 2)
        asked = [LimitRequest(hold=scene.hold(n), limits=(Limit("group:gpu"),), wait=5.0) for n in (1, 2)]
        coordinator.request(asked)
        scene.confirm(scene.hold(1))
        scene.pass_time(5)
        assert coordinator.reap() == []
        scene.pass_time(0.001)
        assert [(reaped.fire.key, reaped.fire.status) for reaped in coordinator.reap()] == [
            (scene.key(2), Status.ERROR)
        ]
