"""Looking at limits, and freeing what blocks them."""

from __future__ import annotations

from datetime import timedelta

from celery_parrot.model.fire import Status
from celery_parrot.protocols import FinishVerdict, Lease, Limit, Reaped, StartVerdict
from celery_parrot.testing.conformance.limiting import DISK, GPU, KIND, SLOT2, Limiting
from celery_parrot.testing.conformance.scene import TIMING, Scene, near

BY_HAND = "freed by anna"


class Inspecting(Limiting):
    """See :meth:`~celery_parrot.protocols.Limits.limits` and :meth:`~celery_parrot.protocols.Limits.free`."""

    # --- limits ---

    def test_nothing_is_held(self, scene: Scene) -> None:
        assert list(self.limits(scene).limits()) == []

    def test_holders_and_the_line(self, scene: Scene) -> None:
        """By name; holders oldest first, the line in its order."""
        since = scene.now()
        self.ask(scene, 4, SLOT2)
        scene.pass_time(2)
        self.ask(scene, 1, GPU, SLOT2)
        self.grants(scene, [(3, (GPU,)), (2, (KIND, GPU))])
        found = list(self.limits(scene).limits())
        assert [(state.name, state.capacity) for state in found] == [("group:gpu", 1), ("kind:agent", 1), ("slots", 2)]
        gpu, kind, slots = found
        assert [holder.fire.key for holder in slots.holders] == [scene.key(4), scene.key(1)]
        assert near(slots.holders[0].since, since)
        assert near(slots.holders[1].since, since + timedelta(seconds=2))
        assert [holder.fire for holder in gpu.holders] == [scene.fire(1)]
        assert [waiting.fire.key for waiting in gpu.waiting] == [scene.key(2), scene.key(3)]
        assert gpu.waiting == scene.sweep().line
        assert ([holder.fire.key for holder in kind.holders], kind.waiting) == ([scene.key(2)], ())

    def test_since_when_it_holds_what_it_waited_for(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (KIND, GPU))])
        asked = scene.now()
        scene.pass_time(3)
        self.run(scene, 1)
        scene.finish(1)
        seen = self.seen(scene)
        assert near(seen["kind:agent"].holders[0].since, asked)
        assert near(seen["group:gpu"].holders[0].since, asked + timedelta(seconds=3))

    def test_a_limit_is_gone_with_its_last_fire(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.run(scene, 1)
        assert list(self.seen(scene)) == ["group:gpu"]
        scene.finish(1)
        assert list(self.limits(scene).limits()) == []

    def test_the_capacity_is_the_latest_that_was_said(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.ask(scene, 2, Limit("group:gpu", 3))
        assert self.seen(scene)["group:gpu"].capacity == 3

    def test_a_limit_that_is_waited_for_and_not_held(self, scene: Scene) -> None:
        self.grants(scene, [(1, (DISK,)), (2, (GPU, DISK))])
        gpu = self.seen(scene)["group:gpu"]
        assert (gpu.holders, [waiting.fire.key for waiting in gpu.waiting]) == ((), [scene.key(2)])

    # --- free ---

    def free(self, scene: Scene, *fires: int) -> list[Reaped | None]:
        return list(self.limits(scene).free([scene.key(n) for n in fires], BY_HAND))

    def test_a_running_fire_is_freed(self, scene: Scene) -> None:
        self.grants(scene, [(1, (GPU,)), (2, (GPU,))])
        self.run(scene, 1)
        (freed,) = self.free(scene, 1)
        assert freed is not None
        assert (freed.fire.status, freed.fire.reason, freed.again) == (Status.ABANDONED, BY_HAND, False)
        assert freed.named == (scene.key(2),)
        assert scene.status(2) is Status.PENDING
        assert (scene.record(1).status, scene.record(1).reason) == (Status.ABANDONED, BY_HAND)
        assert scene.c.renew_leases([Lease(scene.key(1), "t1")]) == [False]
        assert scene.finish(1, "t1").verdict is FinishVerdict.LATE
        assert self.free(scene, 1) == [None]

    def test_it_does_not_count(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.run(scene, 1)
        self.free(scene, 1)
        state = scene.state()
        assert (state.consecutive_failures, state.last_status, state.last_error) == (0, "error", BY_HAND)

    def test_from_any_state_on_the_way(self, scene: Scene) -> None:
        self.grants(scene, [(n, (GPU,)) for n in (1, 2)])
        scene.confirm(scene.hold(1), scene.hold(3))
        first, second, third, fourth = self.free(scene, 2, 1, 3, 4)
        for freed in (first, second, third, fourth):
            assert freed is not None
            assert freed.fire.status is Status.ABANDONED
            assert freed.named == ()
        assert [scene.status(n) for n in (1, 2, 3, 4)] == [Status.ABANDONED] * 4
        assert list(self.limits(scene).limits()) == []
        assert scene.key(4) not in {fire.key for fire in scene.sweep().entries}
        assert scene.c.confirm([scene.hold(4)]) == [False]
        assert scene.start(1).verdict is StartVerdict.DUPLICATE

    def test_what_was_never_sent_is_given_back_to_max_fires(self, scene: Scene) -> None:
        scene.confirm(scene.hold(1))
        self.free(scene, 1, 2)
        assert (scene.state().auto_count, scene.state().run_count) == (8, 1)

    def test_what_ended_or_never_was_is_not_freed(self, scene: Scene) -> None:
        self.ask(scene, 1, GPU)
        self.run(scene, 1)
        scene.finish(1)
        assert self.free(scene, 1, 11) == [None, None]
        assert scene.status(1) is Status.SUCCESS

    def test_it_is_not_recovered(self, scene: Scene) -> None:
        scene.commit(10, mark=9, recover=True)
        self.ask(scene, 10, GPU)
        self.run(scene, 10)
        (freed,) = self.free(scene, 10)
        assert freed is not None
        assert (freed.again, freed.fire.status) == (False, Status.ABANDONED)
        scene.pass_time(TIMING.lease + 1)
        assert scene.c.reap() == []
