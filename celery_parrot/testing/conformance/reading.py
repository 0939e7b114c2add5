"""History, run state, claims."""

from __future__ import annotations

from celery_parrot.model.fire import FireKey, Status
from celery_parrot.protocols import Registration
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Backend, Scene


class ReadingBack(Conformance):
    def test_history_is_newest_due_time_first(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, 2, 3)
        scene.c.confirm([scene.hold(2)])
        scene.start(1, "t1")
        scene.finish(1, "t1")
        records = scene.c.fires("a")
        assert [(r.due_at, r.status) for r in records] == [
            (scene.due(3), Status.PENDING),
            (scene.due(2), Status.SENT),
            (scene.due(1), Status.SUCCESS),
        ]

    def test_history_limit_and_before(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, 2, 3, 4)
        assert [r.due_at for r in scene.c.fires("a", limit=2)] == [scene.due(4), scene.due(3)]
        assert [r.due_at for r in scene.c.fires("a", before=scene.due(3))] == [scene.due(2), scene.due(1)]
        assert [r.due_at for r in scene.c.fires("a", limit=1, before=scene.due(3.5))] == [scene.due(3)]
        assert scene.c.fires("a", limit=0) == []
        assert scene.c.fires("b") == []

    def test_history_order_minds_fractions_of_seconds(self, scene: Scene) -> None:
        scene.register()
        steps = [1, 1.0001, 1.005, 1.01, 1.02]
        scene.commit(*steps)
        assert [r.due_at for r in scene.c.fires("a")] == [scene.due(n) for n in reversed(steps)]
        assert [r.due_at for r in scene.c.fires("a", before=scene.due(1.005))] == [scene.due(1.0001), scene.due(1)]

    def test_history_is_capped(self, scene: Scene) -> None:
        scene.register()
        for n in range(1, 60):
            scene.commit(n, mark=n - 1)
            scene.c.confirm([scene.hold(n)])
        kept = scene.c.fires("a", limit=1000)
        assert TIMING.history_limit <= len(kept) <= TIMING.history_limit * 1.5
        assert [r.due_at for r in kept] == [scene.due(59 - n) for n in range(len(kept))]

    def test_history_of_schedules_is_apart(self, scene: Scene) -> None:
        scene.pending(1, schedule_id="a")
        scene.pending(2, schedule_id="a:b")
        assert [r.key for r in scene.c.fires("a")] == [scene.key(1, "a")]
        assert [r.key for r in scene.c.fires("a:b")] == [scene.key(2, "a:b")]

    def test_odd_names_and_nonces(self, scene: Scene) -> None:
        name = 'üml "x" {y}:*?[z]\\ \n'
        hold = scene.pending(1, schedule_id=name)
        assert scene.sweep().entries[0].key == hold.key
        assert scene.c.fires(name)[0].name == name
        key = FireKey("a", scene.due(1), nonce="n:1")
        delivery = scene.delivery()
        delivery = type(delivery)(key=key, name="a", kind="task", token="t", worker="w")
        scene.c.start([delivery])
        assert [r.key for r in scene.c.fires("a")] == [key]
        fires = scene.c.claims([key, scene.key(1)])
        assert [f and f.key for f in fires] == [key, None]

    def test_run_states(self, scene: Scene) -> None:
        scene.register("a")
        scene.register("b", initial=3)
        states = scene.c.run_states(["b", "x", "a"])
        assert set(states) == {"a", "b"}
        assert states["b"].last_due == scene.due(3)
        assert (states["a"].run_count, states["a"].last_run, states["a"].last_status) == (0, None, None)

    def test_claims_answer_in_order(self, scene: Scene) -> None:
        scene.register()
        scene.commit(1, 2)
        assert [f and f.key for f in scene.c.claims([scene.key(2), scene.key(7), scene.key(1)])] == [
            scene.key(2),
            None,
            scene.key(1),
        ]

    def test_a_sent_claim_lives_longer(self, scene: Scene) -> None:
        scene.sent()
        scene.backend.advance(TIMING.claim_ttl - 60)
        assert scene.status() is Status.SENT

    def test_in_the_outbox_a_claim_does_not_age(self, scene: Scene) -> None:
        scene.pending()
        for _ in range(4):
            scene.backend.advance(TIMING.claim_ttl * 0.6)
            assert [fire.key for fire in scene.sweep("b2").entries] == [scene.key(1)]

    def test_claims_expire_a_while_after_they_ended(self, scene: Scene) -> None:
        scene.running()
        scene.finish()
        scene.backend.advance(TIMING.ended_ttl - 60)
        assert scene.status() is Status.SUCCESS
        scene.backend.advance(120)
        assert scene.status() is None
        assert scene.record().status is Status.SUCCESS

    def test_empty_batches(self, scene: Scene) -> None:
        assert scene.c.register([]) == []
        assert scene.c.commit([], "b1")[1] == []
        assert scene.c.renew([]) == []
        assert scene.c.confirm([]) == []
        assert scene.c.drop([]) == []
        assert scene.c.take([], "b1") == []
        assert scene.c.start([]) == []
        assert scene.c.renew_leases([]) == []
        assert scene.c.finish([]) == []
        assert scene.c.run_states([]) == {}
        assert scene.c.claims([]) == []

    def test_big_batches(self, scene: Scene, backend: Backend) -> None:
        names = [f"s{n}" for n in range(2500)]
        registrations = [Registration(schedule_id=name, when="w", initial=scene.due(0)) for name in names]
        assert [m.schedule_id for m in scene.c.register(registrations)] == names
        _, replies = scene.c.commit([scene.plan(1, schedule_id=name) for name in names], "b1")
        assert sum(len(reply.fires) for reply in replies) == 2500
        assert scene.c.confirm([scene.hold(1, schedule_id=name) for name in names]) == [True] * 2500
        assert len(scene.c.run_states(names)) == 2500
        deliveries = [scene.delivery(1, "t", schedule_id=name) for name in names]
        assert {reply.verdict for reply in scene.c.start(deliveries)} == {"run"}
        assert backend is not None
