"""Traces 10, 12, 14, 16: messages that come twice, come again, or come while the coordinator is out."""

from __future__ import annotations

from collections.abc import Callable

from celery_parrot.model.fire import Status
from celery_parrot.protocols import Reading
from tests.integration.worker.world import Sent, World
from tests.support.waiting import stays, wait_until


def test_put_back_while_the_lease_lives_then_a_duplicate(world: World) -> None:
    worker = world.worker("prefork")
    fire = world.fire("gated")
    fire.until_ran()
    fire.send()
    worker.wait_for_log(f"fire {fire.id} .*put back")
    worker.wait_for_log(f"fire {fire.id} .*is a duplicate")
    fire.pass_gate()
    assert fire.until(Status.SUCCESS).attempt == 1
    assert fire.ran() == ["1"]
    assert fire.result().get(timeout=5) == "passed"


def test_killed_worker_rabbitmq_redelivers_at_once(make_world: Callable[..., World], rabbitmq_url: str) -> None:
    world = make_world(broker=rabbitmq_url)
    victim = world.worker("prefork", name="victim")
    fire = world.fire("gated_late")
    fire.until_ran()
    heir = world.worker("prefork", name="heir")
    victim.kill_group()
    heir.wait_for_log(f"fire {fire.id} .*put back", 30)
    fire.until_ran(2)
    fire.pass_gate()
    record = fire.until(Status.SUCCESS)
    assert fire.ran() == ["1", "2"]
    assert record.attempt == 2
    assert record.worker.startswith("heir@")


def test_coordinator_out_during_start_holds_back(world: World) -> None:
    worker = world.worker("prefork")
    world.network.cut()
    fire = world.fire("note")
    worker.wait_for_log(f"fire {fire.id} .*cannot be opened")
    assert fire.ran() == []
    world.network.restore()
    assert fire.until(Status.SUCCESS).attempt == 1
    assert fire.ran() == ["1"]


def test_duplicate_of_an_ended_fire_does_not_run_unopened(world: World) -> None:
    worker = world.worker("prefork")
    fire = world.fire("note")
    fire.until(Status.SUCCESS)
    world.network.cut()
    fire.send()
    worker.wait_for_log(f"fire {fire.id} .*cannot be opened")
    world.network.restore()
    worker.wait_for_log(f"fire {fire.id} .*is a duplicate")
    assert fire.ran() == ["1"]


def test_unreachable_run(make_world: Callable[..., World]) -> None:
    world = make_world(unreachable="run")
    world.worker("prefork")
    world.network.cut()
    fire = world.fire("note")
    assert fire.until_ran() == ["1"]
    world.network.restore()
    assert fire.until(Status.SUCCESS).output == f"noted {fire.mark}"


def test_coordinator_out_during_finish(world: World) -> None:
    world.worker("prefork")
    fire = world.fire("gated")
    fire.until_ran()
    world.network.cut()
    fire.pass_gate()
    assert fire.result().get(timeout=10) == "passed"
    assert running(fire)
    world.network.restore()
    assert fire.until(Status.SUCCESS).output == "passed"
    assert fire.ran() == ["1"]


def test_outage_longer_than_the_lease(world: World) -> None:
    world.worker("prefork")
    fire = world.fire("gated")
    fire.until_ran()
    world.network.cut()
    stays(lambda: running(fire), "running", 1.5 * world.lease)
    world.network.restore()
    wait_until(lambda: "renew_leases" in world.server.calls[-3:], "a renewal after the outage")
    fire.pass_gate()
    assert fire.until(Status.SUCCESS).attempt == 1


def test_memory_lost_while_it_runs(world: World) -> None:
    worker = world.worker("prefork")
    fire = world.fire("gated")
    fire.until_ran()
    world.server.coordinator.flush()
    worker.wait_for_log("memory was lost")
    wait_until(lambda: running(fire), "the fire to be known again", explain=fire.claim)
    fire.pass_gate()
    assert fire.until(Status.SUCCESS).attempt == 1


def test_put_back_fires_outlive_a_memory_loss(world: World) -> None:
    """A fire whose start was put off because the coordinator had just forgotten has met nobody who runs it."""
    worker = world.worker("prefork")
    world.fire("note").until(Status.SUCCESS)
    world.server.coordinator.flush()
    world.server.coordinator.remember_running([])  # somebody notices: silence for one lease time
    waiting = Sent(world, "note", (), {}, commit=False)
    worker.wait_for_log(f"fire {waiting.id} .*held back")
    assert waiting.until(Status.SUCCESS).attempt == 1


def test_a_killed_worker_never_makes_two(world: World) -> None:
    """The successor of a worker that was stopped, not killed: what it says when it wakes changes nothing."""
    sleeper = world.worker("solo", name="sleeper")
    fire = world.fire("gated")
    fire.until_ran()
    sleeper.pause()
    wait_until(lambda: lapsed(world, fire, world.coordinator.attach()), "the lease to lapse")
    assert world.coordinator.reap()
    sleeper.resume()
    fire.pass_gate()
    late = wait_until(lambda: fire.record().late_result, "the late result")
    assert late == "success: passed"
    assert fire.record().status is Status.ABANDONED


def running(fire: Sent) -> bool:
    claim = fire.claim()
    return claim is not None and claim.status is Status.RUNNING


def lapsed(world: World, fire: Sent, reading: Reading) -> bool:
    claim = fire.claim()
    assert claim is not None
    assert claim.lease_until is not None
    return reading.now > claim.lease_until and reading.judging
