"""One beat's tick: when it sleeps, what it survives, what it says."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.model import events
from celery_parrot.model.fire import Status
from celery_parrot.model.schedule import Kind
from celery_parrot.stores.memory import CodeStore, Definition
from celery_parrot.testing import FakeClock, ManualBeat, RecordingEvents
from tests.simulation.rig import NAMESPACE, Died, Rig, broker, die, every, sent, told, wire_of


@pytest.fixture
def rig() -> Rig:
    return Rig()


# --- sleep ------------------------------------------------------------------------------------------------------------


def test_it_sleeps_until_the_next_due_time(rig: Rig) -> None:
    """0.3 s before it, 0.3 s."""
    beat = rig.beat("B1", every(60))
    beat.tick()
    rig.clock.advance(59.7)
    beat.tick()
    assert beat.tick() == pytest.approx(0.3, abs=0.001)


def test_it_sleeps_a_sync_interval_at_most(rig: Rig) -> None:
    """The outbox is looked at once a second, whatever is due."""
    beat = rig.beat("B1", every(3600))
    assert beat.tick() == pytest.approx(1.0)
    assert rig.beat("B2").tick() == pytest.approx(1.0)


def test_a_full_batch_means_no_sleep(rig: Rig) -> None:
    """There may be more due: at once again, until there is not."""
    store = CodeStore([every(60, f"s{n}") for n in range(5)])
    client = rig.coordinator.client()
    beat = ManualBeat(client, [store], clock=rig.clock, namespace=NAMESPACE, settings=TickSettings(batch=2))
    beat.tick()
    rig.clock.advance(60)
    assert [beat.tick() for _ in range(2)] == [0.0, 0.0]
    assert beat.tick() > 0.0
    assert len(beat.sent) == 5


def test_a_rush_waits_for_a_broker_once_a_tick(rig: Rig) -> None:
    """Each wait may take seconds; the sweep, by which others see that this beat lives, is next."""
    beat = rig.beat("B1", *(every(60, f"s{n}") for n in range(100)))
    beat.tick()
    broker(beat, down="down")
    rig.clock.advance(60)
    assert beat.tick() == 0.0
    assert 0 < beat.ticker.health().pending < 100
    broker(beat)
    beat.run(15)
    assert len(beat.sent) == 100


def test_what_is_due_but_nobody_may_commit_is_no_reason_to_spin(rig: Rig) -> None:
    """In quiet times, and where a commit found a mark unchanged: a pause, never zero."""
    beat = rig.beat("B1", every(60))
    beat.tick()
    rig.coordinator.flush()
    rig.clock.advance(60)
    pauses = [beat.tick()]
    for _ in range(20):
        rig.clock.advance(max(pauses[-1], 0.001))
        pauses.append(beat.tick())
    assert min(pauses[2:]) >= 0.05
    assert beat.ticker.health().status in ("quiet", "ok")


@pytest.mark.parametrize("died", [True, False])
def test_entries_of_others_cost_one_sweep_a_second(rig: Rig, died: bool) -> None:
    """Whether their owner lives, or died and may not be judged yet, or they are of a schedule nobody here knows."""
    owner = rig.beat("B1", every(60))
    owner.tick()
    rig.clock.advance(60)
    if died:
        wire_of(owner).after("commit", die)
        with pytest.raises(Died):
            owner.tick()
    else:
        broker(owner, down="down")
        owner.tick()
    stranger = rig.beat("B2", every(60, "other"))
    stranger.run(30)
    assert wire_of(stranger).calls.count("sweep") <= 36


def test_a_dead_beats_fire_is_looked_for_when_its_heartbeat_lapses(rig: Rig) -> None:
    """3 s after its last sign of life, not a whole sweep later."""
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    first.tick(), second.tick()
    rig.keep_touched(59.9)
    second.tick()
    rig.clock.advance(0.1)
    wire_of(first).after("commit", die)
    with pytest.raises(Died):
        first.tick()
    second.run(3.1)
    assert sent(second) == [rig.key(60)]


def test_a_woken_beat_looks_at_the_outbox_at_once(rig: Rig) -> None:
    """A worker's release named a fire, or somebody ran one now."""
    beat = rig.beat("B1", every(3600))
    beat.tick()
    rig.clock.advance(0.2)
    before = wire_of(beat).calls.count("sweep")
    beat.tick()
    assert wire_of(beat).calls.count("sweep") == before
    beat.ticker.woken()
    beat.tick()
    assert wire_of(beat).calls.count("sweep") == before + 1


# --- outages ----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_while_the_coordinator_is_out_and_all_of_it_after(rig: Rig) -> None:
    """Due times stay due; the loop lives; ``lock_unavailable`` is seen meanwhile."""
    beat = rig.beat("B1", every(5))
    beat.tick()
    wire_of(beat).out = True
    beat.run(12)
    assert sent(beat) == []
    health = beat.ticker.health()
    assert (health.status, health.reason) == ("lock_unavailable", "out")
    assert len(told(beat, events.LOCK_UNAVAILABLE)) == 2
    wire_of(beat).out = False
    beat.run(1)
    assert sent(beat) == [rig.key(5), rig.key(10)]
    assert beat.ticker.health().status == "ok"
    assert len(told(beat, events.COORDINATOR_BACK)) == 1


