"""What a release costs in Redis, however many fires wait, and how long the next in line takes to be on its way.

A release is the finish of a fire that holds limits; in turn with it, the finish of a fire without limits. Two figures
of each: the server's own processor time, which busy neighbours do not change and which decides, and the milliseconds
that the worker waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from statistics import median
from threading import Thread
from typing import Any, NamedTuple

import pytest

from celery_parrot.coordination.redis import RedisCoordinator, RedisWake
from celery_parrot.model.fire import FireKey, Namespace, Status
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    SLOTS,
    Delivery,
    Grant,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Outcome,
    Registration,
    StartVerdict,
    Timing,
)

NAME = Namespace("bench")
BASE = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = (20, 500, 5_000)
RELEASES = 40
MOST_MS = 5.0
GLANCE = 50  # what a woken beat looks at first
pytestmark = [pytest.mark.timeout(300), pytest.mark.keeps_keys("asking thousands of keys for their TTL takes too long")]

GPU, ROOM = Limit("group:gpu"), Limit(SLOTS, RELEASES)
Needs = Callable[[int], tuple[Limit, ...]]


def one_group(n: int) -> tuple[Limit, ...]:
    """All wait for one group."""
    return (GPU,)


def group_and_slots(n: int) -> tuple[Limit, ...]:
    """All wait for one group, and would need a slot, too."""
    return (GPU, ROOM)


def many_groups(n: int) -> tuple[Limit, ...]:
    """Every other fire has a group of its own with the one before, and all need a slot; there is none."""
    return (Limit(f"group:g{n // 2}"), Limit(SLOTS, 1))


def own_schedules(n: int) -> tuple[Limit, ...]:
    """Each has a limit that is free, and there is no slot."""
    return (Limit(f"schedule:s{n}", 1, buffer=1), Limit(SLOTS, 1))


def head_lacks_a_group(n: int) -> tuple[Limit, ...]:
    """Two of three need a group that is held for ever; the others need a slot only, and there is none."""
    return (Limit("group:held"), Limit(SLOTS, 1)) if n % 3 else (Limit(SLOTS, 1),)


SHAPES: dict[str, Needs] = {
    shape.__name__: shape for shape in (one_group, group_and_slots, many_groups, own_schedules, head_lacks_a_group)
}


class Cost(NamedTuple):
    """Milliseconds: the server's processor time, what the caller waited."""

    server: float
    caller: float


def typical(costs: Sequence[Cost]) -> Cost:
    return Cost(median(cost.server for cost in costs), median(cost.caller for cost in costs))


class Bench:
    """Fires 0, 1, 2, … of one schedule, the first of which run."""

    def __init__(self, url: str, server: Any, waiting: int, needs: Needs) -> None:
        self.server = server
        self.c = RedisCoordinator(url, NAME, Timing(history_limit=100_000))
        self.needs = needs
        self.c.attach()
        self.c.register([Registration(schedule_id="a", when="w", initial=BASE)])
        self.c.register([Registration(schedule_id="free", when="w", initial=BASE)])
        self.held = FireKey("held", BASE)
        self.c.register([Registration(schedule_id="held", when="w", initial=BASE - timedelta(days=1))])
        self._commit("held", [self.held.due_at], BASE - timedelta(days=1))
        self._ask([self.held], [(Limit("group:held"),)])
        count = waiting + 1
        self._commit("a", [self.key(n).due_at for n in range(count)], BASE)
        grants = self._ask([self.key(n) for n in range(count)], [needs(n) for n in range(count)])
        assert grants.count(Grant.WAITING) >= waiting - len({limit.name for limit in needs(0)}), grants[:10]
        self.mark, self.next_free = BASE, 0
        self.running = [self.start(self.key(n)) for n, grant in enumerate(grants) if grant is Grant.GRANTED]

    def key(self, n: int) -> FireKey:
        return FireKey("a", BASE + timedelta(seconds=n + 1))

    def _commit(self, name: str, due: Sequence[datetime], mark: datetime) -> None:
        plan = Plan(
            schedule_id=name,
            name=name,
            kind="task",
            expected_mark=mark,
            new_mark=due[-1],
            fires=tuple(PlannedFire(at) for at in due),
        )
        assert len(self.c.commit([plan], "b")[1][0].fires) == len(due)

    def _ask(self, keys: Sequence[FireKey], limits: Sequence[tuple[Limit, ...]]) -> list[Grant]:
        asked = [LimitRequest(hold=Hold(key, "b"), limits=needs) for key, needs in zip(keys, limits, strict=True)]
        return [reply.grant for reply in self.c.request(asked)]

    def start(self, key: FireKey) -> FireKey:
        delivery = Delivery(key=key, name=key.schedule_id, kind="task", token="t", worker="w")
        assert self.c.start([delivery])[0].verdict is StartVerdict.RUN
        return key

    def used(self) -> float:
        """Milliseconds of processor time that the server has used."""
        info = self.server.info("cpu")
        return float(info["used_cpu_user"] + info["used_cpu_sys"]) * 1e3

    def finish(self, key: FireKey) -> tuple[Cost, Sequence[FireKey]]:
        """What it costs, and who goes on."""
        outcome = Outcome(lease=Lease(key, "t"), status=Status.SUCCESS)
        used, begin = self.used(), time.perf_counter_ns()
        reply = self.c.finish([outcome])[0]
        waited = (time.perf_counter_ns() - begin) / 1e6
        return Cost(self.used() - used, waited), reply.named

    def release(self) -> Cost:
        """One fire that holds limits ends; who goes on is started."""
        spent, named = self.finish(self.running.pop(0))
        assert len(named) == 1
        self.running += [self.start(key) for key in named]
        return spent

    def plain(self) -> Cost:
        """The same of a fire without limits."""
        self.next_free += 1
        due = BASE + timedelta(seconds=self.next_free)
        self._commit("free", [due], self.mark)
        self.mark = due
        return self.finish(self.start(FireKey("free", due)))[0]


