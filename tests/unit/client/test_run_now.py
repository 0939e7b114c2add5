"""``parrot.schedules.run_now``."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from celery_parrot import AlreadyRunning, Conflict, InvalidSchedule, ParrotError, ScheduleNotFound, Unreachable
from celery_parrot.model.fire import FireKey, Origin, Status
from celery_parrot.protocols import Delivery, Lease, Outcome
from celery_parrot.protocols.holding import Holding
from tests.simulation.rig import Wire
from tests.unit.client.conftest import World
from tests.unit.client.why_world import Night, defined


@pytest.fixture
def night() -> Night:
    return Night()


def _send(night: Night) -> None:
    night.beat.ticker.woken()
    night.beat.tick()


def _work(night: Night, asked: Any, status: Status = Status.SUCCESS) -> None:
    """A worker takes the newest message and ends it."""
    _send(night)
    header = night.beat.sent[-1].headers["parrot"]
    assert header["fire_id"] == asked.fire_id
    key = FireKey(asked.schedule_id, asked.due_at, header["nonce"])
    night.coordinator.start([
        Delivery(key=key, name=asked.name, kind="task", token="t", worker="w", origin=Origin.RUN_NOW)
    ])  # fmt: skip
    night.coordinator.finish([Outcome(lease=Lease(key, "t"), status=status)])


def test_it_runs_now(night: Night) -> None:
    """Once, due at the instant of the request, and what the schedule has to do next does not change."""
    before = night.client.next("nightly", 1)
    asked = night.client.run_now("nightly")
    assert asked.due_at == night.clock.now()
    assert (asked.name, asked.schedule_id, asked.again) == ("nightly", "nightly", False)
    _work(night, asked)
    (entry,) = night.client.fires("nightly")
    assert (entry.fire_id, entry.origin, entry.status) == (asked.fire_id, "run_now", "success")
    state = night.client.get("nightly").run_state
    assert (state.run_count, state.auto_count) == (1, 0)
    assert night.client.next("nightly", 1) == before


def test_the_second_is_told_who_has_it(night: Night) -> None:
    asked = night.client.run_now("nightly")
    with pytest.raises(AlreadyRunning, match=f"running already: fire {asked.fire_id}, asked for at 2026-03-02") as told:
        night.client.run_now("nightly")
    assert (told.value.name, told.value.held_by, told.value.since) == ("nightly", asked.fire_id, asked.due_at)
    assert isinstance(told.value, ParrotError)
    assert pickle.loads(pickle.dumps(told.value)).held_by == asked.fire_id
    _work(night, asked, Status.ERROR)
    assert night.client.run_now("nightly").fire_id != asked.fire_id


def test_an_idempotency_key(night: Night) -> None:
    """The same fire for the same key, whatever became of it; another schedule's is another."""
    asked = night.client.run_now("nightly", key="order 7")
    night.clock.advance(1)
    again = night.client.run_now("nightly", key="order 7")
    assert (again.fire_id, again.due_at, again.again) == (asked.fire_id, asked.due_at, True)
    _work(night, asked)
    assert night.client.run_now("nightly", key="order 7").fire_id == asked.fire_id
    assert night.client.run_now("nightly", key="order 8").fire_id != asked.fire_id


def test_the_answer_was_lost(night: Night) -> None:
    """It is asked once more, and it is the same fire."""
    wire = Wire(night.coordinator)
    object.__setattr__(night.client._agreed, "coordinator", _Wired(wire))
    wire.lose_reply("demand")
    asked = night.client.run_now("nightly")
    assert (asked.again, wire.calls.count("demand")) == (True, 2)
    assert len(night.client.fires("nightly")) == 1


class _Wired:
    """The wire, with the methods that make it a coordinator in a type's eyes."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.timing = wire.timing

    def attach(self) -> Any:
        return self._wire.client.attach()

    def demand(self, demands: Any) -> Any:
        return self._wire.demand(demands)


@pytest.mark.parametrize("by", ["person", "failures"])
def test_held_ones_run(night: Night, by: str) -> None:
    """Paused, and disabled by failures; they stay so."""
    holding: Holding = night.coordinator
    holding.hold(["nightly"], by, "why")
    _work(night, night.client.run_now("nightly"))
    assert night.client.get("nightly").state == ("paused" if by == "person" else "disabled")


def test_completed_ones_run() -> None:
    """And no bound on automatic fires counts it."""
    night = Night(defined("once", "interval", {"minutes": 1}, max_fires=1))
    night.until("02:59")
    assert night.client.get("once").state == "completed"
    _work(night, night.client.run_now("once"))
    assert night.client.get("once").run_state.auto_count == 1


def test_what_cannot_be_read_does_not() -> None:
    """One sentence with the reason."""
    night = Night(defined("wrong", broken="no such zone"))
    with pytest.raises(InvalidSchedule, match="definition = 'wrong': is broken: no such zone"):
        night.client.run_now("wrong")
    with pytest.raises(ScheduleNotFound):
        night.client.run_now("rong")


def test_arguments_in_place_of_the_schedules(night: Night) -> None:
    asked = night.client.run_now("nightly", args=[1, [2]], kwargs={"day": "monday"})
    _work(night, asked)
    (message,) = night.beat.sent
    assert (list(message.args), dict(message.kwargs)) == ([1, [2]], {"day": "monday"})


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"args": "text"}, "args"),
        ({"args": [object()]}, "args"),
        ({"args": [float("nan")]}, "args"),
        ({"args": ["x" * 1_000_001]}, "args"),
        ({"kwargs": [1]}, "kwargs"),
        ({"kwargs": {"a": {1, 2}}}, "kwargs"),
        ({"key": ""}, "key"),
        ({"key": "k" * 256}, "key"),
    ],
)
def test_wrong_input(night: Night, wrong: dict[str, Any], field: str) -> None:
    """The field at fault is named, and nothing is asked for."""
    with pytest.raises(InvalidSchedule) as told:
        night.client.run_now("nightly", **wrong)
    assert told.value.field == field
    assert night.client.fires("nightly") == []


def test_a_stale_version(world: World, agreed: Callable[[World], None]) -> None:
    """As any verb; without one the current definition runs."""
    agreed(world)
    world.client.create(name="a", target="t.known", schedule_type="interval", schedule_config={"hours": 1})
    with pytest.raises(Conflict):
        world.client.run_now("a", version=7)
    world.client.run_now("a", version=1)


def test_after_a_loss_of_memory(night: Night) -> None:
    """Nothing is taken before everybody has told what they know; the sentence says how long to wait."""
    night.coordinator.flush()
    night.clock.advance(1)
    night.beat.tick()
    with pytest.raises(Unreachable, match="ask again in 15 s"):
        night.client.run_now("nightly")


def test_without_a_coordinator(world: World) -> None:
    with pytest.raises(ParrotError, match="without a coordinator"):
        world.client.run_now("nightly")
