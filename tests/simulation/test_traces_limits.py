"""Interleavings around limits, memory loss and edits that break a naive version; each also without its rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from unittest import mock

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.coordination.rules import limits, turns
from celery_parrot.coordination.rules.space import Claim, Space
from celery_parrot.dispatch.lifecycle import Lifecycle
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols import (
    CommitReply,
    Due,
    Grant,
    Hold,
    Limit,
    LimitRequest,
    Reading,
    StartVerdict,
)
from celery_parrot.stores.memory import CodeStore
from celery_parrot.testing import ManualBeat
from tests.simulation.rig import NAMESPACE, Rig, broker, delivery_of, ended, every, key_of, sent

GROUP = Limit("group:gpu")
LEASE = 15.0


@pytest.fixture
def rig() -> Rig:
    return Rig()


def _f_runs_and_g_waits(rig: Rig, worker: Lifecycle) -> tuple[FireKey, FireKey, ManualBeat]:
    """Two schedules of one group. F was sent and runs on ``worker``; G is in line behind it."""
    definitions = [every(60, "f"), every(60, "g")]
    beat = rig.beat("B1", *definitions)
    broker(beat, down="not yet")
    beat.tick()
    rig.keep_touched(60)
    beat.tick()
    f, g = rig.key(60, "f"), rig.key(60, "g")
    asked = [LimitRequest(hold=Hold(key, "B1", 0), limits=(GROUP,)) for key in (f, g)]
    assert [reply.grant for reply in rig.coordinator.request(asked)] == [Grant.GRANTED, Grant.WAITING]
    assert rig.coordinator.confirm([Hold(f, "B1", 0)]) == [True]
    assert worker.open(delivery_of(f, "W1#1")).verdict is StartVerdict.RUN
    broker(beat)
    return f, g, beat


# --- 19: the worker dies right after its release named G --------------------------------------------------------------


def _finishes_and_dies(rig: Rig) -> tuple[FireKey, ManualBeat]:
    worker, _ = rig.worker()
    f, g, beat = _f_runs_and_g_waits(rig, worker)
    beat.run(2)
    assert sent(beat) == []
    rig.coordinator.finish([ended(delivery_of(f, "W1#1"))])  # and nothing of that worker is ever heard again
    beat.run(2)
    return g, beat


def test_19_a_fire_named_by_a_release_is_in_the_outbox(rig: Rig) -> None:
    """The release itself put it there, so a beat sends it, whoever dies."""
    g, beat = _finishes_and_dies(rig)
    assert sent(beat) == [g]


def test_19_left_to_the_worker_it_waits_for_ever(rig: Rig) -> None:
    """If the release only frees, and naming is the worker's next step, nobody names G."""
    real = turns.admit

    def only_newcomers(space: Space, newcomer: FireKey | None = None) -> Sequence[FireKey]:
        return real(space, newcomer) if newcomer is not None else ()

    with mock.patch.object(turns, "admit", only_newcomers):
        g, beat = _finishes_and_dies(rig)
        beat.run(60)
    assert g not in sent(beat)
    assert rig.status(g) is Status.WAITING


# --- 29: memory is lost while F runs and G waits ----------------------------------------------------------------------


def _memory_lost(rig: Rig) -> tuple[FireKey, FireKey, ManualBeat, Lifecycle]:
    worker, _ = rig.worker()
    f, g, beat = _f_runs_and_g_waits(rig, worker)
    beat.run(2)
    rig.coordinator.flush()
    rig.clock.advance(LEASE / 3)
    worker.keep()
    beat.run(1)
    rig.coordinator.attach()
    return f, g, beat, worker


def _keep_alive(rig: Rig, worker: Lifecycle, beat: ManualBeat, seconds: float) -> None:
    for _ in range(round(seconds)):
        worker.keep()
        beat.run(1)


