"""The two coordinators answer the same to the same calls at the same instants, whatever the calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.model.fire import FireKey, Namespace, Origin, Status
from celery_parrot.model.plan import NotFired, Plan, PlannedFire
from celery_parrot.model.schedule import TELLS_ALL
from celery_parrot.model.state import Beat
from celery_parrot.protocols import (
    SLOTS,
    About,
    Busy,
    CallbackReport,
    Carried,
    Delivery,
    DeliveryReport,
    DeliveryStatus,
    Drop,
    Hold,
    Lease,
    Limit,
    LimitRequest,
    Mark,
    Memory,
    Outcome,
    Parcel,
    Progress,
    Reading,
    Registration,
    Reservation,
    Running,
    Waiting,
)
from celery_parrot.protocols.holding import Release
from celery_parrot.testing.conformance import TIMING

Call = Callable[[Any], Any]
SCHEDULES = ("a", "b", "a:b")
ROWS = ("r", "q")  # rows in a database decide these
BEATS = ("b1", "b2")
TOKENS = ("t1", "t2", "t3", "")
ENDS = (Status.SUCCESS, Status.ERROR, Status.TARGET_MISSING, Status.SENT, Status.EXPIRED, Status.UNKNOWN)


LIMITS = (
    Limit("kind:agent", 1, Busy.SKIP),
    Limit("schedule:a", 1, Busy.OVERLAP),
    Limit("schedule:b", 1, Busy.WAIT, 1),
    Limit("group:gpu"),
    Limit("group:gpu"),
    Limit("group:disk", 2),
    Limit("group:disk", 2),
    Limit(SLOTS, 2),
    Limit(SLOTS, 2),
)
LOOKS = ("claims", "run_states", "beats", "fires", "uncarried", "holds", "limits", "parcels")
TELLS = ((), ("success",), ("failure", "missed"), TELLS_ALL)
ERRORS = (None, "E: e", "  ValueError: " + "ü\U0001f99c" * 120, "Ünï " * 50)


class SetClock:
    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant


class Pair:
    """Each call goes to Redis first; memory then answers it at the very instant that Redis did."""

    def __init__(self, url: str, client: Any) -> None:
        self._clock = SetClock()
        self._redis_client = client
        timing = replace(TIMING, send_within=5.0)  # soon enough for a crowd
        self.redis = RedisCoordinator(url, Namespace("pair"), timing)
        self.memory = MemoryCoordinator(Namespace("pair"), timing, self._clock)
        self.log: list[str] = []

    def both(self, what: str, call: Call) -> Any:
        answer = call(self.redis)
        touched = int(self._redis_client.hget("parrot:scheduler:pair:coordinator", "touched"))
        self._clock.instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=touched)
        other = call(self.memory)
        if what not in LOOKS:
            self.log.append(f"{self._clock.instant:%H:%M:%S.%f} {what} -> {answer}")
        ours, theirs = _plain(answer), _plain(other)
        assert ours == theirs, "\n".join([*self.log[-12:], what, *_differences(ours, theirs)])
        return answer

    def flush(self) -> None:
        self._redis_client.flushdb()
        self.memory.flush()
        self.log.append("flush")


def _plain(answer: Any) -> Any:
    """Without epochs, which are random, and with the beginning of time as both know it."""
    if isinstance(answer, Reading):
        beginning = datetime(1970, 1, 1, tzinfo=UTC)
        return replace(
            answer,
            epoch="",
            judge_from=max(answer.judge_from, beginning),
            quiet_until=max(answer.quiet_until, beginning),
        )
    if isinstance(answer, Carried):
        return replace(answer, serial=0)  # it grows in either, by steps of its own
    if hasattr(answer, "reading"):
        return replace(answer, reading=_plain(answer.reading))
    return [_plain(item) for item in answer] if isinstance(answer, (list, tuple)) else answer


def _uncarried(coordinator: Any) -> Any:
    """In one order: what was queued in the same millisecond has none."""
    return sorted(coordinator.uncarried(), key=lambda item: item.record.key)


def _differences(ours: Any, theirs: Any) -> list[str]:
    if isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        return [line for a, b in zip(ours, theirs, strict=True) if a != b for line in _differences(a, b)]
    if is_dataclass(ours) and type(ours) is type(theirs):
        names = [field.name for field in fields(ours)]
        return [
            str(ours),
            *(
                f"{name}: {getattr(ours, name)} != {getattr(theirs, name)}"
                for name in names
                if getattr(ours, name) != getattr(theirs, name)
            ),
        ]
    return [f"redis:  {ours}", f"memory: {theirs}"]


class Player:
    """Makes up calls that are likely to meet each other."""

    def __init__(self, seed: int, base: datetime) -> None:
        self._random = random.Random(seed)
        self._base = base
        self._marks = dict.fromkeys(SCHEDULES, base)
        self.outbox: Sequence[Any] = ()
        self.line: Sequence[Waiting] = ()
        self.queue: Sequence[Parcel] = ()
        self._prepared: tuple[Sequence[Plan], str, str] = ((), "b1", "k")

    def due(self, n: int) -> datetime:
        return self._base + timedelta(seconds=n * 60, microseconds=n % 3 * 250_001)

    def key(self) -> FireKey:
        return FireKey(self._pick((*SCHEDULES, *ROWS)), self.due(self._random.randint(1, 8)))

    def _pick(self, items: Sequence[Any]) -> Any:
        return items[self._random.randrange(len(items))]

    def hold(self) -> Hold:
        if self.outbox and self._random.random() < 0.8:
            fire = self._pick(self.outbox)
            return Hold(fire.key, fire.owner, fire.tries)
        return Hold(self.key(), self._pick(BEATS), self._random.randint(0, 1))

    def learn(self, marks: Sequence[Any]) -> None:
        for mark in marks:
            self._marks[mark.schedule_id] = getattr(mark, "last_due", None) or mark.mark or self._base

    def beat(self) -> Beat:
        return Beat(owner=self._pick(BEATS), host="h", pid=1, version="1", started=self._base, seen=self._base)

    def delivery(self) -> Delivery:
        key = self.key()
        return Delivery(
            key=key,
            name=key.schedule_id,
            kind="task",
            token=self._pick(TOKENS[:3]),
            worker=self._pick(("w1", "w2")),
            attempt=self._pick((1, 1, 1, 2)),
            retries=self._pick((0, 0, 0, 1, 2)),
            put_back=self._random.random() < 0.3,
            deadline=self._pick((None, None, None, self._base)),
            silent_after=self._pick((None, None, 4.0)),
            limits=self._random.random() < 0.2,
        )

    def limits(self) -> tuple[Limit, ...]:
        """Each name once."""
        picked = [self._pick(LIMITS) for _ in range(self._random.randint(0, 3))]
        return tuple({limit.name: limit for limit in picked}.values())

    def request(self) -> LimitRequest:
        return LimitRequest(hold=self.hold(), limits=self.limits(), wait=self._pick((None, None, 3.0)))

    def reservation(self) -> Reservation:
        return Reservation(key=self.key(), attempt=self._pick((1, 1, 2)), retries=self._pick((0, 0, 1)), worker="w1")

    def lease(self) -> Lease:
        progress = self._pick((None, None, Progress("on", 0.5), Progress("half")))
        return Lease(self.key(), self._pick(TOKENS), progress)

    def plan(self) -> Plan:
        name = self._pick(SCHEDULES)
        first = self._random.randint(1, 8)
        fires = [PlannedFire(self.due(n), self._pick(tuple(Origin))) for n in range(first, first + 2)]
        missed = NotFired(Status.MISSED, "too_late", self.due(first + 3), self.due(first + 4), self._pick((1, 2)))
        return Plan(
            schedule_id=name,
            name=name,
            kind="task",
            expected_mark=self._marks[name],
            new_mark=self.due(first + 4),
            fires=tuple(fires),
            not_fired=self._pick(((), (missed,))),
            max_fires=self._pick((None, 3)),
            recover=self._pick((True, False)),
            tells=self._pick(TELLS),
        )

    def row_plan(self) -> Plan:
        name = self._pick(ROWS)
        return replace(self.plan(), schedule_id=name, name=name, expected_mark=self._base, store="db")

    def outcome(self) -> Outcome:
        return Outcome(
            lease=Lease(self.key(), self._pick(TOKENS)),
            status=self._pick(ENDS),
            output=self._pick((None, "42")),
            error=self._pick(ERRORS),
            traceback=self._pick((None, "Traceback: …")),
            counted=self._pick((True, False)),
            deadline=self._pick((None, None, self._base, self._base + timedelta(hours=2))),
        )

    def report(self, pair: Pair) -> DeliveryReport:
        """Of any fire, whatever it came to; its parcel need not have been queued."""
        key, about = self.key(), self._pick(tuple(About))
        fire_id = pair.memory.namespace.fire_id(key)
        one = CallbackReport(
            callback="c", status=self._pick(tuple(DeliveryStatus)), error="E: e", at=self._base, tries=1
        )
        return DeliveryReport(
            parcel_id=f"{fire_id}:{about}",
            fire_id=fire_id,
            key=key,
            about=about,
            status=self._pick(tuple(DeliveryStatus)),
            callbacks=self._pick(((), (one,), (one, one))),
            tries=self._random.randint(1, 3),
        )

    def parcel(self, pair: Pair) -> Parcel:
        """What a database decided."""
        key, about = self.key(), self._pick((About.MISSED, About.ALERT))
        fire_id = pair.memory.namespace.fire_id(key)
        return Parcel(
            id=f"{fire_id}:{about}",
            fire_id=fire_id,
            key=key,
            name=key.schedule_id,
            about=about,
            queued_at=self._base,
            status=self._pick((Status.MISSED, Status.ERROR)),
            error=self._pick(ERRORS),
            until=self._pick((None, self.due(9))),
            failing_since=self._pick((None, self.due(1))),
        )

    def ids(self) -> list[str]:
        """Of parcels that there are, mostly."""
        return [self._pick(self.queue).id for _ in range(3)] if self.queue else ["unknown"]

    def registration(self) -> Registration:
        initial = self._pick((None, self._base, self.due(2)))
        return Registration(schedule_id=self._pick(SCHEDULES), when=self._pick(("w", "w", "v")), initial=initial)

    def memory(self) -> Memory:
        marks = tuple(Mark(schedule_id=name, last_due=mark) for name, mark in self._marks.items())
        known = tuple(Registration(schedule_id=name, when=self._pick(("w", "v"))) for name in SCHEDULES[:2])
        seen_at = self._pick((None, *(self._base + timedelta(seconds=n) for n in (0, 1, 3))))
        return Memory(
            registrations=known, marks=marks, outbox=tuple(self.outbox), line=tuple(self.line), seen_at=seen_at
        )

    def running(self) -> Running:
        return Running(
            delivery=self.delivery(),
            started_at=self._base,
            attempt=self._pick((1, 2)),
            holds=self._pick(((), self.limits())),
        )

    def step(self, pair: Pair) -> None:
        kind = self._random.randrange(41)
        if kind == 0:
            registrations = [self.registration(), self.registration()]
            self.learn(pair.both(f"register {registrations}", lambda c: c.register(registrations)))
        elif kind in (1, 2, 3):
            plans, owner = [self.plan(), self.plan()], self._pick(BEATS)
            replies = pair.both(f"commit {plans}", lambda c: c.commit(plans, owner))[1]
            self.learn([reply for reply in replies if reply.mark])
        elif kind in (4, 5, 6):
            beat = self.beat()
            seen = pair.both(f"sweep {beat.owner}", lambda c: c.sweep(beat))
            self.outbox, self.line = seen.entries, seen.line
        elif kind == 7:
            holds = [self.hold(), self.hold()]
            pair.both(f"renew {holds}", lambda c: c.renew(holds))
        elif kind == 8:
            holds, until = [self.hold()], self._pick((None, self._base, self._base + timedelta(hours=2)))
            pair.both(f"confirm {until} {holds}", lambda c: c.confirm(holds, [until]))
        elif kind == 9:
            drops = [Drop(hold=self.hold(), status=self._pick((Status.MISSED, Status.ERROR)), reason="why")]
            pair.both(f"drop {drops}", lambda c: c.drop(drops))
        elif kind in (10, 11):
            holds, owner = [self.hold(), self.hold()], self._pick(BEATS)
            pair.both(f"take {owner} {holds}", lambda c: c.take(holds, owner))
        elif kind in (12, 13, 14):
            deliveries = [self.delivery(), self.delivery()]
            pair.both(f"start {deliveries}", lambda c: c.start(deliveries))
        elif kind == 15:
            leases = [self.lease() for _ in range(8)]
            pair.both(f"renew_leases {leases}", lambda c: c.renew_leases(leases))
        elif kind in (16, 17):
            outcomes = [self.outcome() for _ in range(4)]
            pair.both(f"finish {outcomes}", lambda c: c.finish(outcomes))
        elif kind == 18:
            limit, holding = self._pick((2, 500)), self._pick((True, False))
            pair.both(f"reap {limit} {holding}", lambda c: c.reap(limit=limit, holding=holding))
        elif kind in (20, 21, 22):
            if self._random.random() < 0.8:  # else the same again, as after a lost reply
                first, second = self.row_plan(), self.row_plan()
                plans = [first, second] if first.schedule_id != second.schedule_id else [first]
                self._prepared = plans, self._pick(BEATS), f"k{len(pair.log)}"
            prepared, owner, token = self._prepared
            pair.both(f"prepare {owner} {token} {prepared}", lambda c: c.prepare(prepared, owner, token))
        elif kind == 23:
            holds, token = [self.hold(), self.hold()], self._prepared[2]
            pair.both(f"discard {token} {holds}", lambda c: c.discard(holds, token))
        elif kind == 24:
            self._carry(pair)
        elif kind == 25:
            self._hold_or_release(pair)
        elif kind in (26, 27, 28, 29, 30, 31):
            requests = [self.request(), self.request()]
            pair.both(f"request {requests}", lambda c: c.request(requests))
        elif kind == 32:
            reservations = [self.reservation() for _ in range(8)]
            pair.both(f"reserve {reservations}", lambda c: c.reserve(reservations))
        elif kind == 33:
            keys = [self.key()]
            pair.both(f"free {keys}", lambda c: c.free(keys, "by hand"))
        elif kind in (34, 35, 36, 37, 38):
            self._tell(pair)
        elif self._random.random() < 0.3:
            self._disturb(pair)
        else:
            self._move(pair)

    def _tell(self, pair: Pair) -> None:
        what, owner, ids = (
            self._pick(("take", "sent", "queue", "report", "report", "page")),
            self._pick(BEATS),
            self.ids(),
        )
        if what == "take":
            pair.both(f"take_parcels {owner} {ids}", lambda c: c.take_parcels(owner, ids))
        elif what == "sent":
            pair.both(f"parcels_sent {ids[:1]}", lambda c: c.parcels_sent(ids[:1]))
        elif what == "queue":
            parcels = [self.parcel(pair), self.parcel(pair)]
            pair.both(f"queue_parcels {parcels}", lambda c: c.queue_parcels(parcels))
        elif what == "report":
            reports = [self.report(pair) for _ in range(6)]
            pair.both(f"report {reports}", lambda c: c.report(reports))
        else:
            limit, after = self._pick((1, 3, 100)), self._pick(("", *ids))
            pair.both(f"parcels {owner} {limit} {after}", lambda c: c.parcels(owner, limit, after))

    def _carry(self, pair: Pair) -> None:
        some = self._pick((*SCHEDULES, *ROWS))
        pair.both("uncarried", _uncarried)
        for coordinator in (pair.redis, pair.memory):  # each has serials of its own
            coordinator.carried([item for item in coordinator.uncarried() if item.record.key.schedule_id == some])

    def _hold_or_release(self, pair: Pair) -> None:
        name, by = self._pick((*SCHEDULES, "r")), self._pick(("person", "failures"))
        if self._random.random() < 0.4:
            pair.both(f"hold {name} {by}", lambda c: c.hold([name], by, "why"))
            return
        mark = self._marks.get(name, self._base)
        gone = NotFired(Status.SKIPPED, "paused", self.due(9), self.due(9), 1)
        releases = [
            Release(schedule_id=name, name=name, kind="task", expected_mark=mark, new_mark=self.due(9), skipped=(gone,))
        ]
        pair.both(f"release {releases}", lambda c: c.release(releases))

    def _move(self, pair: Pair) -> None:
        seconds = self._pick((0.7, 1.3, 2.9, 2.9, 2.9, 11.0, 16.0))
        pair.redis.clock_offset += seconds
        pair.log.append(f"{seconds} s pass")

    def _disturb(self, pair: Pair) -> None:
        memory, running = self.memory(), [self.running(), self.running()]
        if self._random.random() < 0.5:
            owner = self._pick(BEATS)
            pair.both(f"leave {owner}", lambda c: c.leave(owner))
            return
        pair.flush()
        pair.both(f"remember {memory}", lambda c: c.remember(memory))
        fresher = replace(self.memory(), outbox=tuple(self.outbox[1:]), line=tuple(self.line[1:]))
        pair.both(f"remember {fresher}", lambda c: c.remember(fresher))
        pair.both(f"remember_running {running}", lambda c: c.remember_running(running))

    def look(self, pair: Pair) -> None:
        keys = [FireKey(name, self.due(n)) for name in (*SCHEDULES, *ROWS) for n in range(1, 13)]
        pair.both("claims", lambda c: c.claims(keys))
        pair.both("run_states", lambda c: c.run_states(SCHEDULES))
        pair.both("beats", lambda c: c.beats())
        pair.both("uncarried", _uncarried)
        pair.both("limits", lambda c: c.limits())
        for owner in BEATS:
            self.queue = pair.both("parcels", lambda c, owner=owner: c.parcels(owner, 1000))  # type: ignore[misc]
        pair.both("holds", lambda c: [c.holds([name]) for name in (*SCHEDULES, "r")])
        for name in (*SCHEDULES, *ROWS):
            pair.both("fires", lambda c, name=name: c.fires(name))  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(10))
def test_same_calls_same_answers(seed: int, redis_url: str, redis_client: Any) -> None:
    pair = Pair(redis_url, redis_client)
    base = pair.both("attach", lambda c: c.attach()).now.replace(microsecond=0) - timedelta(hours=1)
    player = Player(seed, base)
    for number in range(150):
        player.step(pair)
        if number % 5 == 4:
            player.look(pair)
    pair.redis.close()
