"""The suite of :class:`~celery_parrot.protocols.Limits`, for coordinators that have that capability."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import cast

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import (
    IN_FLIGHT_SKIP_OUTPUT_KEY,
    SLOTS,
    Drop,
    Grant,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Limits,
    Mark,
    Memory,
    Running,
    StartVerdict,
)
from celery_parrot.testing.conformance.limiting import DISK, GPU, KIND, SLOT2, Limiting
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene

GPU3 = Limit("group:gpu", 3)
SLOT = Limit(SLOTS)

GRANTED, WAITING, SKIPPED, LOST = Grant.GRANTED, Grant.WAITING, Grant.SKIPPED, Grant.LOST
RUN = StartVerdict.RUN


class LimitsConformance(Limiting):
    """Everything that the docstring of :class:`~celery_parrot.protocols.Limits` says."""

    # --- one limit ---

    def test_granted_stays_pending_under_its_hold(self, scene: Scene) -> None:
        assert self.ask(scene, 1, GPU).grant is GRANTED
        assert self.ask(scene, 1, GPU).grant is GRANTED
        assert scene.status(1) is Status.PENDING
        assert scene.c.confirm([scene.hold(1)]) == [True]

    def test_the_hold_must_match(self, scene: Scene) -> None:
        assert self.ask(scene, 1, GPU, tries=1).grant is LOST
        assert self.ask(scene, 10, GPU).grant is LOST
        scene.c.confirm([scene.hold(2)])
        assert self.ask(scene, 2, GPU).grant is LOST

    def test_busy_waits_out_of_the_outbox(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        reply = self.ask(scene, 2, GPU)
        assert (reply.grant, reply.limit) == (WAITING, "group:gpu")
        assert reply.held_by == scene.record(1).fire_id
        assert scene.status(2) is Status.WAITING
        assert scene.key(2) not in {f.key for f in scene.sweep().entries}
        assert self.ask(scene, 2, GPU) == reply
        assert scene.c.confirm([scene.hold(2)]) == [False]

    def test_capacity(self, scene: Scene) -> None:
        assert self.grants(scene, [(n, (SLOT2,)) for n in (1, 2, 3)]) == [GRANTED, GRANTED, WAITING]

    def test_finish_names_the_next(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in (1, 2, 3)])
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(2),)
        assert scene.finish(1).named == ()
        assert [scene.status(n) for n in (2, 3)] == [Status.PENDING, Status.WAITING]
        assert scene.hold(2) in scene.sweep("b2").due  # at once, whoever owns it
        taken = scene.c.take([scene.hold(2)], "b2")[0]
        assert taken is not None
        again = LimitRequest(hold=Hold(scene.key(2), "b2", 1), limits=(GPU,))
        assert cast(Limits, scene.c).request([again])[0].grant is GRANTED

    def test_every_terminal_outcome_releases(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in range(1, 6)])
        scene.c.drop([Drop(hold=scene.hold(1), status=Status.MISSED, reason="too_late")])
        assert scene.status(2) is Status.PENDING
        scene.confirm(scene.hold(2), deadline=1)
        past = scene.now() + timedelta(seconds=1)
        scene.pass_time(1.5)
        assert scene.start(2, deadline=past).verdict is StartVerdict.EXPIRED
        assert scene.status(3) is Status.PENDING
        self.run(scene, 3)
        scene.pass_time(TIMING.lease + 1)
        reaped = scene.c.reap()
        assert [r.named for r in reaped] == [(scene.key(4),)]
        scene.finish(4, "", Status.ERROR)
        assert scene.status(5) is Status.PENDING

    def test_a_late_finish_frees_nothing_of_the_successor(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in (1, 2, 3)])
        self.run(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert scene.finish(1, "t1").named == ()
        assert scene.status(3) is Status.WAITING

    def test_a_retry_keeps_its_limits(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in (1, 2)])
        self.run(scene, 1)
        scene.finish(1, "t1", Status.SENT)
        assert scene.status(2) is Status.WAITING
        assert scene.start(1, "t9", retries=1).verdict is StartVerdict.RUN
        assert scene.finish(1, "t9").named == (scene.key(2),)

    def test_a_lapsed_lease_frees_nothing_before_an_outcome(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in (1, 2)])
        self.run(scene, 1)
        scene.start(1, "t9")  # put back
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []
        assert scene.status(2) is Status.WAITING
        assert scene.start(1, "t9", put_back=True).verdict is StartVerdict.RUN
        assert scene.finish(1, "t9").named == (scene.key(2),)

    # --- skip ---

    def test_a_busy_kind_skips(self, scene: Scene) -> None:
        self.ask(scene, 1, KIND)
        reply = self.ask(scene, 2, KIND, GPU)
        assert (reply.grant, reply.limit, reply.held_by) == (SKIPPED, KIND.name, scene.record(1).fire_id)
        record = scene.record(2)
        assert record.status is Status.SUCCESS
        assert json.loads(record.output or "") == {IN_FLIGHT_SKIP_OUTPUT_KEY: True, "held_by": reply.held_by}
        assert self.ask(scene, 2, KIND, GPU).grant is SKIPPED
        assert self.ask(scene, 3, GPU).grant is GRANTED  # it holds nothing

    def test_a_skip_is_no_success_for_the_failure_count(self, scene: Scene) -> None:
        self.ask(scene, 1, KIND)
        scene.start(3, "t3")
        scene.finish(3, "t3", Status.ERROR, error="E: e")
        self.ask(scene, 2, KIND)
        assert (scene.state().consecutive_failures, scene.state().last_error) == (1, "E: e")
        assert scene.state().auto_count == 8

    def test_a_waiting_fire_holds_its_kind(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        assert self.ask(scene, 2, KIND, GPU).grant is WAITING
        assert self.ask(scene, 3, KIND).grant is SKIPPED

    # --- the line ---

    def test_a_newcomer_never_passes_the_line(self, scene: Scene) -> None:
        """Fire 2 waits for the disk and blocks the gpu it needs as well, though that is free."""
        asked = [(1, (DISK,)), (2, (GPU, DISK)), (3, (GPU,))]
        assert self.grants(scene, asked) == [GRANTED, WAITING, WAITING]
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(2),)
        assert scene.status(3) is Status.WAITING

    def test_the_line_is_ordered_by_due_time(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (5, (GPU,)), (3, (GPU,))])
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(3),)

    def test_slots_are_judged_last(self, scene: Scene) -> None:
        """The head lacks the gpu, so it reserves no slot: those behind it that need only a slot run."""
        asked = [(1, (GPU,)), (2, (GPU, SLOT2)), (3, (SLOT2,)), (4, (SLOT2,)), (5, (SLOT2,))]
        assert self.grants(scene, asked) == [GRANTED, WAITING, GRANTED, GRANTED, WAITING]

    def test_who_lacks_nothing_but_a_slot_is_next(self, scene: Scene) -> None:
        asked = [(1, (SLOT,)), (2, (GPU, SLOT)), (3, (SLOT,))]
        assert self.grants(scene, asked) == [GRANTED, WAITING, WAITING]
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(2),)
        self.run(scene, 2)
        assert scene.finish(2, "t2").named == (scene.key(3),)

    def test_who_was_ready_and_is_kept_back_by_a_newcomer_keeps_nobody_else(self, scene: Scene) -> None:
        """Fire 5 lacks a slot only, until fire 3, due before it, takes its place in the line for the gpu."""
        asked = [(1, (SLOT,)), (2, (DISK,)), (5, (GPU, SLOT)), (3, (GPU, DISK)), (6, (SLOT,))]
        assert self.grants(scene, asked) == [GRANTED, GRANTED, WAITING, WAITING, WAITING]
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(6),)
        self.run(scene, 2)
        assert scene.finish(2, "t2").named == (scene.key(3),)
        self.run(scene, 3)
        self.run(scene, 6)
        assert scene.finish(3, "t3").named == ()
        assert scene.finish(6, "t6").named == (scene.key(5),)

    # --- capacities that change ---

    def test_a_raised_capacity_counts_for_those_who_wait(self, scene: Scene) -> None:
        """The newcomer that brings it does not pass them."""
        assert self.grants(scene, [(1, (GPU,)), (2, (GPU,)), (3, (GPU,))]) == [GRANTED, WAITING, WAITING]
        assert self.ask(scene, 4, GPU3).grant is WAITING
        assert [scene.status(n) for n in (2, 3, 4)] == [Status.PENDING, Status.PENDING, Status.WAITING]
        assert [limit.capacity for limit in cast(Limits, scene.c).limits()] == [3]

    def test_a_raised_capacity_lasts_as_long_as_somebody_waits(self, scene: Scene) -> None:
        """Also over a time when nobody holds it: those who wait said less when they asked."""
        asked = [(1, (DISK,)), (2, (GPU,)), (3, (GPU, DISK)), (4, (GPU,)), (5, (GPU3,))]
        assert self.grants(scene, asked) == [GRANTED, GRANTED, WAITING, WAITING, WAITING]
        self.run(scene, 2)
        assert scene.finish(2, "t2").named == ()
        self.run(scene, 1)
        assert set(scene.finish(1).named) == {scene.key(n) for n in (3, 4, 5)}

    def test_a_lowered_capacity_counts_for_those_who_wait(self, scene: Scene) -> None:
        asked = [(1, (GPU3,)), (2, (GPU3,)), (3, (GPU3,)), (4, (GPU3,)), (5, (GPU,))]
        assert self.grants(scene, asked) == [GRANTED, GRANTED, GRANTED, WAITING, WAITING]
        for n in (1, 2):
            self.run(scene, n)
            assert scene.finish(n, f"t{n}").named == ()
        self.run(scene, 3)
        assert scene.finish(3, "t3").named == (scene.key(4),)

    def test_a_release_names_all_that_fit(self, scene: Scene) -> None:
        both = (GPU, DISK)
        assert self.grants(scene, [(1, both), (2, (GPU,)), (3, (DISK,)), (4, (GPU,))])[1:] == [WAITING] * 3
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(2), scene.key(3))

    # --- loss of memory ---

    def test_nothing_is_granted_while_quiet_and_the_line_comes_back(self, scene: Scene, backend: Backend) -> None:
        self.ask(scene, 1, GPU)
        self.run(scene, 1)
        holds = scene.start(1, "t1").holds
        assert holds == (GPU,)
        assert self.grants(scene, [(2, (KIND, GPU)), (3, (GPU,))]) == [WAITING, WAITING]
        mirror = scene.sweep()
        backend.flush()
        scene.c.remember(Memory(outbox=mirror.entries, line=mirror.line))
        scene.c.remember_running([Running(delivery=scene.delivery(1), started_at=scene.base, holds=holds)])
        assert self.ask(scene, 4, DISK).grant is LOST
        assert self._line(scene) == [scene.key(2), scene.key(3)]
        scene.pass_time(TIMING.lease - 1)
        scene.c.renew_leases([_lease(scene, 1)])
        scene.pass_time(2)
        scene.c.reap()
        assert [scene.status(n) for n in (2, 3)] == [Status.WAITING, Status.WAITING]
        assert self.ask(scene, 4, KIND).grant is SKIPPED
        assert scene.finish(1, "t1").named == (scene.key(2),)

    def _forgotten(self, scene: Scene, backend: Backend) -> None:
        """1 was sent holding its limit, 2 waits behind it; all is forgotten, and 2 has started since."""
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        scene.c.confirm([scene.hold(1)])
        mirror = scene.sweep()
        backend.flush()
        marks = (Mark(schedule_id="a", last_due=scene.due(9)),)
        scene.c.remember(Memory(marks=marks, outbox=mirror.entries, line=mirror.line))
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert scene.start(2, "t2").verdict is RUN

    def test_a_message_whose_limits_were_forgotten_asks_again(self, scene: Scene, backend: Backend) -> None:
        self._forgotten(scene, backend)
        reply = scene.start(1, "t1", limits=True, override='{"args": [7]}')
        assert (reply.verdict, reply.attempt) == (StartVerdict.ASKS_AGAIN, 2)
        fire = scene.fire(1)
        assert (fire.status, fire.attempt, fire.sent_as, fire.retries) == (Status.PENDING, 2, 2, 0)
        assert fire.override == '{"args": [7]}'
        assert scene.state().run_count == 2  # 1 was sent, too: nothing that max_fires counted comes back
        assert scene.start(1, "t1", limits=True).verdict is StartVerdict.DUPLICATE  # or its reply was lost
        (taken,) = scene.c.take([scene.hold(1, fire.owner, fire.tries)], "b2")  # at once
        assert taken is not None
        request = LimitRequest(hold=scene.hold(1, "b2", taken.tries), limits=(GPU,))
        assert self.limits(scene).request([request])[0].grant is WAITING
        assert scene.finish(2, "t2").named == (scene.key(1),)
        assert scene.start(1, "t3", attempt=2, limits=True).verdict is RUN

    def test_a_forgotten_message_over_its_deadline_has_expired(self, scene: Scene, backend: Backend) -> None:
        self._forgotten(scene, backend)
        late = scene.now() - timedelta(seconds=1)
        assert scene.start(1, "t1", limits=True, deadline=late).verdict is StartVerdict.EXPIRED
        assert scene.status(1) is Status.EXPIRED

    def test_a_put_back_copy_whose_limits_were_forgotten_is_a_duplicate(self, scene: Scene, backend: Backend) -> None:
        self._forgotten(scene, backend)
        assert scene.start(1, "t1", limits=True, put_back=True).verdict is StartVerdict.DUPLICATE
        assert scene.c.claims([scene.key(1)]) == [None]

    def test_an_outcome_while_quiet_names_nobody(self, scene: Scene, backend: Backend) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        mirror = scene.sweep()
        backend.flush()
        scene.c.remember(Memory(line=mirror.line))
        scene.c.remember_running([Running(delivery=scene.delivery(1), started_at=scene.base, holds=(GPU,))])
        assert scene.finish(1).named == ()
        assert scene.status(2) is Status.WAITING
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert scene.status(2) is Status.PENDING

    def test_what_a_quiet_time_held_up_goes_on_with_the_reaper(self, scene: Scene, backend: Backend) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        mirror = scene.sweep()
        backend.flush()
        scene.c.remember(Memory(line=mirror.line))  # the one that held it is gone
        scene.pass_time(TIMING.lease + 1)
        scene.c.reap()
        assert scene.status(2) is Status.PENDING

    def _line(self, scene: Scene) -> list[FireKey]:
        return [waiting.fire.key for waiting in scene.sweep().line]


def _lease(scene: Scene, n: int) -> Lease:
    return Lease(scene.key(n), f"t{n}")
