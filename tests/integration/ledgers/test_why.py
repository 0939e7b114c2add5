"""Stories of schedules of every store, told from a real Redis and a real database."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import pytest

from celery_parrot import ScheduleNotFound
from celery_parrot.client import CodeDefinitions, Coordination, Rules, Schedules
from celery_parrot.model.fire import FireKey, Status
from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.protocols import Delivery, Lease, Outcome, Written
from celery_parrot.stores.memory import CodeStore
from tests.integration.ledgers.scene import KINDS, OnRedis, hourly, settle
from tests.integration.stores_redis.server import StoreServer

GPU = Policy(exclusion_group="gpu")
_VARIES = (
    (r"\w{3} \d{4}-\d\d-\d\d ", ""),
    (r"\d\d:\d\d:\d\d", "TIME"),
    (r"\d+(\.\d+)? (ms|s|min|h)( \d+ (s|min))?\b", "SPAN"),
    (r"(queue agents at TIME), SPAN later", r"\1"),  # unless both fall into one millisecond
)


def client_of(scene: OnRedis) -> Schedules:
    coordinator = scene.coordinator()
    return Schedules(
        code=CodeDefinitions(lambda: CodeStore(), coordinator, scene.clock),
        stores={scene.store.name: scene.store},
        rules=Rules(kinds=KINDS),
        clock=scene.clock,
        coordination=Coordination(coordinator=coordinator, namespace=scene.namespace, clock=scene.clock),
    )


def told(client: Schedules, name: str, at: datetime | None = None) -> list[str]:
    """Without what differs from run to run."""
    story = client.why(name, at)
    lines = [story.sentence, *(step.text for step in story.steps if step.what != "schedule")]
    for pattern, to in _VARIES:
        lines = [re.sub(pattern, to, line) for line in lines]
    return lines


def added(scene: OnRedis, name: str, **changes: Any) -> Schedule:
    made = hourly(scene, name, **changes)
    assert list(scene.store.insert([made])) == [Written.DONE]
    return made


def worker(made: Schedule, key: FireKey) -> Delivery:
    return Delivery(key=key, name=made.name, kind="agent", token="t1", worker="celery@w1")


def test_from_the_claim_to_the_error(scene: OnRedis) -> None:
    """Also once the outcome has been carried to the rows, and the coordinator has forgotten."""
    made = added(scene, "nightly")
    client = client_of(scene)
    beat = scene.beat()
    settle(beat)
    scene.run(31)
    (due_at,) = [record.due_at for record in client.fires("nightly")]
    key, coordinator = FireKey(made.schedule_id, due_at), scene.coordinator()
    coordinator.start([worker(made, key)])
    assert told(client, "nightly")[-1] == "The worker vouches for it until TIME, and renews that as it goes."
    scene.advance(2)
    error = Outcome(lease=Lease(key, "t1"), status=Status.ERROR, error="OSError: disk full")
    coordinator.finish([error])
    expected = [
        "nightly, due TIME UTC, failed.",
        "Beat test (process 0) claimed it at TIME, SPAN after it was due.",
        "It was sent to queue agents at TIME.",
        "Worker celery@w1 picked it up at TIME, SPAN later.",
        "It failed at TIME, SPAN later: OSError: disk full.",
    ]
    assert told(client, "nightly") == expected
    scene.run(2)
    assert told(client, "nightly", at=due_at) == expected
    if scene.rows:
        scene.flush()
        assert told(client, "nightly")[-2] == expected[-1]


def test_it_waits_behind_another_schedule_and_then_runs(scene: OnRedis) -> None:
    """The wait is told from the coordinator, whose history knows more than the rows."""
    first = added(scene, "etl", policy=GPU, due_in=20)
    added(scene, "nightly", policy=GPU, due_in=30)
    client = client_of(scene)
    beat = scene.beat()
    settle(beat)
    scene.run(21)
    (due_at,) = [record.due_at for record in client.fires("etl")]
    key, coordinator = FireKey(first.schedule_id, due_at), scene.coordinator()
    coordinator.start([worker(first, key)])
    scene.run(10)
    assert told(client, "nightly")[2:5] == [
        "It has been standing in line for group gpu since TIME (SPAN).",
        "etl (due TIME) holds it, running on celery@w1 since TIME (SPAN).",
        "It is next.",
    ]
    coordinator.finish([Outcome(lease=Lease(key, "t1"), status=Status.SUCCESS)])
    scene.run(2)
    waited = re.sub(r"fire \w{8}", "fire ID", told(client, "nightly")[2])
    assert waited == (
        "It waited for group gpu, which etl (due TIME, fire ID) had, from TIME until TIME (SPAN). "
        "That one ran on celery@w1 for SPAN and ended at TIME."
    )


def test_paused_with_a_note(scene: OnRedis) -> None:
    added(scene, "nightly")
    client = client_of(scene)
    settle(scene.beat())
    client.pause("nightly", "stocktaking", "ann")
    scene.run(31)
    assert told(client, "nightly") == [
        "nightly, due TIME UTC, has not run: it is paused.",
        "It has been paused by a person, with the note 'ann: stocktaking'. What comes due meanwhile is recorded as "
        "skipped "
        "when it is resumed.",
    ]


def test_before_it_was_created(scene: OnRedis) -> None:
    added(scene, "nightly")
    client = client_of(scene)
    settle(scene.beat())
    before = client.why("nightly").previous
    assert before is not None
    assert client.why("nightly", before).verdict == "before_created"


def test_of_a_deleted_one_by_its_id(scene: OnRedis) -> None:
    """As long as its history is kept."""
    made = added(scene, "nightly")
    client = client_of(scene)
    settle(scene.beat())
    scene.run(31)
    client.delete("nightly")
    assert told(client, made.schedule_id)[-1] == (
        "It has been deleted. What became of its due times stays until it is old enough."
    )
    with pytest.raises(ScheduleNotFound):
        client.why("nightly")


def test_superseded_by_an_edit(server: StoreServer) -> None:
    """The due time of the schedule as it was is told by its entry, with what the edit did to it."""
    scene = OnRedis("redis", server, None)  # the clock of a database cannot be moved: no edit of rows comes after it
    made = added(scene, "nightly")
    client = client_of(scene)
    settle(scene.beat())
    due_at = client.why("nightly").due_at
    assert due_at is not None
    scene.advance(31)
    client.update("nightly", schedule_config={"seconds": 7200, "offset": made.schedule_config["offset"]})
    scene.run(2)
    assert told(client, "nightly", at=due_at)[-1].startswith(
        "At TIME its schedule was edited or enabled anew, before a beat"
    )
