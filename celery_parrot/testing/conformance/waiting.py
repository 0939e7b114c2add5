"""What fires do that meet a limit without room: overlap, bounded lines, what is told of a wait, and its deadline."""

from __future__ import annotations

from datetime import timedelta

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import (
    EXPIRED_WAITING,
    OVERLAP,
    SLOTS,
    Busy,
    Grant,
    Lease,
    Limit,
    LimitReply,
    Memory,
)
from celery_parrot.testing.conformance.limiting import DISK, GPU, KIND, Limiting
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene, near

GRANTED, WAITING, SKIPPED = Grant.GRANTED, Grant.WAITING, Grant.SKIPPED
ALONE = Limit("schedule:a", 1, Busy.OVERLAP)
BUFFER_ONE = Limit("schedule:a", 1, Busy.WAIT, 1)


class Waiting(Limiting):
    """See :meth:`~celery_parrot.protocols.Limits.request`."""

    # --- a look at the line ---

    def test_a_sweep_tells_a_page_of_the_line(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in range(1, 7)])
        assert self._pages(scene, 2) == [[2, 3], [4, 5], [6], []]
        self.run(scene, 1)
        scene.finish(1)
        assert self._pages(scene, 3) == [[3, 4, 5], [6], []]

    def _pages(self, scene: Scene, size: int) -> list[list[float]]:
        place = {scene.key(n): n for n in range(1, 7)}
        pages = [
            scene.c.sweep(scene.beat("b1"), offset=first, limit=size).line for first in range(0, 6 + size - 1, size)
        ]
        return [[place[waiting.fire.key] for waiting in page] for page in pages]

    # --- overlap ---

    def test_an_overlap_is_skipped(self, scene: Scene) -> None:
        self.ask(scene, 1, ALONE)
        reply = self.ask(scene, 2, ALONE, GPU)
        expected = LimitReply(grant=SKIPPED, limit="schedule:a", held_by=scene.record(1).fire_id, held_by_kind="task")
        assert reply == expected
        record = scene.record(2)
        assert (record.status, record.reason, record.output) == (Status.SKIPPED, OVERLAP, None)
        assert near(record.finished_at, scene.now())
        assert scene.key(2) not in {fire.key for fire in scene.sweep().entries}
        assert self.ask(scene, 2, ALONE, GPU).grant is SKIPPED
        assert self.ask(scene, 3, GPU).grant is GRANTED  # it holds nothing

    def test_an_overlap_leaves_the_run_state_but_for_max_fires(self, scene: Scene) -> None:
        self.ask(scene, 1, ALONE)
        before = scene.state()
        self.ask(scene, 2, ALONE)
        after = scene.state()
        assert (before.auto_count, after.auto_count) == (9, 8)
        assert (after.last_status, after.last_result, after.consecutive_failures, after.run_count) == (None, None, 0, 0)

    def test_the_schedule_is_free_again_when_its_fire_has_ended(self, scene: Scene) -> None:
        self.ask(scene, 1, ALONE)
        self.run(scene, 1)
        scene.finish(1)
        assert self.ask(scene, 2, ALONE).grant is GRANTED

    def test_a_waiting_fire_is_busy_for_overlap(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        assert self.ask(scene, 2, ALONE, GPU).grant is WAITING
        assert self.ask(scene, 3, ALONE).grant is SKIPPED

    # --- bounded lines ---

    def test_a_full_buffer_is_an_overlap(self, scene: Scene) -> None:
        assert self.grants(scene, [(n, (BUFFER_ONE,)) for n in (1, 2, 3)]) == [GRANTED, WAITING, SKIPPED]
        assert (scene.record(3).status, scene.record(3).reason) == (Status.SKIPPED, OVERLAP)
        assert scene.state().auto_count == 8
        assert self.ask(scene, 3, BUFFER_ONE).grant is SKIPPED
        self.run(scene, 1)
        assert scene.finish(1).named == (scene.key(2),)
        assert self.ask(scene, 4, BUFFER_ONE).grant is WAITING

    def test_holders_and_waiters_count_together(self, scene: Scene) -> None:
        """Two may be in flight, whatever else they wait for."""
        self.ask(scene, 9, GPU)
        asked = [(n, (BUFFER_ONE, GPU)) for n in (1, 2, 3)]
        assert self.grants(scene, asked) == [WAITING, WAITING, SKIPPED]

    def test_a_buffer_bounds_its_own_limit_only(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,)), (3, (GPU,))])
        assert self.ask(scene, 4, BUFFER_ONE, GPU).grant is WAITING

    def test_who_is_over_a_buffer_holds_nothing(self, scene: Scene) -> None:
        self.grants(scene, [(1, (BUFFER_ONE,)), (2, (BUFFER_ONE,))])
        assert self.ask(scene, 3, KIND, BUFFER_ONE).grant is SKIPPED
        assert self.ask(scene, 4, KIND).grant is GRANTED

    # --- what is told of a wait ---

    def test_the_reply_names_the_holder(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        reply = self.ask(scene, 2, DISK, GPU)
        expected = LimitReply(grant=WAITING, limit="group:gpu", held_by=scene.record(1).fire_id, held_by_kind="task")
        assert reply == expected
        assert self.ask(scene, 2, DISK, GPU) == expected

    def test_the_reply_names_who_stands_before(self, scene: Scene) -> None:
        """The gpu is free, but fire 2 is first in line for it."""
        self.grants(scene, [(1, (DISK,)), (2, (GPU, DISK))])
        expected = LimitReply(grant=WAITING, limit="group:gpu", held_by=scene.record(2).fire_id, held_by_kind="task")
        assert self.ask(scene, 3, GPU) == expected

    def test_an_in_flight_skip_names_the_holder_and_its_kind(self, scene: Scene) -> None:
        self.ask(scene, 1, KIND)
        reply = self.ask(scene, 2, KIND)
        assert (reply.limit, reply.held_by, reply.held_by_kind) == (KIND.name, scene.record(1).fire_id, "task")

    def test_the_line_says_since_when_and_until_when(self, scene: Scene) -> None:
        committed = scene.now()
        scene.pass_time(2)
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        self.ask(scene, 3, GPU, wait=60)
        second, third = scene.sweep().line
        assert (second.fire.key, third.fire.key) == (scene.key(2), scene.key(3))
        assert (second.until, third.limits) == (None, (GPU,))
        assert near(third.since, committed + timedelta(seconds=2))
        assert near(third.until, committed + timedelta(seconds=60))

    def test_the_history_says_what_it_waited_for(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        since = scene.now()
        self.run(scene, 1)
        record = scene.record(2)
        assert (record.waited_for, record.held_by) == ("group:gpu", scene.record(1).fire_id)
        assert (near(record.waited_from, since), record.waited_until) == (True, None)
        scene.pass_time(5)
        scene.finish(1)
        record = scene.record(2)
        assert (record.waited_for, record.held_by) == ("group:gpu", scene.record(1).fire_id)
        assert near(record.waited_from, since)
        assert near(record.waited_until, since + timedelta(seconds=5))
        scene.pass_time(1)
        self.run(scene, 2)
        scene.finish(2, "t2")
        assert near(scene.record(2).waited_until, since + timedelta(seconds=5))
        record = scene.record(1)
        assert (record.waited_for, record.waited_from, record.waited_until, record.held_by) == ("", None, None, "")

    # --- wait deadline ---

    @pytest.mark.parametrize(
        ("limit", "words"),
        [(GPU, "group gpu"), (Limit(SLOTS), "slots"), (Limit("schedule:a"), "schedule")],
        ids=["group", "slots", "schedule"],
    )
    def test_over_its_deadline_a_wait_is_an_error(self, scene: Scene, limit: Limit, words: str) -> None:
        self.ask(scene, 1, limit)
        self.ask(scene, 2, limit, wait=30)
        scene.confirm(scene.hold(1))
        scene.pass_time(29)
        assert scene.c.reap() == []
        scene.pass_time(2)
        (reaped,) = scene.c.reap()
        reason = f"{EXPIRED_WAITING} {words}"
        assert reason == f"expired waiting for {words}"
        assert (reaped.fire.status, reaped.fire.reason, reaped.again) == (Status.ERROR, reason, False)
        record = scene.record(2)
        assert (record.status, record.reason, record.started_at, record.sent_at) == (Status.ERROR, reason, None, None)
        assert near(record.waited_until, scene.now())
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.last_error) == (1, "error", reason)
        assert scene.sweep().line == ()
        assert scene.c.reap() == []

    def test_it_was_never_sent(self, scene: Scene) -> None:
        """``max_fires`` gets it back."""
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU, wait=5)
        scene.pass_time(6)
        assert len(scene.c.reap()) == 1
        assert (scene.state().auto_count, scene.state().run_count) == (8, 0)

    def test_the_deadline_counts_from_the_commit(self, scene: Scene) -> None:
        scene.pass_time(20)
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU, wait=30)
        scene.pass_time(11)
        assert [reaped.fire.key for reaped in scene.c.reap()] == [scene.key(2)]

    def test_a_recovered_fire_has_its_whole_wait_again(self, scene: Scene) -> None:
        """However long it ran before."""
        scene.commit(10, mark=9, recover=True)
        assert self.ask(scene, 10, GPU, wait=30).grant is GRANTED
        assert self.ask(scene, 2, GPU).grant is WAITING
        self.run(scene, 10)
        scene.keep(31, Lease(scene.key(10), "t10"))
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        assert (reaped.again, reaped.named) == (True, (scene.key(2),))
        assert self.ask(scene, 10, GPU, tries=reaped.fire.tries, wait=30).grant is WAITING
        scene.pass_time(29)
        assert scene.c.reap() == []
        scene.pass_time(2)
        assert [late.fire.reason for late in scene.c.reap()] == [f"{EXPIRED_WAITING} group gpu"]

    def test_without_a_deadline_it_waits(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        scene.backend.advance(TIMING.claim_ttl * 2)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []
        assert scene.status(2) is Status.WAITING

    def test_what_was_granted_waits_no_more(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU, wait=5)
        self.ask(scene, 2, GPU, wait=5)
        self.run(scene, 1)
        scene.finish(1)
        scene.pass_time(6)
        assert scene.c.reap() == []

    def test_a_wait_is_not_judged_after_a_silence(self, scene: Scene) -> None:
        """Its deadline runs on all the same."""
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU, wait=10)
        scene.backend.advance(20)
        assert scene.c.reap() == []
        scene.pass_time(TIMING.lease + 1)
        assert [reaped.fire.key for reaped in scene.c.reap()] == [scene.key(2)]

    def test_its_end_releases_and_names(self, scene: Scene) -> None:
        """What it held in the first step, and those that it stood before."""
        self.ask(scene, 1, DISK)
        self.ask(scene, 2, KIND, GPU, DISK, wait=5)
        assert self.ask(scene, 3, GPU).grant is WAITING
        scene.pass_time(6)
        (reaped,) = scene.c.reap(holding=True)
        assert reaped.named == (scene.key(3),)
        assert scene.status(3) is Status.PENDING
        assert self.ask(scene, 4, KIND).grant is GRANTED

    def test_the_dead_release_before_the_line_is_judged(self, scene: Scene) -> None:
        """The order of the reaper: what a lapsed lease releases is named before the line is judged."""
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, GPU, wait=TIMING.lease)
        self.run(scene, 1)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        assert (reaped.fire.key, reaped.named) == (scene.key(1), (scene.key(2),))
        assert scene.status(2) is Status.PENDING

    # --- loss of memory ---

    def test_a_wait_survives_a_loss_of_memory(self, scene: Scene, backend: Backend) -> None:
        self.grants(scene, [(1, (GPU,))])
        self.ask(scene, 2, GPU, wait=60)
        mirror = scene.sweep()
        scene.pass_time(3)
        backend.flush()
        scene.c.remember(Memory(line=mirror.line))
        (again,) = scene.sweep().line
        assert (again.fire.key, again.limits) == (scene.key(2), (GPU,))
        assert near(again.since, mirror.line[0].since or scene.base)
        assert near(again.until, mirror.line[0].until or scene.base)

    # --- recovery ---

    def test_recovered_it_asks_for_its_limits_again(self, scene: Scene) -> None:
        """It has released them, and the next in line has them; behind those it waits by its due time."""
        scene.commit(10, mark=9, recover=True)
        self.grants(scene, [(10, (GPU,)), (1, (GPU,)), (2, (GPU,))])
        self.run(scene, 10)
        scene.pass_time(TIMING.lease + 1)
        (reaped,) = scene.c.reap()
        assert (reaped.again, reaped.fire.status, reaped.named) == (True, Status.PENDING, (scene.key(1),))
        (hold,) = [hold for hold in scene.sweep("b2").due if hold.key == scene.key(10)]
        fire = scene.c.take([hold], "b2")[0]
        assert fire is not None
        assert self.ask(scene, 10, GPU, owner="b2", tries=fire.tries).grant is WAITING
        assert [waiting.fire.key for waiting in scene.sweep().line] == [scene.key(2), scene.key(10)]
