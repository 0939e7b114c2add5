"""What the suites of limits share: a scene with nine fires in the outbox, and short names for asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import (
    SLOTS,
    Busy,
    Grant,
    Limit,
    LimitReply,
    LimitRequest,
    Limits,
    LimitState,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import Backend, Scene

KIND = Limit("kind:agent", 1, Busy.SKIP)
GPU = Limit("group:gpu")
DISK = Limit("group:disk")
SLOT2 = Limit(SLOTS, 2)


class Limiting(Conformance):
    """Base of the suites of :class:`~celery_parrot.protocols.Limits`: fires 1 to 9 are pending, of beat ``b1``."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> Scene:
        scene = Scene(coordinator, backend)
        scene.register()
        scene.commit(*range(1, 10))
        return scene

    def limits(self, scene: Scene) -> Limits:
        return cast(Limits, scene.c)

    def ask(
        self, scene: Scene, n: int, *limits: Limit, owner: str = "b1", tries: int = 0, wait: float | None = None
    ) -> LimitReply:
        hold = scene.hold(n, owner, tries)
        return self.limits(scene).request([LimitRequest(hold=hold, limits=limits, wait=wait)])[0]

    def grants(self, scene: Scene, asked: Sequence[tuple[int, tuple[Limit, ...]]]) -> list[Grant]:
        return [self.ask(scene, n, *limits).grant for n, limits in asked]

    def run(self, scene: Scene, n: int) -> None:
        """Sent and started, under the token ``t{n}``."""
        fire = scene.fire(n)
        assert fire.status is Status.PENDING
        scene.confirm(scene.hold(n, fire.owner, fire.tries))
        assert scene.start(n, f"t{n}").verdict is StartVerdict.RUN

    def seen(self, scene: Scene) -> dict[str, LimitState]:
        """Every limit, by name."""
        return {state.name: state for state in self.limits(scene).limits()}
