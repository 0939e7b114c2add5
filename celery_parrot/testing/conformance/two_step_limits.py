"""Limits and recovery of fires that a row elsewhere decides: the same rules, every outcome carried to the row."""

from __future__ import annotations

from typing import Any, cast

import pytest

from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.protocols import (
    NEVER_STARTED,
    SILENT,
    Busy,
    Grant,
    Lease,
    Limit,
    LimitRequest,
    Limits,
    Preparing,
    Reservation,
    StartVerdict,
)
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.limiting import GPU, KIND
from celery_parrot.testing.conformance.scene import TIMING, Backend
from celery_parrot.testing.conformance.two_step import RowScene

ALONE = Limit("schedule:a", 1, Busy.OVERLAP)


class TwoStepLimitsConformance(Conformance):
    """For a coordinator that is a :class:`~celery_parrot.protocols.Limits` as well."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> RowScene:
        scene = RowScene(coordinator, backend)
        assert isinstance(scene.rows, Preparing)
        return scene

    def limits(self, scene: RowScene) -> Limits:
        return cast(Limits, scene.c)

    def ask(self, scene: RowScene, n: int, *limits: Limit, wait: float | None = None) -> Grant:
        fire = scene.fire(n)
        hold = scene.hold(n, fire.owner, fire.tries)
        return self.limits(scene).request([LimitRequest(hold=hold, limits=limits, wait=wait)])[0].grant

    def told(self, scene: RowScene) -> list[FireRecord]:
        """What the rows are told, page by page, until there is nothing left."""
        found: list[FireRecord] = []
        while items := scene.uncarried():
            found += [item.record for item in items]
            scene.rows.carried(items)
        return found

    # --- limits ---

    def test_unproven_ones_ask_too(self, scene: RowScene) -> None:
        """And wait, are named, and go on."""
        scene.prepared(1)
        scene.prepared(2)
        assert self.ask(scene, 1, GPU) is Grant.GRANTED
        assert self.ask(scene, 2, GPU) is Grant.WAITING
        scene.confirm(scene.hold(1))
        scene.start(1)
        assert scene.finish(1).named == (scene.key(2),)
        assert scene.fire(2).store == "db"
        assert self.ask(scene, 2, GPU) is Grant.GRANTED

    def test_discarded_it_releases(self, scene: RowScene) -> None:
        """Refuted by its row after it was granted."""
        scene.prepared(1)
        scene.prepared(2)
        self.ask(scene, 1, KIND, GPU)
        self.ask(scene, 2, GPU)
        assert list(scene.rows.discard([scene.hold(1)], "k1")) == [True]
        assert scene.status(2) is Status.PENDING
        (gpu,) = self.limits(scene).limits()
        assert [holder.fire.key for holder in gpu.holders] == [scene.key(2)]

    def test_skips_and_waits_are_carried(self, scene: RowScene) -> None:
        for n in (1, 2, 3, 4):
            scene.prepared(n)
        self.ask(scene, 1, KIND, ALONE, GPU)
        assert self.ask(scene, 2, KIND) is Grant.SKIPPED
        assert self.ask(scene, 3, ALONE) is Grant.SKIPPED
        assert self.ask(scene, 4, GPU, wait=5) is Grant.WAITING
        found = {record.key: record for record in self.told(scene)}
        assert [(found[scene.key(n)].status, found[scene.key(n)].sent_at) for n in (2, 3, 4)] == [
            (Status.SUCCESS, None),
            (Status.SKIPPED, None),
            (Status.WAITING, None),
        ]
        assert found[scene.key(4)].waited_for == "group:gpu"
        scene.pass_time(6)
        scene.c.reap()
        (record,) = self.told(scene)
        assert (record.key, record.status, record.reason) == (
            scene.key(4),
            Status.ERROR,
            "expired waiting for group gpu",
        )

    # --- outcomes of the reaper ---

    def test_what_the_reaper_ends_is_carried(self, scene: RowScene) -> None:
        for n in (1, 2, 3):
            scene.prepared(n)
        scene.confirm(scene.hold(1), scene.hold(2), scene.hold(3))
        scene.start(1, "t1", silent_after=2)
        scene.keep(3, Lease(scene.key(1), "t1"))
        scene.c.reap()
        self.limits(scene).free([scene.key(2)], "by hand")
        items = {item.record.key: item for item in scene.uncarried()}
        silent, freed = items[scene.key(1)], items[scene.key(2)]
        assert (silent.record.status, silent.record.reason, silent.counted) == (Status.ABANDONED, SILENT, True)
        assert (freed.record.status, freed.record.reason, freed.counted) == (Status.ABANDONED, "by hand", False)
        self.told(scene)
        scene.backend.advance(TIMING.unknown_after)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        (record,) = self.told(scene)
        assert (record.key, record.status, record.reason) == (scene.key(3), Status.UNKNOWN, NEVER_STARTED)

    # --- recovery ---

    def recovering(self, scene: RowScene) -> None:
        """Fire 1 ran, was abandoned, and is back in the outbox."""
        scene.prepare(1, recover=True)
        assert scene.fire(1).recover
        scene.confirm(scene.hold(1))
        scene.start(1)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        assert reaped.again

    def test_the_failure_is_carried_before_what_comes_after_it(self, scene: RowScene) -> None:
        """However quick the next attempt is: its row counts the failure."""
        self.recovering(scene)
        scene.send_again(1)
        assert scene.start(1, "t2", attempt=2).verdict is StartVerdict.RUN
        scene.finish(1, "t2")
        records = self.told(scene)
        assert [(record.attempt, record.status) for record in records] == [
            (1, Status.ABANDONED),
            (2, Status.SUCCESS),
        ]

    def test_carried_in_time_the_next_attempt_follows_as_it_goes(self, scene: RowScene) -> None:
        self.recovering(scene)
        assert [record.status for record in self.told(scene)] == [Status.ABANDONED]
        scene.send_again(1)
        assert [(record.attempt, record.status) for record in self.told(scene)] == [(2, Status.SENT)]
        scene.start(1, "t2", attempt=2)
        assert [record.status for record in self.told(scene)] == [Status.RUNNING]
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert [(record.attempt, record.status) for record in self.told(scene)] == [(2, Status.ABANDONED)]

    def test_a_recovered_fire_has_no_proof_to_ask_for(self, scene: RowScene) -> None:
        """It was sent, so it was proven."""
        self.recovering(scene)
        assert scene.fire(1).proof is None

    def test_a_lapsed_reservation_is_sent_again(self, scene: RowScene) -> None:
        scene.prepared(1)
        self.ask(scene, 1, GPU)
        scene.confirm(scene.hold(1))
        one = Reservation(key=scene.key(1), attempt=1, worker="w1")
        assert self.limits(scene).reserve([one]) == [True]
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap(holding=True)
        assert reaped.again
        scene.send_again(1)
        scene.start(1, "t2", attempt=2)
        scene.finish(1, "t2")
        (record,) = self.told(scene)
        assert (record.attempt, record.status) == (2, Status.SUCCESS)
