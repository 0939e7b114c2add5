"""Whose turn it is: memory walks its line, Redis looks at the first of each limit, and both answer the same.

Few limits, many fires that want them, ends of every kind: what :mod:`tests.conformance.test_memory_and_redis_agree`
meets now and then happens here in every other call.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import Plan, PlannedFire
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    SLOTS,
    Busy,
    Delivery,
    Drop,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Memory,
    Outcome,
    Registration,
    Running,
    Waiting,
)
from celery_parrot.testing.conformance import TIMING
from tests.conformance.test_memory_and_redis_agree import Pair

FIRES = 60
LIMITS = (
    Limit("group:a"),
    Limit("group:b"),
    Limit("group:c", 2),
    Limit(SLOTS, 3),
    Limit(SLOTS, 3),
    Limit("schedule:s", 2, Busy.WAIT, 12),
    Limit("kind:k", 4, Busy.SKIP),
)


class Crowd:
    """Sixty fires of one schedule on their way through the limits.

    :param edited: somebody edits the capacities meanwhile. Memory is not lost then: of fires that know of different
        capacities, any may be right.
    """

    def __init__(self, seed: int, pair: Pair, *, edited: bool) -> None:
        self._random = random.Random(seed)
        self._edited = edited
        self._capacities = {limit.name: limit.capacity for limit in LIMITS}
        self._pair = pair
        self._base = pair.both("attach", lambda c: c.attach()).now.replace(microsecond=0) - timedelta(hours=1)
        self._outbox: Sequence[Fire] = ()
        self._line: Sequence[Waiting] = ()
        self._needs: dict[FireKey, tuple[Limit, ...]] = {}
        self._running: dict[FireKey, tuple[Limit, ...]] = {}
        self.waited = self.named = 0
        pair.both("register", lambda c: c.register([Registration(schedule_id="s", when="w", initial=self._base)]))
        self._commit()

    def _commit(self) -> None:
        moments = [self._base + timedelta(seconds=n) for n in range(1, FIRES + 1)]
        plan = Plan(
            schedule_id="s",
            name="s",
            kind="task",
            expected_mark=self._base,
            new_mark=moments[-1],
            fires=tuple(PlannedFire(moment) for moment in moments),
            recover=True,
        )
        assert self._pair.both("commit", lambda c: c.commit([plan], "b"))[1][0].fires

    def _pick(self, items: Sequence[Any]) -> Any:
        return items[self._random.randrange(len(items))]

    def limits(self, key: FireKey) -> tuple[Limit, ...]:
        """Mostly the same each time."""
        if key not in self._needs or self._random.random() < 0.05:
            picked = [self._pick(LIMITS) for _ in range(self._random.randint(1, 4))]
            self._needs[key] = tuple({limit.name: limit for limit in picked}.values())
        return tuple(replace(limit, capacity=self._capacities[limit.name]) for limit in self._needs[key])

    def step(self) -> None:
        roll = self._random.random()
        if roll < 0.35:
            self._request()
        elif roll < 0.55:
            self._start()
        elif roll < 0.8:
            self._end()
        elif roll < 0.93:
            self._reap()
        elif roll < (0.96 if self._edited else 0.99) or not self._line:
            self._by_hand()
        elif self._edited:
            self._capacities[self._pick(LIMITS).name] = self._random.randint(1, 5)
        else:
            self._forget()
        self._sweep()

    def _sweep(self) -> None:
        beat = Beat(owner="b", host="h", pid=1, version="1", started=self._base, seen=self._base)
        seen = self._pair.both("sweep", lambda c: c.sweep(beat))
        self._outbox, self._line = seen.entries, seen.line
        self.waited = max(self.waited, len(self._line))

    def _holds(self, count: int) -> list[Hold]:
        some = self._random.sample(list(self._outbox), min(count, len(self._outbox)))
        return [Hold(fire.key, fire.owner, fire.tries) for fire in some]

    def _request(self) -> None:
        wait = self._pick((None, None, 20.0))
        asked = [LimitRequest(hold=hold, limits=self.limits(hold.key), wait=wait) for hold in self._holds(4)]
        self._pair.both(f"request {asked}", lambda c: c.request(asked))

    def _delivery(self, fire: Fire) -> Delivery:
        return Delivery(key=fire.key, name="s", kind="task", token="t", worker="w", attempt=fire.attempt)

    def _start(self) -> None:
        """Fires of the outbox, and now and then one of the line, whose message was out before a loss of memory."""
        fires = self._random.sample(list(self._outbox), min(3, len(self._outbox)))
        if self._line and self._random.random() < 0.1:
            fires.append(self._pick(self._line).fire)
        replies = self._pair.both("start", lambda c: c.start([self._delivery(fire) for fire in fires]))
        for fire, reply in zip(fires, replies, strict=True):
            if reply.verdict == "run":
                self._running[fire.key] = reply.holds

    def _end(self) -> None:
        some = self._random.sample(sorted(self._running), min(3, len(self._running)))
        ended = [Outcome(lease=Lease(key, "t"), status=self._pick((Status.SUCCESS, Status.ERROR))) for key in some]
        replies = self._pair.both(f"finish {some}", lambda c: c.finish(ended))
        self.named += sum(len(reply.named) for reply in replies)
        for key in some:
            del self._running[key]

    def _reap(self) -> None:
        kept = self._random.sample(sorted(self._running), len(self._running) * 2 // 3)
        self._pair.redis.clock_offset += self._pick((0.5, 2.5, 2.5))
        self._pair.both("renew_leases", lambda c: c.renew_leases([Lease(key, "t") for key in kept]))
        for _ in range(3):  # else no age in the outbox is ever judged
            self._pair.redis.clock_offset += 0.6
            self._pair.both("renew_leases", lambda c: c.renew_leases([]))
        for reaped in self._pair.both("reap", lambda c: c.reap(holding=True)):
            self._running.pop(reaped.fire.key, None)

    def _by_hand(self) -> None:
        fires = [*(fire.key for fire in self._outbox), *(waiting.fire.key for waiting in self._line), *self._running]
        if fires and self._random.random() < 0.5:
            freed = [self._pick(fires)]
            self._pair.both(f"free {freed}", lambda c: c.free(freed, "by hand"))
            self._running.pop(freed[0], None)
            return
        drops = [Drop(hold=hold, status=Status.MISSED, reason="too_late") for hold in self._holds(1)]
        self._pair.both(f"drop {drops}", lambda c: c.drop(drops))

    def _forget(self) -> None:
        """Everything, but for what the beat and the worker say; then the quiet time passes."""
        memory = Memory(outbox=tuple(self._outbox), line=tuple(self._line))
        fires = {key: Delivery(key=key, name="s", kind="task", token="t", worker="w") for key in self._running}
        running = [Running(delivery=fires[key], started_at=self._base, holds=self._running[key]) for key in fires]
        self._pair.flush()
        self._pair.both("remember", lambda c: c.remember(memory))
        self._pair.both("remember_running", lambda c: c.remember_running(running))
        self._request()
        self._end()
        for _ in range(8):
            self._pair.redis.clock_offset += 2.5
            self._pair.both("renew_leases", lambda c: c.renew_leases([Lease(key, "t") for key in self._running]))

    def look(self) -> None:
        moments: list[datetime] = [self._base + timedelta(seconds=n) for n in range(1, FIRES + 1)]
        self._pair.both("claims", lambda c: c.claims([FireKey("s", moment) for moment in moments]))
        self._pair.both("limits", lambda c: c.limits())
        self._pair.both("fires", lambda c: c.fires("s", limit=15))  # older entries go in batches


@pytest.mark.parametrize("seed", range(8))
def test_the_same_turns(seed: int, redis_url: str, redis_client: Any) -> None:
    pair = Pair(redis_url, redis_client)
    crowd = Crowd(seed, pair, edited=seed % 4 == 3)
    for number in range(130):
        crowd.step()
        if number % 10 == 9:
            crowd.look()
    pair.redis.close()
    assert TIMING.lease == 15.0
    assert (crowd.waited > 5, crowd.named > 0) == (True, True), (crowd.waited, crowd.named)
