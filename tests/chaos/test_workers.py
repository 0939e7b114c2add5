"""Workers that die, retry, or get a message twice."""

from __future__ import annotations

from collections import defaultdict

import pytest

from tests.chaos.lab import PATIENCE, Lab
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

LEASE = 3
LONG = pytest.mark.long_form


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=LONG)])
def test_a_worker_is_killed_with_acks_late(lab: Lab, private_redis: PrivateRedis, rabbitmq_url: str, pool: str) -> None:
    """RabbitMQ redelivers at once what a killed worker had not acknowledged, while its lease is still live: the fire
    runs as its next attempt when the lease has lapsed, and is not dropped as a duplicate."""
    entries = {"slow": {"task": "chaos.slow_late", "schedule": 4.0, "args": [3.0]}}
    lab.set_up(rabbitmq_url, private_redis.url(), entries=entries, parrot_lease_ttl=LEASE, worker_prefetch_multiplier=1)
    beat = lab.beat()
    first = lab.worker(pool=pool, concurrency=1)
    lab.wait_ready(beat)
    (run, *_) = lab.wait_for_runs(1, ["slow"])
    second = lab.worker(pool=pool, concurrency=4)
    lab.at(run.started + 0.5, "the body to be under way")
    first.kill_group()

    def again() -> bool:
        return any(other.due == run.due and other.what == "done" for other in lab.journal.runs())

    wait_until(again, "the redelivered fire to run", PATIENCE, explain=lab.explain)
    notes = [other for other in lab.journal.runs() if other.due == run.due]
    assert [note.what for note in notes] == ["ran", "ran", "done"], notes
    assert [note.attempt for note in notes] == [1, 2, 2]
    assert notes[1].worker != notes[0].worker
    assert {note.task_id for note in notes} == {run.fire_id}
    lab.wait_for_success([run.due])
    (record,) = [record for record in lab.history("slow") if record.due_at == run.due_at]
    assert record.attempt == 2
    gap = notes[1].started - run.started
    lab.say(f"worker killed with acks_late, {pool}: attempt 2 began {gap:.1f} s after the first")
    lab.stays_alive(beat, second)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=LONG), pytest.param("solo", marks=LONG)])
def test_retry_at_once(lab: Lab, private_redis: PrivateRedis, pool: str) -> None:
    """``self.retry(countdown=0)`` publishes the next message before the attempt has ended: every attempt runs, none is
    a duplicate, and it stays one fire with one outcome."""
    url = private_redis.url()
    entries = {"flaky": {"task": "chaos.flaky", "schedule": 1.0, "args": [3]}}
    lab.set_up(url, url, entries=entries)
    beat = lab.beat()
    lab.worker(pool=pool)
    lab.wait_ready(beat)
    lab.wait_for_runs(17, ["flaky"])
    assert beat.terminate() == 0
    dues = {run.due for run in lab.journal.of("flaky")}
    lab.wait_for_success(dues)
    retries = defaultdict(list)
    attempts = defaultdict(list)
    for run in lab.journal.of("flaky"):
        retries[run.due].append(run.retries)
        attempts[run.due].append(run.attempt)
    assert {tuple(sorted(found)) for found in retries.values()} == {(0, 1, 2, 3)}
    assert {tuple(sorted(found)) for found in attempts.values()} == {(1, 2, 3, 4)}
    records = lab.history("flaky")
    assert {record.due_at for record in records} == {due_at for _, due_at in dues}
    assert {(str(record.status), record.attempt) for record in records} == {("success", 4)}
    lab.say(f"retry(countdown=0), {pool}: {len(dues)} fires, {sum(map(len, retries.values()))} attempts")
