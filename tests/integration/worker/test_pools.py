"""What every pool does alike: one worker a pool, real messages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import Status
from tests.integration.worker.world import World, falls_silent, gpu, hands_over, holders
from tests.support.waiting import wait_until


def test_runs_and_records(shared: World) -> None:
    fire = shared.fire("note")
    record = fire.until(Status.SUCCESS)
    assert record.output == f"noted {fire.mark}"
    assert record.attempt == 1
    assert record.worker.startswith("worker-1@")
    assert fire.result().get(timeout=5) == f"noted {fire.mark}"


def test_sent_twice_runs_once(shared: World) -> None:
    fire = shared.fire("note")
    fire.until(Status.SUCCESS)
    fire.send()
    shared.procs["worker-1"].wait_for_log(f"fire {fire.id} .*is a duplicate")
    assert fire.ran() == ["1"]
    assert fire.result().state == "SUCCESS"


def test_current_fire(shared: World) -> None:
    fire = shared.fire("show")
    fire.until(Status.SUCCESS)
    expected = {name: str(value) for name, value in fire.header().items() if name not in ("due_at", "deadline")}
    assert fire.result().get(timeout=5) == expected | {"due_at": str(fire.key.due_at), "lost": "False"}


def test_no_fire_outside(shared: World) -> None:
    shared.fire("note").until(Status.SUCCESS)
    shared.app.send_task("tests.integration.worker.app.no_fire", ("by-hand",), queue=shared.queue)
    wait_until(lambda: shared.state.lrange("ran:by-hand", 0, -1) == ["None"], "the task sent by hand")
    shared.state.delete("ran:by-hand")


def test_another_name_is_left_alone(shared: World) -> None:
    fire = shared.fire("note")
    fire.until(Status.SUCCESS)
    fire.send(scheduler="somebody else")
    assert fire.until_ran(2) == ["1", "-"]


def test_error(shared: World) -> None:
    fire = shared.fire("fail")
    record = fire.until(Status.ERROR)
    assert record.error == f"LookupError: no {fire.mark}"


def test_target_missing(shared: World) -> None:
    fire = shared.fire("missing")
    assert fire.until(Status.TARGET_MISSING).error == f"TargetMissing: no agent {fire.mark}"


def test_ignore_is_success_without_result(shared: World) -> None:
    fire = shared.fire("ignore")
    assert fire.until(Status.SUCCESS).output is None


def test_retry_keeps_one_fire(shared: World) -> None:
    fire = shared.fire("again")
    record = fire.until(Status.SUCCESS)
    assert fire.ran() == ["1", "2", "3"]
    assert (record.attempt, record.output) == (3, "third time")


def test_reject_with_requeue_is_the_next_attempt(shared: World) -> None:
    fire = shared.fire("reject_once")
    record = fire.until(Status.SUCCESS)
    assert fire.ran() == ["1", "2"]
    assert record.output == "second time"


def test_reject_for_good(shared: World) -> None:
    fire = shared.fire("reject_for_good")
    record = fire.until(Status.ERROR)
    assert record.reason == "rejected"


def test_unknown_task(shared: World) -> None:
    fire = shared.fire("no.such.task")
    record = fire.until(Status.TARGET_MISSING)
    assert record.error == "NotRegistered: no.such.task"


def test_expires(shared: World) -> None:
    fire = shared.fire("note", expires=-10)
    record = fire.until(Status.EXPIRED)
    assert fire.ran() == []
    assert record.reason == "expires"
    assert shared.coordinator.run_states([fire.key.schedule_id])[fire.key.schedule_id].consecutive_failures == 0


@pytest.mark.parametrize("task", ["based", "class_based"])
def test_own_base_class(shared: World, task: str) -> None:
    fire = shared.fire(task)
    fire.until(Status.SUCCESS)
    fire.send()
    shared.procs["worker-1"].wait_for_log(f"fire {fire.id} .*is a duplicate")
    assert fire.ran() == ["1"]
    assert shared.state.lrange(f"before:{fire.mark}", 0, -1) == [fire.id]


def test_outlives_leases(shared: World, pool: str) -> None:
    fire = shared.fire("gated" if pool == "gevent" else "busy", *([] if pool == "gevent" else [2.5 * shared.lease]))
    fire.until_ran()
    started = shared.coordinator.attach().now
    later = started + timedelta(seconds=2 * shared.lease)
    wait_until(lambda: shared.coordinator.attach().now > later, "two lease times")
    assert not shared.coordinator.reap()
    fire.pass_gate()
    record = fire.until(Status.SUCCESS)
    assert record.output in ("passed", "lost=False")
    assert record.attempt == 1


def test_progress_keeps_it_and_silence_ends_it(shared: World) -> None:
    falls_silent(shared)


def test_limits_are_handed_over(shared: World) -> None:
    hands_over(shared, "note", Status.SUCCESS)
    hands_over(shared, "fail", Status.ERROR)
    hands_over(shared, "no.such.task", Status.TARGET_MISSING, "task not registered")


def test_freed_by_a_person_it_stops_by_itself(shared: World) -> None:
    first = shared.fire("steady", limits=gpu(shared))
    first.until_ran()
    second = shared.fire("note", limits=gpu(shared))
    (freed,) = shared.limits.free([first.key], "freed by a person")
    assert freed is not None
    assert freed.named == (second.key,)
    first.pass_gate()
    found: Any = shared.state.blpop([f"stopped:{first.mark}"], int(2 * shared.lease + 1))
    assert found is not None
    assert found[1] == "True"
    wait_until(lambda: first.record().late_result, "what it returned, as a note")
    assert (first.record().status, first.record().reason) == (Status.ABANDONED, "freed by a person")
    assert holders(shared) == [second.key], "what comes late releases nothing"
    second.go()
    second.until(Status.SUCCESS)
