"""Pausing and disabling schedules of code, whose run state is the coordinator's."""

from __future__ import annotations

from typing import Any

import pytest

from celery_parrot.model.fire import Status
from celery_parrot.model.plan import NotFired, Verdict
from celery_parrot.protocols import Memory
from celery_parrot.protocols.holding import Holding, Release
from celery_parrot.testing.conformance.base import Conformance
from celery_parrot.testing.conformance.scene import Backend, Scene, near


class HoldingScene(Scene):
    def __init__(self, coordinator: Any, backend: Backend) -> None:
        super().__init__(coordinator, backend)
        self.holding: Holding = coordinator

    def release(self, mark: float = 0, new_mark: float = 9, *skipped: NotFired) -> Verdict:
        one = Release(
            schedule_id="a",
            name="a",
            kind="task",
            expected_mark=self.due(mark),
            new_mark=self.due(new_mark),
            skipped=skipped,
        )
        return self.holding.release([one])[0]


class HoldingConformance(Conformance):
    """Everything that the docstrings of :class:`~celery_parrot.protocols.holding.Holding` say."""

    @pytest.fixture
    def scene(self, coordinator: Any, backend: Backend) -> HoldingScene:
        return HoldingScene(coordinator, backend)

    @pytest.mark.parametrize("by", ["person", "failures"])
    def test_a_hold_holds_commits(self, scene: HoldingScene, by: str, other: Any) -> None:
        """On every beat, also on one that starts later; no mark moves."""
        scene.register()
        assert list(scene.holding.hold(["a"], by, "too loud")) == [True]
        for client in (scene.c, other):
            reply = scene.commit(1, c=client)
            assert (reply.verdict, reply.held, reply.mark) == (Verdict.HELD, by, scene.due(0))
        mark = scene.register(initial=None)
        assert (mark.last_due, mark.held) == (scene.due(0), by)
        held = other.holds(["a"])["a"]
        assert (held.by, held.note, held.mark) == (by, "too loud", scene.due(0))
        assert near(held.at, scene.c.attach().now)

    def test_an_edit_of_when_does_not_resume(self, scene: HoldingScene) -> None:
        """A default in code never enables what a person paused."""
        scene.register()
        scene.holding.hold(["a"], "person", "")
        assert scene.register(when="other").held == "person"

    def test_strangers(self, scene: HoldingScene) -> None:
        """Nothing is made up for an id that nobody registered."""
        assert list(scene.holding.hold(["a"], "person", "")) == [False]
        assert scene.release() is Verdict.UNKNOWN
        assert scene.holding.holds(["a"]) == {}

    def test_a_person_comes_first(self, scene: HoldingScene) -> None:
        """What a person paused is not a failure's."""
        scene.register()
        scene.holding.hold(["a"], "failures", "three in a row")
        scene.holding.hold(["a"], "person", "mine")
        scene.holding.hold(["a"], "failures", "four in a row")
        held = scene.holding.holds(["a"])["a"]
        assert (held.by, held.note) == ("person", "mine")

    def test_release(self, scene: HoldingScene) -> None:
        """One range, the mark moved, the failures forgotten; it fires again."""
        scene.running()
        scene.finish(status=Status.ERROR)
        scene.holding.hold(["a"], "failures", "why")
        gone = NotFired(Status.SKIPPED, "paused", scene.due(2), scene.due(9), 8)
        assert scene.release(1, 9, gone) is Verdict.COMMITTED
        entry = scene.record(2)
        assert (entry.status, entry.reason, entry.count, entry.until) == (Status.SKIPPED, "paused", 8, scene.due(9))
        state = scene.state()
        assert (state.last_due, state.disabled_by, state.consecutive_failures) == (scene.due(9), None, 0)
        held = scene.holding.holds(["a"])["a"]
        assert (held.by, held.note, held.at) == (None, None, None)
        assert scene.commit(10, mark=9).verdict is Verdict.COMMITTED

    def test_release_from_another_mark(self, scene: HoldingScene) -> None:
        """What was skipped has to be worked out anew."""
        scene.register()
        scene.holding.hold(["a"], "person", "")
        assert scene.release(mark=3) is Verdict.MOVED
        assert scene.holding.holds(["a"])["a"].by == "person"
        assert scene.c.fires("a") == []

    def test_releasing_twice_moves_nothing(self, scene: HoldingScene) -> None:
        """Nor does releasing what was never held: its due times stay due."""
        scene.register()
        assert scene.release() is Verdict.COMMITTED
        assert scene.state().last_due == scene.due(0)

    def test_a_hold_survives_a_loss_of_memory(self, scene: HoldingScene, backend: Backend) -> None:
        """As far as a beat remembers it."""
        scene.register()
        scene.holding.hold(["a"], "person", "")
        mark = scene.register()
        backend.flush()
        scene.c.remember(Memory(marks=(mark,)))
        assert scene.holding.holds(["a"])["a"].by == "person"
