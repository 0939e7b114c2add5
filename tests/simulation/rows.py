"""Seeds of schedules whose rows decide: beats, a coordinator, a table, people who edit it; and what must hold.

Smaller than :mod:`tests.simulation.run`, and about the two steps of a commit only: there are no workers, and a fire's
story ends with its message in the broker. Every call to the coordinator and to the table is a step at which a beat may
die, an answer may be lost, or the coordinator's memory; both may be out of reach for a while.

What must hold, whatever goes wrong: each due time has exactly one fate in the table; a message is sent only of a fire
that the table has, under the definition of its commit or a later one; each fire that the table has is sent, under one
task id, and a second time only where the first was in doubt.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.dispatch.routing import HEADER, Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.errors import Unreachable
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey, Namespace
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.schedule import Missed, Policy, Schedule
from celery_parrot.planning import next_sending
from celery_parrot.protocols import (
    Advance,
    Carried,
    Coordinator,
    Due,
    Mark,
    Message,
    Registration,
    RowStore,
    ScheduleStore,
    SendResult,
    SendStatus,
)
from celery_parrot.triggers import build
from celery_parrot.triggers.base import Trigger
from tests.simulation.witness import seconds_of
from tests.simulation.world import BASE, Process, World

NAMESPACE = Namespace("rows")
STORMY, PEACE = 30.0, 45.0
_LAST = 2.0
"""Seconds at the end whose fires are still under way."""

TIMEOUT = 1.0
FAULTS = ("die before", "die after", "answer lost", "refused", "slow")


# --- the table ---


@dataclass(slots=True)
class Row:
    schedule: Schedule
    trigger: Trigger
    mark: datetime
    auto_count: int = 0
    held: bool = False
    eras: list[tuple[datetime, Trigger]] = field(default_factory=list)  # from when on each trigger counted

    @property
    def version(self) -> int:
        return self.schedule.version


@dataclass(frozen=True, slots=True)
class Entry:
    """One fire or range of the history. ``superseded`` and ``paused`` come from people."""

    first: datetime
    last: datetime
    count: int
    what: str
    token: str = ""
    version: int = 0
    at: float = 0.0


@dataclass(slots=True)
class Table:
    """What the database has; every method is one transaction."""

    world: World
    rows: dict[str, Row] = field(default_factory=dict)
    history: dict[str, list[Entry]] = field(default_factory=dict)
    recorded: Counter[str] = field(default_factory=Counter)
    out_until: int = 0

    def entry(self, key: FireKey) -> Entry | None:
        """The fire of this due time, if the table has it."""
        return next((e for e in self.history[key.schedule_id] if e.what == "fire" and e.first == key.due_at), None)

    def move(self, move: Advance) -> tuple[Verdict, datetime | None]:
        plan = move.plan
        row = self.rows[plan.schedule_id]
        verdict = self.judge(row, plan)
        entries = self.history[plan.schedule_id]
        if verdict is not Verdict.COMMITTED:
            again = any(entry.token == move.token for entry in entries)
            return (Verdict.COMMITTED if again else verdict), row.mark
        for key, _ in move.fires:
            if plan.max_fires is not None and row.auto_count >= plan.max_fires:
                continue
            row.auto_count += 1
            version = row.version
            entries.append(Entry(key.due_at, key.due_at, 1, "fire", move.token, version, self.world.seconds))
        for gone in plan.not_fired:
            entries.append(Entry(gone.first, gone.last, gone.count, gone.reason, move.token))
        row.mark = max(row.mark, plan.new_mark)
        return Verdict.COMMITTED, row.mark

    @staticmethod
    def judge(row: Row, plan: Plan) -> Verdict:
        """The compare of compare-and-set."""
        if row.held:
            return Verdict.HELD
        if row.mark != plan.expected_mark or row.version != plan.expected_version:
            return Verdict.MOVED
        return Verdict.COMMITTED

    # --- people ---

    def leave_out(self, name: str, reason: str) -> None:
        """The undecided due times until now are not fired, and the mark is now."""
        row, now = self.rows[name], self.world.instant()
        due_times = []
        due_at = row.trigger.next_after(row.mark)
        while due_at is not None and due_at <= now:
            due_times.append(due_at)
            due_at = row.trigger.next_after(due_at)
        if due_times:
            self.history[name].append(Entry(due_times[0], due_times[-1], len(due_times), reason))
        row.mark = max(row.mark, now)

    def edit(self, name: str, chance: random.Random) -> None:
        """An argument, the time, a pause, or a resume."""
        row = self.rows[name]
        version = row.version + 1
        what = chance.choice(("argument", "argument", "when", "hold"))
        if what == "hold" or row.held:
            if row.held:
                self.leave_out(name, "paused")
            row.held = not row.held
        elif what == "when":
            self.leave_out(name, "superseded")
            config = {**row.schedule.schedule_config, "offset": chance.choice((0.0, 0.25, 0.5, 0.75))}
            row.schedule = replace(row.schedule, schedule_config=config)
            row.trigger = build("interval", config)
            row.eras.append((row.mark, row.trigger))
        row.schedule = replace(row.schedule, version=version, kwargs={"version": version})


class Rows:
    """The table as one beat reaches it: a ``ScheduleStore`` and ``RowStore``."""

    name = "db"

    def __init__(self, table: Table, step: Callable[[str, str, Callable[[], Any]], Any]) -> None:
        self._table, self._step = table, step

    def _ask(self, name: str, work: Callable[[], Any]) -> Any:
        return self._step("table", name, work)

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        def work() -> list[Due]:
            found = []
            for row in self._table.rows.values():
                at = next_sending(row.schedule, row.trigger, row.mark)
                if not row.held and at is not None and at <= before and not self._exhausted(row):
                    found.append((at, self._due(row)))
            return [due for _, due in sorted(found, key=lambda pair: pair[0])][:limit]

        return cast(Sequence[Due], self._ask("due", work))

    @staticmethod
    def _exhausted(row: Row) -> bool:
        most = row.schedule.policy.max_fires
        return most is not None and row.auto_count >= most

    @staticmethod
    def _due(row: Row) -> Due:
        return Due(row.schedule, row.trigger, row.mark, "person" if row.held else None)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        return ()

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        def work() -> datetime | None:
            rows = [row for row in self._table.rows.values() if not row.held and not self._exhausted(row)]
            coming = [next_sending(row.schedule, row.trigger, row.mark) for row in rows]
            return min((at for at in coming if at is not None), default=None)

        return cast("datetime | None", self._ask("next_due", work))

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        def work() -> dict[str, Due]:
            return {id_: self._due(self._table.rows[id_]) for id_ in schedule_ids if id_ in self._table.rows}

        return cast(Mapping[str, Due], self._ask("definitions", work))

    def registrations(self) -> Sequence[Registration]:
        return ()

    def learn(self, marks: Iterable[Mark]) -> None:
        """The marks are in the rows."""

    def forget_marks(self) -> None:
        """As above."""

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        return (), ()

    def advance(self, moves: Sequence[Advance], beat: str) -> Sequence[tuple[Verdict, datetime | None]]:
        work = lambda: [self._table.move(move) for move in moves]  # noqa: E731
        return cast("Sequence[tuple[Verdict, datetime | None]]", self._ask("advance", work))

    def prove(self, fires: Sequence[Fire]) -> Sequence[bool]:
        def work() -> list[bool]:
            return [fire.proof is None or self._prove(fire) for fire in fires]

        return cast(Sequence[bool], self._ask("prove", work))

    def _prove(self, fire: Fire) -> bool:
        assert fire.proof is not None
        plan = Plan.from_json(fire.proof.plan)
        keys = [FireKey(plan.schedule_id, one.due_at) for one in plan.fires]
        move = Advance(plan=plan, token=fire.proof.token, fires=tuple((key, NAMESPACE.fire_id(key)) for key in keys))
        self._table.move(move)
        entry = self._table.entry(fire.key)
        return entry is not None and entry.token == fire.proof.token

    def record(self, items: Sequence[Carried]) -> None:
        def work() -> None:
            self._table.recorded.update(item.record.fire_id for item in items)

        self._ask("record", work)

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        """Of no interest here."""

    def prune(self, *, limit: int = 1000) -> int:
        return 0


# --- one seed ---


@dataclass(frozen=True, slots=True)
class Sent:
    at: float
    by: str
    key: FireKey
    task_id: str
    version: int


@dataclass(frozen=True, slots=True)
class RowResult:
    seed: int
    violations: Sequence[str]
    fires: int
    messages: int
    struck: Counter[str]


class _Quiet:
    def emit(self, event: Event) -> None:
        """Nobody listens."""


class _Clock:
    def __init__(self, world: World) -> None:
        self.now = world.instant


class RowSimulation:
    """All that one seed decides."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = World(seed)
        chance = self.chance = self.world.random
        self.server = MemoryServer(_Clock(self.world))
        self.table = Table(self.world)
        self.on = True
        self.out_until = 0
        self.rates = {fault: chance.choice((0.0, 0.0, 0.004, 0.015)) for fault in FAULTS}
        self.outages, self.flushing = chance.random() < 0.4, chance.random() < 0.3
        self.struck: Counter[str] = Counter()
        self.flushes: list[float] = []
        self.sent: list[Sent] = []
        self.troubled: set[str] = set()
        self.violations: list[str] = []
        self.births = 0
        self.living: list[Process] = []
        for number in range(chance.choice((1, 2, 3))):
            self._add_row(f"r{number}")

    def _add_row(self, name: str) -> None:
        chance = self.chance
        config = {"seconds": chance.choice((1.0, 2.0, 3.0)), "offset": chance.choice((0.0, 0.25, 0.5))}
        policy = Policy(
            missed=chance.choice((Missed.COALESCE, Missed.CATCH_UP, Missed.CATCH_UP, Missed.SKIP)),
            misfire_grace=None,
            max_fires=chance.choice((None, None, None, 5)),
        )
        schedule = Schedule(
            schedule_id=name, name=name, target="t", schedule_type="interval", schedule_config=config,
            store="db", policy=policy, kwargs={"version": 1},
        )  # fmt: skip
        trigger = build("interval", config)
        self.table.rows[name] = Row(schedule, trigger, BASE, eras=[(BASE, trigger)])
        self.table.history[name] = []

    def run(self) -> RowResult:
        world = self.world
        for _ in range(self.chance.choice((2, 2, 3))):
            world.later(self.chance.uniform(0.0, 1.0), self._start)
        for call, mean in ((self._edit, 4.0), (self._outage, 12.0), (self._flush, 15.0), (self._freeze, 9.0)):
            self._again(call, mean)
        world.run(STORMY)
        self.on = False
        world.run(STORMY + PEACE)
        for process in self.living:
            process.on_death = lambda: None
            process.kill()
        world.run(world.seconds + 0.000_001)
        self._check()
        fires = sum(entry.what == "fire" for entries in self.table.history.values() for entry in entries)
        return RowResult(self.seed, sorted(set(self.violations)), fires, len(self.sent), self.struck)

    # --- processes ---

    def _start(self) -> None:
        self.births += 1
        process = Process(self.world, f"B{self.births}")
        self.living.append(process)

        def died() -> None:
            self.living.remove(process)
            self.world.later(self.chance.uniform(0.2, 6.0) if self.on else 0.5, self._start)

        process.on_death = died
        step = lambda where, name, work: self._step(process, where, name, work)  # noqa: E731
        coordinator = _Wire(MemoryCoordinator(NAMESPACE, server=self.server), step)
        rows = Rows(self.table, step)

        def body() -> None:
            ticker = Ticker(
                coordinator=cast(Coordinator, coordinator),
                stores=[cast(ScheduleStore, rows)],
                sender=_Sender(self, process),
                router=Router(NAMESPACE, {}),
                clock=process,
                events=_Quiet(),
                identity=Identity(owner=process.name, host="simulated", pid=0, version="0"),
                settings=TickSettings(on_time=3.0),
                rows=[cast(RowStore, rows)],
            )
            while True:
                process.sleep(max(ticker.tick(), 0.000_5))

        process.spawn(body)

    def _step(self, process: Process, where: str, name: str, work: Callable[[], Any]) -> Any:
        """One call somewhere: it travels, may go wrong, and comes back."""
        fault = self._fault()
        process.sleep(self.chance.uniform(0.0002, 0.004) + (self.chance.choice((0.3, 1.5, 4.0)) * (fault == "slow")))
        if fault == "die before":
            process.kill()
        until = self.out_until if where == "coordinator" else self.table.out_until
        if fault == "refused" or self.world.now < until:
            process.sleep(self.chance.choice((0.001, TIMEOUT)))
            raise Unreachable(f"{where} is out of reach")
        answer = work()
        if fault == "die after":
            self.troubled.add(process.name)
            process.kill()
        if fault == "answer lost":
            self.troubled.add(process.name)
            process.sleep(self.chance.choice((0.001, TIMEOUT)))
            raise Unreachable("the answer was lost")
        process.sleep(self.chance.uniform(0.0002, 0.004))
        return answer

    def _fault(self) -> str:
        drawn = self.chance.random()
        for fault, rate in self.rates.items():
            if drawn < rate and self.on:
                self.struck[fault] += 1
                return fault
            drawn -= rate
        return ""

    # --- weather and people ---

    def _again(self, call: Callable[[], object], mean: float) -> None:
        wait = self.chance.expovariate(1.0 / mean)
        if self.world.seconds + wait < STORMY:

            def strike() -> None:
                self._again(call, mean)
                call()

            self.world.later(wait, strike)

    def _edit(self) -> None:
        self.struck["edit"] += 1
        self.table.edit(self.chance.choice(sorted(self.table.rows)), self.chance)

    def _outage(self) -> None:
        if not self.outages:
            return
        self.struck["outage"] += 1
        until = self.world.now + round(self.chance.choice((0.5, 2.5, 8.0)) * 1_000_000)
        if self.chance.random() < 0.5:
            self.out_until = until
        else:
            self.table.out_until = until

    def _flush(self) -> None:
        if self.flushing:
            self.struck["memory lost"] += 1
            self.flushes.append(self.world.seconds)
            self.server.flush()

    def _freeze(self) -> None:
        if self.living and self.chance.random() < 0.4:
            self.struck["stopped"] += 1
            victim = self.chance.choice(self.living)
            self.troubled.add(victim.name)
            victim.freeze(self.chance.choice((0.5, 4.0, 12.0)))

    # --- judgement ---

    def _wrong(self, text: str) -> None:
        self.violations.append(text)

    def _check(self) -> None:
        for name, entries in self.table.history.items():
            self._check_fates(name, entries)
        by_fire: dict[FireKey, list[Sent]] = {}
        for one in self.sent:
            by_fire.setdefault(one.key, []).append(one)
        for name, entries in self.table.history.items():
            for entry in entries:
                if entry.what == "fire":
                    self._check_fire(entry, by_fire.pop(FireKey(name, entry.first), []), name)
        for key in by_fire:
            self._wrong(f"{key.text} was sent, and the table does not have it")
        with self.server.space(NAMESPACE, MemoryCoordinator(NAMESPACE, server=self.server).timing) as space:
            old = [key for key in space.outbox if seconds_of(key.due_at) < STORMY + PEACE - _LAST]
            if old:
                self._wrong(f"the outbox still holds {len(old)} fires")

    def _check_fates(self, name: str, entries: Sequence[Entry]) -> None:
        """Each due time of each definition that ever was, up to the mark, is in exactly one entry."""
        row = self.table.rows[name]
        most = row.schedule.policy.max_fires
        fired = sum(entry.what == "fire" for entry in entries)
        if most is not None and fired > most:
            self._wrong(f"{name}: {fired} fires, max_fires is {most}")
        ends = [begin for begin, _ in row.eras[1:]] + [row.mark]
        met = 0
        for (begin, trigger), end in zip(row.eras, ends, strict=True):
            due_at = trigger.next_after(begin)
            while due_at is not None and due_at <= end:
                fates = [entry.what for entry in entries if entry.first <= due_at <= entry.last]
                met += len(fates)
                if len(fates) > 1 or (not fates and (most is None or fired < most)):
                    self._wrong(f"{name} {due_at} has these fates: {fates}")
                due_at = trigger.next_after(due_at)
        if met != (said := sum(entry.count for entry in entries)):
            self._wrong(f"{name}: {met} due times have a fate, the history says {said}")

    def _check_fire(self, entry: Entry, sent: Sequence[Sent], name: str) -> None:
        what = f"{name} {entry.first}"
        flushed = [at for at in self.flushes if at >= entry.at - 0.5]
        if not sent:
            if entry.at > STORMY + PEACE - _LAST:
                return  # it is under way
            held = self.table.rows[name].held or any(one.what == "paused" for one in self.table.history[name])
            if not held and not (flushed and flushed[0] <= entry.at + 12.0):
                self._wrong(f"{what} is committed and was never sent")
            return
        if len({one.task_id for one in sent}) > 1:
            self._wrong(f"{what} was sent under several task ids")
        if any(one.at < entry.at for one in sent):
            self._wrong(f"{what} was sent at {sent[0].at:.3f}, before the row moved at {entry.at:.3f}")
        if any(one.version < entry.version for one in sent):
            self._wrong(f"{what} was sent by version {sent[0].version}, committed by {entry.version}")
        if len(sent) > 1 and not (flushed or self.troubled.intersection(one.by for one in sent[:-1]) or self.outages):
            dead = {one.by for one in sent[:-1]} - {process.name for process in self.living}
            if not dead and not self.struck["refused"] and not self.struck["slow"]:
                self._wrong(f"{what} was sent {len(sent)} times, and nothing was wrong")


