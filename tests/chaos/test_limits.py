"""Limits under real beats and workers: nothing runs together that must not, and nothing waits for the dead."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import FireRecord, Status
from celery_parrot.protocols import IN_FLIGHT_SKIP_OUTPUT_KEY
from celery_parrot.stores.sql import upgrade
from tests.chaos.journal import Run, quantile, show
from tests.chaos.lab import PATIENCE, Lab
from tests.support.waiting import wait_until, wall_clock

LEASE = 3.0
TAKEOVER = 3.5  #: what a dead beat had committed and not sent waits for so long at most, seconds
GROUP = "gpu"

#: The long form asks a database too.
LONG_DB = pytest.mark.parametrize("servers", ["redis", pytest.param("db", marks=pytest.mark.long_form)], indirect=True)


@dataclass(frozen=True, slots=True)
class Where:
    """What the processes of a test meet at: one Redis for both, or RabbitMQ and PostgreSQL and no Redis."""

    kind: str
    broker: str
    coordinator: str


@pytest.fixture(params=["redis", "db"])
def servers(request: pytest.FixtureRequest) -> Where:
    """Servers of the test's own."""
    if request.param == "redis":
        url = request.getfixturevalue("private_redis").url()
        return Where("redis", url, url)
    database = request.getfixturevalue("postgresql_url")
    upgrade(database)
    return Where("db", request.getfixturevalue("rabbitmq_url"), database)


def kinds(count: int, **more: Any) -> dict[str, dict[str, Any]]:
    """Kinds that may not run together."""
    return {f"k{n}": {"task": "chaos.turn", "exclusion_group": GROUP, **more} for n in range(count)}


def once(kind: str, at: float, seconds: float) -> dict[str, Any]:
    """One fire at an instant, whose body takes that long."""
    config = {"fire_at_iso": datetime.fromtimestamp(at, UTC).isoformat()}
    call = {"kind": kind, "target": "target", "kwargs": {"seconds": seconds}}
    return {"schedule_type": "one_shot_at", "schedule_config": config, **call}


def spans(lab: Lab, names: Sequence[str]) -> list[tuple[Run, float]]:
    """Each body of these schedules that has ended, and when, by the machine's monotonic clock; in order of starts."""
    ended = {note.due: note.monotonic for name in names for note in lab.journal.of(name, "done")}
    begun = [run for name in names for run in lab.journal.of(name) if run.due in ended]
    return [(run, ended[run.due]) for run in sorted(begun, key=lambda run: run.monotonic)]


def records(lab: Lab, names: Sequence[str]) -> Mapping[tuple[str, datetime], FireRecord]:
    """The history of these schedules."""
    return {(name, record.due_at): record for name in names for record in lab.history(name)}


def check_alone(found: Sequence[tuple[Run, float]]) -> None:
    """No body began before the one before it had ended."""
    for (one, end), (following, _) in itertools.pairwise(found):
        assert end <= following.monotonic, f"{show(one.due)} and {show(following.due)} ran together"


def check_order(found: Sequence[tuple[Run, float]], history: Mapping[tuple[str, datetime], FireRecord]) -> int:
    """First come, first served: one that is due later began earlier only if it had its turn before the other came.
    How many stood in line at all."""
    for place, (one, _) in enumerate(found):
        had = history[one.due].waited_until or history[one.due].committed_at
        for other, _ in found[place + 1 :]:
            came = history[other.due].waited_from
            passed = other.due_at < one.due_at and came is not None and had is not None and came < had
            assert not passed, f"{show(one.due)} passed {show(other.due)}, which had come before it"
    return sum(1 for run, _ in found if history[run.due].waited_from is not None)


