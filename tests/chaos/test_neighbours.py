"""Schedulers beside each other, workers that know nothing of us, entries that are broken."""

from __future__ import annotations

import json
import signal

import pytest

from tests.chaos.journal import Window, judge
from tests.chaos.lab import PATIENCE, Lab
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import stays, wait_until, wall_clock

TICKS = 10


@pytest.mark.timeout(180)
def test_two_names_on_one_redis(lab: Lab, private_redis: PrivateRedis) -> None:
    """Two registered names with the same schedules, broker and Redis: each name runs every due time once under ids of
    its own, and a dead beat's fires wait for a beat of its own name."""
    url = private_redis.url()
    lab.set_up(url, url, ticks=TICKS, name="one", parrot_on_time=60)
    two = lab.with_conf(parrot_name="two")
    one_beat, two_beat = lab.beat(), lab.beat(env=two)
    lab.worker()  # a drop-in for the fires of the other name: the guard is by name
    lab.wait_ready(one_beat)
    window = lab.open_window(5)
    verdict = lab.close_window(window, label="parrot_name one of two")
    lab.check(verdict)
    other = judge(window, lab.journal.runs(), lab.journal.received(), scheduler="two")
    lab.say(f"parrot_name two of two: {other.figures()}")
    lab.check(other)

    one_beat.kill()
    doomed = lab.beat(env={"PARROT_TEST_CRASH": "after-commit"})
    code = wait_until(lambda: doomed.returncode, "the second beat of that name to crash", PATIENCE)
    assert code == -signal.SIGKILL
    dead = wall_clock()
    stays(lambda: two_beat.alive, "the beat of the other name alive", 4)
    assert not [run for run in lab.journal.runs() if run.scheduler == "one" and run.started > dead], (
        "a beat of another name sent its fires"
    )
    assert "[fire-taken-over]" not in two_beat.text()
    heir = lab.beat()
    heir.wait_for_log(r"\[fire-taken-over\]", PATIENCE)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("pool", [pytest.param("threads", marks=pytest.mark.long_form), "prefork"])
def test_a_worker_without_parrot(lab: Lab, private_redis: PrivateRedis, pool: str) -> None:
    """A worker that has no ``Parrot(app)`` runs everything as under any beat: nothing expires, nothing is reaped,
    nothing is disabled, also of tasks that take longer than a lease or fail each time."""
    url = private_redis.url()
    entries = {
        "slow": {"task": "chaos.slow", "schedule": 3.0, "args": [4.0]},
        "failing": {"task": "chaos.failing", "schedule": 1.0},
    }
    lab.set_up(
        url, url, ticks=5, entries=entries, parrot_lease_ttl=2, parrot_reap_interval=0.5, parrot_takeover_after=3
    )
    beats = [lab.beat(), lab.beat()]
    lab.worker(pool=pool, concurrency=6, env={"CHAOS_PARROT": "0"}, level="critical")
    lab.wait_ready(*beats)
    window = lab.open_window(8)
    verdict = lab.close_window(window, label=f"a worker without Parrot, {pool}")
    lab.check(verdict)
    failing = Window(("failing",), window.first, window.seconds)
    found = judge(failing, lab.journal.runs(), lab.journal.received(), scheduler=lab.name)
    found.assert_exact(lab.explain)  # it would be lost once it is disabled
    assert lab.journal.of("slow", "done")
    lab.assert_quiet("[fire-reaped]", "[fire-expired]", "[schedule-disabled]", "[fire-taken-over]", "abandoned")
    for beat in beats:
        assert beat.terminate() == 0
    statuses = {str(record.status) for name in (*lab.names, "slow", "failing") for record in lab.history(name)}
    assert statuses == {"sent"}, f"the story of these fires ends at sent, not {statuses}"


@pytest.mark.timeout(120)
def test_an_entry_whose_schedule_raises(lab: Lab, private_redis: PrivateRedis) -> None:
    """It is reported by name, and all others run."""
    url = private_redis.url()
    lab.set_up(url, url, ticks=10, entries={"bad": {"task": "chaos.tick", "schedule": "broken"}})
    beats = [lab.beat(), lab.beat()]
    lab.worker()
    lab.wait_ready(*beats)
    window = lab.open_window(5)
    verdict = lab.close_window(window, label="beside a broken schedule")
    lab.check(verdict)
    for beat in beats:
        found = [line for line in beat.text().splitlines() if "[schedule-broken]" in line]
        assert found, f"{beat.name} does not report it\n{beat.tail()}"
        assert "bad" in found[0]
        assert "broken on purpose" in found[0]
        assert len(found) < 5, "once, not every tick"
    assert not lab.journal.of("bad")


@pytest.mark.timeout(120)
def test_an_unserialisable_entry(lab: Lab, private_redis: PrivateRedis) -> None:
    """A task argument that raises when it is evaluated ends that fire as an error; all others run."""
    url = private_redis.url()
    lab.set_up(url, url, ticks=10, entries={"bad": {"task": "chaos.echo", "schedule": 1.0, "lazy": "raise"}})
    beat = lab.beat()
    lab.worker()
    lab.wait_ready(beat)
    window = lab.open_window(5)
    lab.check(lab.close_window(window, label="beside an argument that raises"))
    assert not lab.journal.of("bad")
    records = lab.history("bad")
    assert records
    assert {str(record.status) for record in records} == {"error"}
    assert json.dumps([record.reason or record.error for record in records]).count("on purpose") >= len(records)