class _Wire:
    """A coordinator as one beat reaches it."""

    def __init__(self, client: MemoryCoordinator, step: Callable[[str, str, Callable[[], Any]], Any]) -> None:
        self.timing = client.timing
        for name in (
            "attach", "sweep", "commit", "register", "confirm", "drop", "renew", "take", "reap", "remember", "leave",
            "prepare", "discard", "uncarried", "carried",
        ):  # fmt: skip
            setattr(self, name, self._through(name, getattr(client, name), step))

    @staticmethod
    def _through(
        name: str, call: Callable[..., Any], step: Callable[[str, str, Callable[[], Any]], Any]
    ) -> Callable[..., Any]:
        def through(*args: Any, **kwargs: Any) -> Any:
            return step("coordinator", name, lambda: call(*args, **kwargs))

        return through


class _Sender:
    def __init__(self, simulation: RowSimulation, process: Process) -> None:
        self._simulation, self._process = simulation, process

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        results = []
        for message in messages:
            self._process.sleep(self._simulation.chance.uniform(0.0002, 0.004))
            if self._process.monotonic() > until:
                results.append(SendResult(SendStatus.NOT_TRIED))
                continue
            header = message.headers[HEADER]
            key = FireKey(header["schedule_id"], datetime.fromisoformat(header["due_at"]))
            at, by = self._simulation.world.seconds, self._process.name
            self._simulation.sent.append(Sent(at, by, key, message.task_id, message.kwargs["version"]))
            if self._simulation.table.entry(key) is None:
                self._simulation.violations.append(f"{key.text} is sent, and the table does not have it")
            results.append(SendResult(SendStatus.SENT))
        return results

    def close(self) -> None:
        """Nothing to close."""


def simulate_rows(seed: int) -> RowResult:
    """Run one seed."""
    return RowSimulation(seed).run()