@pytest.mark.parametrize("call", ["attach", "sweep", "register", "commit", "confirm", "take", "reap", "leave"])
@pytest.mark.parametrize("carried_out", [True, False])
def test_an_unreachable_coordinator_at_any_call_never_ends_the_loop(rig: Rig, call: str, carried_out: bool) -> None:
    """And every due time is sent once."""
    beat = rig.beat("B1", every(5))
    (wire_of(beat).lose_reply if carried_out else wire_of(beat).refuse)(call)
    beat.run(21)
    beat.close()
    assert sent(beat) == [rig.key(5 * n) for n in range(1, 5)]


def test_a_beat_that_starts_during_an_outage_starts_when_it_is_over(rig: Rig) -> None:
    """It asks for marks when it can; until then nothing is due."""
    beat = rig.beat("B1", every(5))
    wire_of(beat).out = True
    beat.run(12)
    assert beat.ticker.health().status == "lock_unavailable"
    wire_of(beat).out = False
    beat.run(6)
    assert sent(beat) == [rig.key(15)]


def test_a_failing_store_is_said_and_the_others_go_on(rig: Rig) -> None:
    """One store's fault is not the beat's."""

    class Broken(CodeStore):
        name = "broken"

        def due(self, *args: Any) -> Any:
            raise OSError("disk")

    client = rig.coordinator.client()
    stores = [Broken([every(5, "x")]), CodeStore([every(5)])]
    beat = ManualBeat(client, stores, clock=rig.clock, namespace=NAMESPACE)
    beat.run(11)
    assert [message.task for message in beat.sent] == ["tasks.work"] * 2
    assert len(told(beat, events.STORE_FAILED)) >= 1


# --- memory loss ------------------------------------------------------------------------------------------------------


def test_after_a_loss_of_memory_marks_and_outbox_are_put_back(rig: Rig) -> None:
    """Nothing for one lease time, then the fire that waited, then what came due: none lost, none twice."""
    beat = rig.beat("B1", every(10, misfire_grace=None), every(10, "c", missed="catch_up"))
    beat.run(10)
    broker(beat, down="down")
    beat.run(10)
    rig.coordinator.flush()
    broker(beat)
    beat.run(14)
    assert len(sent(beat)) == 2
    assert beat.ticker.health().status == "quiet"
    beat.run(16)
    assert [key for key in sorted(sent(beat)) if key.schedule_id == "c"] == [rig.key(10 * n, "c") for n in range(1, 6)]
    assert len(told(beat, events.MEMORY_LOST)) == 1
    assert "may repeat or lose its outcome" in told(beat, events.MEMORY_LOST)[0]


def test_memory_lost_again_in_the_quiet_time_loses_nothing(rig: Rig) -> None:
    """The mirror follows what is in the outbox, also while nothing may be taken from it."""
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    broker(first, down="down")
    first.tick(), second.tick()
    rig.keep_touched(60)
    first.tick()
    rig.coordinator.flush()
    first.run(0.9)
    first.run(0.2)
    second.run(2)
    rig.coordinator.flush()
    second.run(40)
    assert sent(second) == [rig.key(60)]


def test_a_coordinator_that_restarts_empty_after_an_outage_gets_all_back(rig: Rig) -> None:
    """Every beat's memory is as old as the outage: the fire that waited is put back, and sent once."""
    beats = [rig.beat("B1", every(600)), rig.beat("B2", every(600))]
    for beat in beats:
        broker(beat, down="down")
        beat.tick()
    rig.keep_touched(600, *beats)
    for beat in beats:
        beat.tick()
        wire_of(beat).out = True
    for _ in range(12):
        for beat in beats:
            beat.run(1)
    rig.coordinator.flush()
    for beat in beats:
        broker(beat)
        wire_of(beat).out = False
    for _ in range(60):
        for beat in beats:
            beat.run(0.5)
    assert sent(*beats) == [rig.key(600)]


