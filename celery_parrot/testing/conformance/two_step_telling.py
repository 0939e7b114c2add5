"""Deliveries and failures of fires that rows decide: the coordinator queues parcels, and the rows count.

class TestMine(TwoStepTellingConformance):
    @pytest.fixture
    def backend(self) -> Backend: ...
"""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.schedule import TELLS_ALL
from celery_parrot.protocols import About, Carried, DeliveryStatus, StartVerdict
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import Backend
from celery_parrot.testing.conformance.telling import TellingScene, told
from celery_parrot.testing.conformance.two_step import RowScene


class RowTellingScene(RowScene, TellingScene):
    def ran(self, n: float, status: Status = Status.SUCCESS, **outcome: Any) -> None:
        """A prepared fire went all the way."""
        assert self.prepare(n, tells=TELLS_ALL).fires
        self.confirm(self.hold(n))
        assert self.start(n, f"t{n}").verdict is StartVerdict.RUN
        self.finish(n, f"t{n}", status, **outcome)

    def item(self, n: float = 1) -> Carried:
        """What is to be carried of it."""
        (item,) = [item for item in self.uncarried() if item.record.key == self.key(n)]
        return item


class TwoStepTellingConformance(Conformance):
    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> RowTellingScene:
        return RowTellingScene(coordinator, backend)

    def test_parcels_of_prepared_fires(self, scene: RowTellingScene) -> None:
        """Queued with the outcome, as of any other."""
        scene.ran(1, output="42")
        scene.ran(2, Status.ERROR, error="E: e")
        told_of = sorted(scene.queue(), key=lambda one: one.due_at)
        assert [(one.about, one.output, one.error) for one in told_of] == [
            (About.SUCCESS, "42", None),
            (About.FAILURE, None, "E: e"),
        ]
        assert scene.fire(1).tells == TELLS_ALL

    def test_its_row_counts(self, scene: RowTellingScene) -> None:
        """Nothing is held here, and nobody alerted."""
        for n in (1, 2, 3, 4):
            scene.ran(n, Status.ERROR, error="E: e", traceback="Traceback: …")
        assert (scene.alerts(), scene.c.run_states(["a"]), scene.holding.holds(["a"])) == ([], {}, {})
        assert scene.item(4).record.traceback == "Traceback: …"

    @pytest.mark.parametrize("known", [False, True], ids=["with the outcome", "after it"])
    def test_reports_are_carried(self, scene: RowTellingScene, known: bool) -> None:
        """Whether its row knows the outcome by then or not; the newest try is carried."""
        scene.ran(1, output="42")
        before = scene.item().serial
        if known:
            scene.carried()
            assert scene.uncarried() == []
        scene.report(1, status=DeliveryStatus.RETRYING)
        scene.report(1, status=DeliveryStatus.DELIVERED, tries=2)
        item = scene.item()
        assert item.serial > before
        assert (item.record.status, item.record.output) == (Status.SUCCESS, "42")
        assert item.record.delivery["success"]["status"] == "delivered"
        scene.carried()
        scene.report(1, status=DeliveryStatus.RETRYING)
        assert scene.uncarried() == []

    def test_a_report_leaves_what_does_not_count(self, scene: RowTellingScene) -> None:
        """A failure that does not count is no other for being told of."""
        scene.ran(1, Status.ERROR, counted=False)
        scene.report(1, About.FAILURE)
        assert not scene.item().counted

    def test_a_report_of_what_is_not_known_is_lost(self, scene: RowTellingScene) -> None:
        scene.parcels.report([told("f1", scene.key(1))])
        assert scene.uncarried() == []