@pytest.fixture
def bench(redis_url: str, redis_client: Any) -> Iterator[Callable[[int, Needs], Bench]]:
    made: list[Bench] = []

    def make(waiting: int, needs: Needs) -> Bench:
        redis_client.flushdb()
        made.append(Bench(redis_url, redis_client, waiting, needs))
        return made[-1]

    yield make
    for one in made:
        one.c.close()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_release_does_not_grow_with_the_line(shape: str, bench: Callable[[int, Needs], Bench]) -> None:
    """5,000 waiting: under 5 ms."""
    with_limits: list[Cost] = []
    for waiting in WAITING:
        one = bench(waiting, SHAPES[shape])
        releases, plain = [], []
        for _ in range(min(RELEASES, waiting // 4)):
            releases.append(one.release())
            plain.append(one.plain())
        with_limits.append(typical(releases))
        ours, bare = with_limits[-1], typical(plain)
        print(
            f"{shape:<18} {waiting:>5} waiting: {ours.server:.2f} ms of the server, {ours.server / bare.server:.1f}x "
            f"of a finish without limits ({bare.server:.2f}); the worker waits {ours.caller:.2f} ms ({bare.caller:.2f})"
        )
    assert with_limits[-1].server < MOST_MS
    assert with_limits[-1].server < 3 * with_limits[0].server, "it grows with the line"


def test_how_long_the_next_in_line_takes(bench: Callable[[int, Needs], Bench], redis_url: str) -> None:
    """From the call that releases until a beat that was asleep has the next in line as its own to send."""
    one = bench(5_000, one_group)
    wake = RedisWake(redis_url, NAME)
    wake.wait(1.0)  # subscribes
    beat = Beat(owner="b2", host="h", pid=1, version="1", started=BASE, seen=BASE)
    sleeper = RedisCoordinator(redis_url, NAME, one.c.timing)
    taken: list[float] = []

    def sleep() -> None:
        assert wake.wait(10.0)
        due = sleeper.sweep(beat, limit=GLANCE).due
        assert sleeper.take(due, "b2")[0] is not None
        taken.append(time.perf_counter())

    times: list[float] = []
    for _ in range(20):
        thread = Thread(target=sleep)
        thread.start()
        begin = time.perf_counter()
        _, named = one.finish(one.running.pop(0))
        thread.join()
        times.append((taken[-1] - begin) * 1e3)
        one.running += [one.start(key) for key in named]
    print(f"hand-over with 5,000 waiting: {median(times):.1f} ms, the slowest {max(times):.1f} ms")
    wake.close()
    sleeper.close()
    assert min(times) < 20