def test_a_stale_mirror_is_not_sent_again(rig: Rig) -> None:
    """A beat that was cut off while the other sent its fires, and that comes back after a loss of memory."""
    first, second = rig.beat("B1", every(60)), rig.beat("B2", every(60))
    broker(first, down="down")
    first.tick(), second.tick()
    rig.keep_touched(60)
    first.tick()
    first.run(1)
    second.run(10)
    assert sent(second) == [rig.key(60)]
    rig.coordinator.flush()
    broker(first)
    first.tick()
    second.tick()
    for _ in range(60):
        first.run(0.5)
        second.run(0.5)
    assert [key for key in sent(first, second) if key == rig.key(60)] == [rig.key(60)]


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [30.0, -30.0])
def test_a_beat_whose_clock_is_wrong_fires_on_time_and_says_so(rig: Rig, offset: float) -> None:
    """Due times follow the coordinator's clock; over ``parrot_max_clock_skew`` the warning is loud."""
    beat = rig.beat("B1", every(10), offset=offset)
    beat.tick()
    beat.run(9.9)
    assert sent(beat) == []
    beat.run(0.2)
    assert sent(beat) == [rig.key(10)]
    assert "mend this clock" in told(beat, events.CLOCK_SKEW)[0]


def test_a_step_of_the_coordinators_clock_pauses_commits_until_two_readings_agree(rig: Rig) -> None:
    """An hour ahead by mistake for one reading: nothing is fired for it."""
    steps = [0.0]

    class Stepping:
        def now(self) -> datetime:
            return FakeClock(rig.clock.now(), offset=steps[0]).now()

    rig.coordinator.server.clock = Stepping()
    beat = rig.beat("B1", every(600, missed="skip"))
    beat.run(3)
    steps[0] = 3600.0
    pause = beat.tick()
    rig.clock.advance(pause)
    wire_of(beat).calls.clear()
    beat.tick()
    assert "commit" not in wire_of(beat).calls
    steps[0] = 0.0
    beat.run(5)
    assert beat.ticker.health().status == "ok"
    assert rig.coordinator.fires("s") == []
    assert len(told(beat, events.CLOCK_STEP)) == 1


# --- kinds ------------------------------------------------------------------------------------------------------------


def _agent(every_: float, name: str) -> Definition:
    made = every(every_, name)
    schedule = type(made.schedule)(**{**_fields(made.schedule), "kind": "agent"})
    return Definition(schedule=schedule, trigger=made.trigger, when=made.when)


def _fields(schedule: Any) -> dict[str, Any]:
    return {name: getattr(schedule, name) for name in type(schedule).__dataclass_fields__}


def test_an_unrouted_kind_is_reported_once_a_minute_and_never_claimed(rig: Rig) -> None:
    """Its due times are kept until it is routed."""
    beat = rig.beat("B1", _agent(30, "a"), every(30))
    beat.run(185)
    assert {key.schedule_id for key in sent(beat)} == {"s"}
    said = told(beat, events.FIRE_UNROUTED)
    assert len(said) == 3
    assert said[0] == "a is due but no route for kind 'agent' is declared in parrot_kinds"
    assert rig.coordinator.fires("a") == []


def test_once_routed_its_due_times_are_decided(rig: Rig) -> None:
    """By the beat that has the route, under the policy."""
    rig.beat("B1", _agent(30, "a")).run(95)
    store = CodeStore([_agent(30, "a")])
    kinds = {"agent": Kind(name="agent", task="agents.run")}
    beat = ManualBeat(rig.coordinator.client(), [store], clock=rig.clock, namespace=NAMESPACE, kinds=kinds)
    beat.tick()
    assert [(message.task, message.args) for message in beat.sent] == [("agents.run", ("tasks.work",))]
    fired, missed = rig.coordinator.fires("a")
    assert (fired.status, missed.status, missed.count) == (Status.SENT, Status.MISSED, 2)


# --- health and close -------------------------------------------------------------------------------------------------


def test_health_tells_who_else_lives_and_what_waits(rig: Rig) -> None:
    """Without asking anybody; ``starting`` before the first tick."""
    first, second = rig.beat("B1", every(5)), rig.beat("B2", every(5))
    assert first.ticker.health().status == "starting"
    first.tick(), second.tick()
    broker(first, down="down")
    first.run(6)
    health = first.ticker.health()
    assert (health.beats, health.pending, health.status) == (1, 1, "broker_unavailable")
    assert health.now == rig.clock.now()
    second.tick()
    first.run(1)
    assert first.ticker.health().beats == 2


def test_closing_without_a_coordinator_is_quiet(rig: Rig) -> None:
    """Out of reach, or never reached: the others find out by the heartbeat."""
    never, out = rig.beat("B1"), rig.beat("B2")
    never.close()
    out.tick()
    wire_of(out).out = True
    out.close()
    assert isinstance(out.events, RecordingEvents)


def test_a_tick_that_does_not_end_is_stalled(rig: Rig) -> None:
    """For as long as others take the beat for dead, and not a moment longer: seen from another thread meanwhile."""
    beat = rig.beat("B1", every(5))
    beat.tick()
    seen: list[str] = []

    def slowly() -> None:
        for _ in range(2):
            seen.append(beat.ticker.health().status)
            rig.clock.advance(2)
        seen.append(beat.ticker.health().status)

    wire_of(beat).before("sweep", slowly)
    beat.run(2)
    assert seen == ["ok", "ok", "stalled"]
    assert beat.ticker.health().status != "stalled"