def test_29_what_runs_holds_on_and_what_waits_stays_in_line(rig: Rig) -> None:
    """F is back with token and limit, G in line; nothing is granted or started for one lease time, or before F ends."""
    f, g, beat, worker = _memory_lost(rig)
    assert rig.start(delivery_of(f, "W1#1")).verdict is StartVerdict.QUIET
    running, waiting = rig.coordinator.claims([f, g])
    assert running is not None
    assert waiting is not None
    assert (running.status, running.token, waiting.status) == (Status.RUNNING, "W1#1", Status.WAITING)
    _keep_alive(rig, worker, beat, LEASE + 5)
    assert g not in sent(beat)
    worker.close(ended(delivery_of(f, "W1#1")))
    beat.run(2)
    assert g in sent(beat)


def test_29_without_its_holds_another_gets_the_limit_beside_it(rig: Rig) -> None:
    """If the worker put back the fire but not its limits, G would run beside F."""

    def forgets(space: Space, claim: Claim, holds: Sequence[Limit]) -> None:
        """Nothing is restored."""

    with mock.patch.object(limits, "restore_holds", forgets):
        f, g, beat, worker = _memory_lost(rig)
    _keep_alive(rig, worker, beat, LEASE + 15)
    assert rig.status(f) is Status.RUNNING
    assert g in sent(beat)


def test_29_without_the_mirror_of_the_line_g_is_lost(rig: Rig) -> None:
    """If beats mirrored the outbox only, nobody would know G."""
    with mock.patch.object(limits, "restore_waiting"):
        _, g, beat, worker = _memory_lost(rig)
    _keep_alive(rig, worker, beat, LEASE + 5)
    assert rig.coordinator.claims([g]) == [None]
    assert g not in sent(beat)


# --- 22: an edit between scan and commit ------------------------------------------------------------------------------


class _Table(CodeStore):
    """A store whose row anybody may update: it has a version, which the commit compares."""

    def __init__(self) -> None:
        self.row = every(60, args=["old"])
        self.update_after_scan = False
        super().__init__([self.row])

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """What is in the table; and then ``UPDATE … SET args``, behind every beat's back, once."""
        marks = self.remembered()[1]
        self.put(self.row)
        self.learn(marks)
        found = super().due(before, kinds, limit)
        if self.update_after_scan:
            self.update_after_scan = False
            schedule = self.row.schedule
            self.row = replace(self.row, schedule=replace(schedule, args=("new",), version=schedule.version + 1))
        return found


class _Rows(MemoryCoordinator):
    """A coordinator in one system with the row: its commit compares the version, if it ``compares``."""

    def __init__(self, server: MemoryServer, table: _Table, *, compares: bool) -> None:
        super().__init__(NAMESPACE, server=server)
        self._table, self._compares, self.conflicts = table, compares, 0

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        (made,) = plans
        if not self._compares or made.expected_version == self._table.row.schedule.version:
            return super().commit(plans, owner)
        self.conflicts += 1
        moved = CommitReply(schedule_id=made.schedule_id, verdict=Verdict.MOVED, mark=made.expected_mark)
        return self.attach(), [moved]


def _updated_between_scan_and_commit(rig: Rig, *, compares: bool) -> tuple[_Rows, ManualBeat]:
    table = _Table()
    rows = _Rows(rig.coordinator.server, table, compares=compares)
    beat = ManualBeat(rows, [table], clock=rig.clock, namespace=NAMESPACE, owner="B1")
    beat.tick()
    rig.keep_touched(60)
    table.update_after_scan = True
    beat.run(2)
    return rows, beat


def test_22_an_edit_between_scan_and_commit_is_planned_anew(rig: Rig) -> None:
    """The commit fails on the version; the due time fires once, as the row says now."""
    rows, beat = _updated_between_scan_and_commit(rig, compares=True)
    assert rows.conflicts == 1
    assert [(key_of(message), message.args) for message in beat.sent] == [(rig.key(60), ("new",))]


def test_22_without_comparing_the_version_the_old_row_fires(rig: Rig) -> None:
    """What was deleted by the edit is sent all the same."""
    _, beat = _updated_between_scan_and_commit(rig, compares=False)
    assert [(key_of(message), message.args) for message in beat.sent] == [(rig.key(60), ("old",))]
