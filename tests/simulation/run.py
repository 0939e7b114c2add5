"""One seed: beats, workers, a coordinator and a broker, faults for a while, then peace; and what the checker says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import cast

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Coordinator, Timing
from celery_parrot.stores.memory import CodeStore
from tests.simulation import checker
from tests.simulation.broker import Broker, BrokerSender
from tests.simulation.faults import STORMS, Fault, Weather
from tests.simulation.history import History, Life
from tests.simulation.limited import Limited
from tests.simulation.schedules import schedules
from tests.simulation.wire import Net, Wire
from tests.simulation.witness import Witness
from tests.simulation.worker import Worker
from tests.simulation.world import Process, World

STORMY = 40.0
"""Seconds with faults and due times. Afterwards every process lives, and what is under way may come to its end."""

PEACE = 200.0
NAMESPACE = Namespace("simulated")


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    violations: Sequence[str]
    history: History
    weather: Weather
    steps: int
    seconds: float
    trace: Sequence[str]


class _ServerClock:
    def __init__(self, world: World) -> None:
        self.now = world.instant


class _Talk:
    """Events of a process, into the trace. By name only: some texts hold an epoch, which is random."""

    def __init__(self, world: World, history: History, name: str) -> None:
        self._world, self._history, self._name = world, history, name

    def emit(self, event: Event) -> None:
        if event.name in (events.SCHEDULE_BROKEN, events.STORE_FAILED):
            self._history.wrong(self._world.seconds, f"{self._name} says {event.text}")
        if self._world.lines is not None:
            self._world.say(self._name, f"({event.name})")


class Simulation:
    """All that one seed decides."""

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.seed = seed
        self.world = world = World(seed)
        world.lines = [] if trace else None
        chance = world.random
        self.history = History()
        self.weather = Weather.draw(chance)
        self.timing = Timing(max_failures=0)
        self._server = MemoryServer(_ServerClock(world))
        witness = Witness(world, self.history, self._server, NAMESPACE, self.timing)
        self.net = Net(world, self.weather, self.history, witness)
        self.broker = Broker(self.net, late=chance.random() < 0.5)
        drawn = schedules(chance, end_at=world.instant() + timedelta(seconds=STORMY))
        self.limited = witness.limited = Limited(seed, drawn)
        self.definitions = self.limited.definitions
        self.settings = TickSettings(on_time=chance.choice((2.0, 5.0, 10.0)), reap_interval=5.0)
        self._births: dict[str, int] = {}
        self._living: dict[str, Process] = {}
        self._leaving: set[str] = set()
        self._beats = chance.choice((2, 3, 3))
        self._workers = chance.choice((1, 2, 2))

    def run(self) -> Result:
        world, names = self.world, [f"B{n + 1}" for n in range(self._beats)]
        for name in names + [f"W{n + 1}" for n in range(self._workers)]:
            world.later(world.random.uniform(0.0, 1.5), lambda name=name: self._start(name))  # type: ignore[misc]
        for fault in sorted(self.weather.kinds & STORMS.keys()):
            self._brew(fault)
        world.run(STORMY)
        self._calm()
        world.run(STORMY + PEACE, self._idle)
        for process in self._living.values():
            process.on_death = lambda: None
            process.kill()
        world.run(world.seconds + 0.000_001)
        checker.check(self.history, self.definitions, self.net.witness)
        violations = sorted(set(self.history.violations))
        lines = world.lines or []
        return Result(self.seed, violations, self.history, self.weather, world.steps, world.seconds, lines)

    def _idle(self) -> bool:
        """Nothing is under way any more."""
        if not self.broker.empty:
            return False
        space = self.net.witness.space()
        running = any(claim.fire.token for claim in space.claims.values())
        return not running and not space.outbox and not space.line() and self.world.seconds > STORMY + 20.0

    # -- processes --

    def _start(self, name: str) -> None:
        self._births[name] = self._births.get(name, 0) + 1
        offset = 0.0
        if Fault.CLOCK in self.weather.kinds and self.world.random.random() < 0.5:
            offset = self.world.random.uniform(-40.0, 40.0)
            self.weather.strike(Fault.CLOCK)
        process = Process(self.world, f"{name}.{self._births[name]}", offset=offset)
        self._living[name] = process
        self.history.lives[process.name] = Life(process.name, self.world.seconds, name.startswith("B"))
        process.on_death = lambda: self._died(name, process)
        wire = Wire(self.net, process, MemoryCoordinator(NAMESPACE, self.timing, server=self._server))
        self.world.say(process.name, "starts")
        talk = _Talk(self.world, self.history, process.name)
        if name.startswith("B"):
            process.spawn(lambda: self._beat(name, process, wire, talk))
        else:
            Worker(process, wire, self.broker, NAMESPACE, talk, self.seed)

    def _beat(self, name: str, process: Process, wire: Wire, talk: _Talk) -> None:
        ticker = Ticker(
            coordinator=cast(Coordinator, wire),
            stores=[CodeStore(self.definitions, on_broken=self._broken)],
            sender=BrokerSender(self.broker, process),
            router=Router(NAMESPACE, self.limited.kinds, bounds=self.limited.bounds),
            clock=process,
            events=talk,
            identity=Identity(owner=process.name, host="simulated", pid=0, version="0"),
            settings=self.settings,
        )
        while True:
            pause = ticker.tick()
            if name in self._leaving:
                self._leaving.discard(name)
                ticker.close()
                self.world.say(process.name, "leaves")
                process.kill()
            process.sleep(max(pause, 0.000_5))

    def _broken(self, schedule: Schedule, reason: str) -> None:
        self.history.wrong(self.world.seconds, f"{schedule.name} is broken: {reason}")

    def _died(self, name: str, process: Process) -> None:
        self.world.say(process.name, "is dead")
        self.history.lives[process.name].died = self.world.seconds
        self._leaving.discard(name)
        self.broker.died(process)
        wait = self.world.random.uniform(0.2, 9.0) if self.weather.on else 0.5
        self.world.later(wait, lambda: self._start(name))

    # -- weather --

    def _brew(self, fault: Fault) -> None:
        wait = self.world.random.expovariate(1.0 / STORMS[fault])
        if self.world.seconds + wait < STORMY:
            self.world.later(wait, lambda: self._break_loose(fault))

    def _break_loose(self, fault: Fault) -> None:
        self._brew(fault)
        world, chance = self.world, self.world.random
        span = min(chance.choice((0.7, 2.6, 6.0, 14.0, 25.0)), STORMY - world.seconds)
        begin, end = world.seconds, world.seconds + span
        until = world.now + round(span * 1_000_000)
        alive = [process for _, process in sorted(self._living.items()) if process.alive]
        beats = [name for name, process in sorted(self._living.items()) if process.alive and name.startswith("B")]
        victim = chance.choice(alive) if alive else None
        self.weather.strike(fault)
        world.say("-----", f"{fault}{f': {victim.name}' if victim and fault in _PERSONAL else ''}, {span:.3f} s")
        if fault is Fault.OUTAGE:
            self._out(begin, end, until)
        elif fault is Fault.BROKER_OUT:
            self.broker.out_until = max(self.broker.out_until, until)
            self.history.broker_troubles.append((begin, end + 6.0))
        elif fault is Fault.FLUSH and chance.random() < 0.5:
            self._flush()
        elif fault is Fault.FLUSH:  # it stops, and starts again empty
            self._out(begin, end, until)
            world.later(span, self._flush)
        elif fault is Fault.OTHER_SERVER:
            self._server.forget_identity()
            self.history.other_servers.append(begin)
        elif fault is Fault.LEAVE:
            if beats:
                self._leaving.add(chance.choice(beats))
        elif victim is not None:
            self._hurt(fault, victim, span, until)

    def _out(self, begin: float, end: float, until: int) -> None:
        self.net.out_until = max(self.net.out_until, until)
        self.history.outages.append((begin, end))

    def _flush(self) -> None:
        self.world.say("-----", "memory is lost")
        self.net.witness.flushed(self.broker.keys)
        self._server.flush()

    def _hurt(self, fault: Fault, victim: Process, span: float, until: int) -> None:
        if fault is Fault.KILL:
            victim.kill()
        elif fault is Fault.FREEZE:
            self.net.trouble(victim, span)
            victim.freeze(span)
        else:
            self.net.trouble(victim, span)
            victim.cut_until = max(victim.cut_until, until)

    def _calm(self) -> None:
        self.world.say("-----", "peace")
        self.weather.on = False


_PERSONAL = (Fault.KILL, Fault.FREEZE, Fault.CUT)


def simulate(seed: int, *, trace: bool = False) -> Result:
    """Run one seed."""
    return Simulation(seed, trace=trace).run()