@pytest.mark.timeout(900)
def test_six_kinds_in_one_group_take_turns(lab: Lab, servers: Where, full: bool) -> None:
    """Two beats, one of which is killed on the way, and two workers with one slot each. A waiting fire takes no slot:
    other schedules run on time while the line grows."""
    fires = 500 if full else {"redis": 100, "db": 60}[servers.kind]
    every = {"redis": 0.5, "db": 1.0}[servers.kind]  # more than there is time for
    call = {"schedule": every, "target": "target", "kwargs": {"seconds": 0.1}}
    entries = {f"turn-{n}": {"kind": f"k{n}", **call} for n in range(6)}
    names = list(entries)
    lab.set_up(
        servers.broker, servers.coordinator, ticks=2, entries=entries, parrot_kinds=kinds(6), parrot_lease_ttl=LEASE,
        worker_prefetch_multiplier=1,
    )  # fmt: skip
    beats = lab.beat(), lab.beat()
    workers = lab.worker(concurrency=1), lab.worker(concurrency=1)
    lab.wait_ready(*beats)

    def ran(count: int) -> None:
        for some in [*range(20, count, 20), count]:  # however slow the machine, the line must move
            wait_until(lambda n=some: len(spans(lab, names)) >= n, f"{some} turns", PATIENCE, explain=lab.explain)  # type: ignore[misc]

    ran(fires // 2)
    beats[0].kill_group()
    died = wall_clock()
    ran(fires)
    assert beats[1].terminate() == 0
    lab.stays_alive(*workers)
    found = spans(lab, names)
    history = records(lab, names)
    check_alone(found)
    stood = check_order(found, history)
    assert stood > fires // 2, "the line must have been put to the test"
    hand_over = sorted(
        (sent - waited).total_seconds()
        for run, _ in found
        if (waited := history[run.due].waited_until) is not None and (sent := history[run.due].sent_at) is not None
    )
    others = [run for name in lab.names for run in lab.journal.of(name)]
    late = sorted(run.lateness for run in others)
    # What is due around the death of a beat may wait for its heartbeat to lapse.
    calm = [run.lateness for run in others if not died - 1.5 <= run.due_at.timestamp() <= died + TAKEOVER]
    behind = max(run.lateness for run, _ in found)
    lab.say(
        f"six kinds in one group ({servers.kind}): {len(found)} turns, {stood} of them waited, at most {behind:.1f} s; "
        f"hand-over p50 {quantile(hand_over, 0.5) * 1000:.0f} ms, p99 {quantile(hand_over, 0.99) * 1000:.0f} ms, "
        f"max {hand_over[-1] * 1000:.0f} ms (a beat was killed); others late at most {late[-1]:.2f} s"
    )
    assert hand_over[-1] < TAKEOVER, "a fire whose turn had come waited longer than for a dead beat"
    assert max(calm) < 2.0, "a schedule without a group waited for one"
    assert late[-1] < TAKEOVER, "a schedule without a group waited longer than for a dead beat"
    assert behind > {"redis": 2.0, "db": 0.5}[servers.kind], "the line must have been longer than that"
    assert any(run.started > died for run, _ in found)


@LONG_DB
@pytest.mark.timeout(120)
def test_the_worker_that_holds_a_group_is_killed(lab: Lab, servers: Where) -> None:
    """Its fire is abandoned and the next in line starts within lease and tick; one with less patience had given up
    before, without having run."""
    start = wall_clock() + 8.0
    entries = {
        "first": once("k0", start, 60.0),
        "second": once("k1", start + 0.5, 0.1),
        "impatient": once("hasty", start + 1.0, 0.1),
    }
    hasty = {"task": "chaos.turn", "exclusion_group": GROUP, "reap_after": 2.0}
    lab.set_up(
        servers.broker, servers.coordinator, entries=entries, parrot_kinds={**kinds(2), "hasty": hasty},
        parrot_lease_ttl=LEASE, parrot_reap_margin=0.5, worker_prefetch_multiplier=1,
    )  # fmt: skip
    beats = lab.beat(), lab.beat()
    victim, heir = lab.worker(concurrency=1), lab.worker(concurrency=1)
    lab.wait_ready(*beats)
    (first,) = wait_until(lambda: lab.journal.of("first"), "the first to run", PATIENCE, explain=lab.explain)

    def ended() -> list[FireRecord]:
        return [one for one in lab.history("impatient") if one.status.terminal]

    (gave_up,) = wait_until(ended, "the impatient one to give up", 10, explain=lab.explain)
    assert (gave_up.status, gave_up.reason) == (Status.ERROR, f"expired waiting for group {GROUP}")
    assert gave_up.held_by == first.fire_id
    if f"@{heir.name}" in first.worker or heir.pid == first.pid:
        victim, heir = heir, victim
    victim.kill_group()
    killed = wall_clock()
    (second,) = wait_until(lambda: lab.journal.of("second"), "the second to run", PATIENCE, explain=lab.explain)
    after = second.started - killed
    assert after < LEASE + 1.0 + 1.0, f"the next in line started {after:.1f} s after the death"
    (lost,) = lab.history("first")
    assert (lost.status, lost.reason) == (Status.ABANDONED, "worker lost")
    lab.wait_for_success([second.due])
    assert lab.journal.of("impatient") == []
    lab.say(
        f"the worker that holds a group is killed ({servers.kind}): the next started {after:.1f} s later, "
        f"lease {LEASE:g} s"
    )
    lab.stays_alive(*beats, heir)


@LONG_DB
@pytest.mark.timeout(120)
def test_a_kind_that_is_in_flight_skips(lab: Lab, servers: Where) -> None:
    """Due each second, busy for three: one at any time, the rest recorded as successes that did nothing."""
    entries = {"busy": {"schedule": 1.0, "kind": "single", "target": "target", "kwargs": {"seconds": 3.0}}}
    single = {"single": {"task": "chaos.turn", "max_in_flight": 1}}
    lab.set_up(servers.broker, servers.coordinator, entries=entries, parrot_kinds=single)
    beats = lab.beat(), lab.beat()
    lab.worker(), lab.worker()
    lab.wait_ready(*beats)
    wait_until(lambda: len(spans(lab, ["busy"])) >= 3, "three bodies", PATIENCE, explain=lab.explain)
    found = spans(lab, ["busy"])
    check_alone(found)
    first, last = found[0][0].due_at, found[-1][0].due_at
    history = {record.due_at: record for record in lab.history("busy")}
    ran = {run.due_at: run.fire_id for run, _ in found}
    holder = ""
    for second in range(round((last - first).total_seconds()) + 1):
        due_at = first + timedelta(seconds=second)
        record = history[due_at]
        assert record.status is Status.SUCCESS, record
        if due_at in ran:
            holder = ran[due_at]
        else:
            assert json.loads(record.output or "") == {IN_FLIGHT_SKIP_OUTPUT_KEY: True, "held_by": holder}
    skipped = round((last - first).total_seconds()) + 1 - len(ran)
    assert skipped >= 4
    lab.say(f"a kind due each second with a body of 3 s: {len(ran)} ran one after the other, {skipped} skipped")
