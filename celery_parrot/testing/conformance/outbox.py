"""The outbox: renew, confirm, drop, sweep, take, leave."""

from __future__ import annotations

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.protocols import Coordinator, Drop, Hold
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import TIMING, Scene, near


class Outbox(Conformance):
    # --- compare and set ---

    @pytest.mark.parametrize(("owner", "tries"), [("b2", 0), ("b1", 1)])
    def test_the_hold_must_match(self, scene: Scene, owner: str, tries: int) -> None:
        scene.pending()
        wrong = scene.hold(1, owner, tries)
        assert scene.c.renew([wrong]) == [False]
        assert scene.c.confirm([wrong]) == [False]
        assert scene.c.drop([Drop(hold=wrong, status=Status.MISSED, reason="too_late")]) == [False]
        assert scene.c.take([wrong], "b3") == [None]
        assert scene.status() is Status.PENDING

    def test_unknown_claims_answer_false(self, scene: Scene) -> None:
        hold = scene.hold(1)
        assert scene.c.renew([hold]) == [False]
        assert scene.c.confirm([hold]) == [False]
        assert scene.c.drop([Drop(hold=hold, status=Status.MISSED, reason="too_late")]) == [False]
        assert scene.c.take([hold], "b1") == [None]

    def test_confirm(self, scene: Scene) -> None:
        hold = scene.pending()
        scene.pass_time(1)
        now = scene.c.attach().now
        assert scene.c.confirm([hold, scene.hold(2)]) == [True, False]
        assert scene.status() is Status.SENT
        assert scene.sweep().entries == ()
        assert (scene.state().run_count, near(scene.state().last_run, now)) == (1, True)
        record = scene.record()
        assert (record.status, record.beat, near(record.sent_at, now)) == (Status.SENT, "b1", True)
        assert record.fire_id
        assert scene.c.confirm([hold]) == [False]
        assert scene.c.renew([hold]) == [False]
        assert scene.state().run_count == 1

    def test_drop(self, scene: Scene) -> None:
        hold = scene.pending()
        assert scene.c.drop([Drop(hold=hold, status=Status.SKIPPED, reason="paused")]) == [True]
        assert scene.sweep().entries == ()
        record = scene.record()
        assert (record.status, record.reason, record.finished_at is not None) == (Status.SKIPPED, "paused", True)
        state = scene.state()
        assert (state.run_count, state.last_status, state.consecutive_failures) == (0, None, 0)
        assert scene.c.drop([Drop(hold=hold, status=Status.SKIPPED, reason="paused")]) == [False]

    def test_dropping_what_can_never_be_sent_is_a_failure(self, scene: Scene) -> None:
        scene.c.drop([Drop(hold=scene.pending(), status=Status.ERROR, reason="EncodeError: no")])
        state = scene.state()
        assert (state.last_status, state.last_error, state.consecutive_failures) == ("error", "EncodeError: no", 1)

    # --- sweep ---

    def test_sweep_shows_the_whole_outbox_oldest_first_by_pages(self, scene: Scene) -> None:
        scene.register("a")
        scene.register("b")
        scene.commit(1, schedule_id="b")
        scene.pass_time(1)
        scene.commit(1, 2, 3, schedule_id="a")
        expected = [scene.key(1, "b"), scene.key(1), scene.key(2), scene.key(3)]
        assert [f.key for f in scene.sweep("b2").entries] == expected
        page = scene.c.sweep(scene.beat("b2"), offset=1, limit=2)
        assert [f.key for f in page.entries] == expected[1:3]
        assert {h.key for h in page.due} <= set(expected[1:3])

    def test_sweep_is_a_heartbeat(self, scene: Scene, other: Coordinator) -> None:
        reply = scene.sweep("b1")
        assert [b.owner for b in reply.beats] == ["b1"]
        assert near(reply.beats[0].seen, reply.reading.now)
        beat = reply.beats[0]
        assert (beat.skew, beat.claims, beat.host, beat.started) == (0.25, 1.5, "host", scene.base)
        assert [b.owner for b in scene.sweep("b2", other).beats] == ["b1", "b2"]
        assert [b.owner for b in other.beats()] == ["b1", "b2"]

    def test_beats_are_forgotten_after_an_hour(self, scene: Scene) -> None:
        scene.sweep("b1")
        scene.backend.advance(3590)
        assert [b.owner for b in scene.sweep("b2").beats] == ["b1", "b2"]
        scene.backend.advance(20)
        assert [b.owner for b in scene.sweep("b2").beats] == ["b2"]
        assert [b.owner for b in scene.c.beats()] == ["b2"]

    # --- who may take ---

    def _both_alive(self, scene: Scene, seconds: float) -> None:
        for _ in range(round(seconds * 2)):
            scene.backend.advance(0.5)
            scene.sweep("b1")
            scene.sweep("b2")

    def test_own_fire_after_its_retry_pause(self, scene: Scene) -> None:
        hold = scene.pending()
        assert scene.sweep().due == ()
        scene.pass_time(1.1)
        assert scene.sweep().due == (hold,)
        assert scene.sweep("b2").due == ()
        fire = scene.c.take([hold], "b1")[0]
        assert fire is not None
        assert (fire.tries, fire.owner) == (1, "b1")
        again = Hold(hold.key, "b1", 1)
        scene.pass_time(1.1)
        assert scene.sweep().due == ()  # the second pause is twice as long
        scene.pass_time(1)
        assert scene.sweep().due == (again,)

    def test_retry_pause_is_capped(self, scene: Scene) -> None:
        hold = scene.pending()
        for tries in range(5):
            scene.pass_time(TIMING.retry_cap + 0.1)
            assert scene.c.take([Hold(hold.key, "b1", tries)], "b1") != [None]

    def test_a_living_beats_fire_at_takeover_age(self, scene: Scene) -> None:
        hold = scene.pending()
        self._both_alive(scene, TIMING.takeover_after - 0.5)
        assert scene.sweep("b2").due == ()
        assert scene.c.take([hold], "b2") == [None]
        self._both_alive(scene, 1)
        assert scene.sweep("b2").due == (hold,)

    def test_renew_makes_young(self, scene: Scene) -> None:
        hold = scene.pending()
        self._both_alive(scene, 9)
        assert scene.c.renew([hold]) == [True]
        self._both_alive(scene, 9)
        assert scene.sweep("b2").due == ()

    def test_a_gone_beats_fire_at_once(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.pass_time(TIMING.heartbeat - 0.5)
        assert scene.sweep("b2").due == ()
        scene.pass_time(1)
        assert scene.sweep("b2").due == (hold,)
        fire = scene.c.take([hold], "b2")[0]
        assert fire is not None
        assert (fire.owner, fire.tries, fire.key) == ("b2", 1, hold.key)
        assert near(fire.owned_at, scene.c.attach().now)
        assert scene.c.take([hold], "b3") == [None]
        assert scene.c.confirm([hold]) == [False]
        assert scene.c.confirm([Hold(hold.key, "b2", 1)]) == [True]

    def test_commit_is_a_heartbeat(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.pass_time(2)
        scene.c.commit([], "b1")
        scene.pass_time(2)
        assert scene.sweep("b2").due == ()
        assert hold.key in {f.key for f in scene.sweep("b2").entries}

    def test_nobody_is_judged_after_a_silence_of_everybody(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.backend.advance(60)
        reply = scene.sweep("b2")
        assert reply.due == ()
        assert not reply.reading.judging
        assert scene.c.take([hold], "b2") == [None]
        scene.pass_time(TIMING.lease - 1)
        assert scene.sweep("b2").due == ()
        scene.pass_time(1.5)
        assert scene.sweep("b2").reading.judging
        assert scene.sweep("b2").due == (hold,)

    def test_its_own_fire_needs_no_judgement(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.backend.advance(60)
        assert scene.sweep("b1").due == (hold,)
        assert scene.c.take([hold], "b1") != [None]

    def test_a_short_silence_is_no_outage(self, scene: Scene) -> None:
        scene.c.claims([])
        scene.backend.advance(TIMING.untouched / 2 - 0.1)
        assert scene.sweep().reading.judging

    def test_an_outage_too_short_to_count_makes_nobody_look_dead(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.pass_time(0.9)
        scene.backend.advance(TIMING.untouched - 0.5)
        assert scene.sweep("b2").due == ()
        scene.sweep("b1")
        scene.pass_time(TIMING.untouched / 2)
        assert hold not in scene.sweep("b2").due

    # --- leave ---

    def test_a_beat_that_leaves_frees_its_fires(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.sweep("b1")
        scene.c.leave("b1")
        reply = scene.sweep("b2")
        assert reply.due == (hold,)
        assert [b.owner for b in reply.beats] == ["b2"]
        assert scene.c.take([hold], "b2") != [None]
        assert scene.sweep("b3").due == ()

    def test_leaving_needs_no_judgement(self, scene: Scene) -> None:
        hold = scene.pending(owner="b1")
        scene.backend.advance(60)
        scene.c.leave("b1")
        assert scene.sweep("b2").due == (hold,)
