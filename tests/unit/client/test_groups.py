"""Who holds what, and how a person ends that."""

from __future__ import annotations

import pytest

from celery_parrot import ParrotError
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.groups import Groups
from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.protocols import Hold, Limit, LimitRequest, StartVerdict
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance.scene import Scene
from tests.conformance.test_memory_coordinator import MemoryBackend

GPU = Limit("group:gpu")
PAIR = Limit("group:pair", 2)


@pytest.fixture
def scene() -> Scene:
    backend = MemoryBackend()
    coordinator = backend.client()
    assert isinstance(coordinator, MemoryCoordinator)
    scene = Scene(coordinator, backend)
    scene.register()
    scene.commit(*range(1, 6))
    return scene


@pytest.fixture
def groups(scene: Scene) -> Groups:
    return Coordination(coordinator=scene.c, namespace=Namespace("conformance"), clock=FakeClock()).groups


def ask(scene: Scene, n: int, *limits: Limit) -> None:
    assert isinstance(scene.c, MemoryCoordinator)
    scene.c.request([LimitRequest(hold=scene.hold(n), limits=limits)])


def run(scene: Scene, n: int) -> None:
    scene.confirm(Hold(scene.key(n), "b1", 0))
    assert scene.start(n, f"t{n}").verdict is StartVerdict.RUN


def test_a_group_shows_its_holder_and_the_line_behind_it(scene: Scene, groups: Groups) -> None:
    """By its own name, first come first."""
    for n in (1, 2, 3):
        ask(scene, n, GPU)
    (group,) = groups.all()
    assert (group.name, group.limit, group.capacity) == ("gpu", "group:gpu", 1)
    assert [(one.due_at, one.state) for one in group.holders] == [(scene.due(1), "waiting to be sent")]
    assert [(one.due_at, one.state) for one in group.waiting] == [(scene.due(n), "waiting") for n in (2, 3)]
    scene.confirm(Hold(scene.key(1), "b1", 0))
    assert [one.state for one in groups.all()[0].holders] == ["queued"]
    assert scene.start(1, "t1").verdict is StartVerdict.RUN
    (held,) = groups.all()[0].holders
    assert (held.state, held.worker, held.fire_id) == ("running", "w1", scene.record(1).fire_id)
    assert held.since is not None
    assert scene.start(1, "t2", retries=1).verdict is StartVerdict.RUN
    (held,) = groups.all()[0].holders
    assert (held.attempt, held.task_id) == (2, held.fire_id), "a retry keeps the task that was sent"


def test_nobody_holds_anything(groups: Groups) -> None:
    assert groups.all() == ()


def test_a_person_ends_the_holder_and_the_next_goes_on(scene: Scene, groups: Groups) -> None:
    """As abandoned, with the person's name; the worker that runs it is told that its lease is gone."""
    for n in (1, 2):
        ask(scene, n, GPU)
    run(scene, 1)
    ended = groups.release("gpu", None, "released by ann")
    assert ended.due_at == scene.due(1)
    record = scene.record(1)
    assert (record.status, record.reason) == (Status.ABANDONED, "released by ann")
    assert [one.due_at for one in groups.all()[0].holders] == [scene.due(2)]
    assert scene.state().consecutive_failures == 0


def test_of_several_holders_one_must_be_named(scene: Scene, groups: Groups) -> None:
    """Ending the wrong one would be worse than asking."""
    for n in (1, 2, 3):
        ask(scene, n, PAIR)
    with pytest.raises(ParrotError, match="2 fires hold 'pair'; say which"):
        groups.release("pair", None, "x")
    with pytest.raises(ParrotError, match="does not hold 'pair'"):
        groups.release("pair", scene.record(3).fire_id, "x")
    assert groups.release("group:pair", scene.record(2).fire_id, "x").due_at == scene.due(2)
    assert [one.due_at for one in groups.all()[0].holders] == [scene.due(1), scene.due(3)]


def test_a_group_that_nobody_holds_is_answered_with_the_closest(scene: Scene, groups: Groups) -> None:
    ask(scene, 1, GPU)
    with pytest.raises(ParrotError, match="nobody holds or waits for 'gpo'; did you mean 'gpu'"):
        groups.release("gpo", None, "x")
