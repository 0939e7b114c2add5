"""Between a process and the coordinator: every call is a step at which something may go wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.errors import MemoryLost, Unreachable
from tests.simulation.faults import Fault, Weather
from tests.simulation.history import History
from tests.simulation.witness import Witness
from tests.simulation.wording import text
from tests.simulation.world import Process, World

TIMEOUT = 1.0
"""Seconds after which a process gives up a call that nobody answers."""


class Net:
    """What all wires of a simulation share."""

    def __init__(self, world: World, weather: Weather, history: History, witness: Witness) -> None:
        self.world, self.weather, self.history, self.witness = world, weather, history, witness
        self.out_until = 0

    def latency(self) -> float:
        return self.world.random.uniform(0.0002, 0.004)

    def trouble(self, process: Process, seconds: float = 0.0) -> None:
        """Note that a process is in trouble for a span from now."""
        now = self.world.seconds
        self.history.lives[process.name].troubles.append((now, now + seconds))


class Wire:
    """A coordinator as one process reaches it. Stands in for any protocol of one: calls go through by name."""

    def __init__(self, net: Net, process: Process, client: MemoryCoordinator) -> None:
        self._net, self._process, self._client = net, process, client
        self.timing = client.timing

    def __getattr__(self, name: str) -> Callable[..., Any]:
        carry = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, lambda: carry(*args, **kwargs), args)

        setattr(self, name, call)
        return call

    def _say(self, line: str) -> None:
        self._net.world.say(self._process.name, line)

    def _call(self, name: str, carry: Callable[[], Any], args: tuple[Any, ...]) -> Any:
        net, process, world = self._net, self._process, self._net.world
        fault = net.weather.on_call(world.random)
        travel, way_back = net.latency(), net.latency()
        if fault is Fault.SLOW:
            slow = world.random.choice((0.3, 1.2, 2.5, 6.0))
            net.trouble(process, slow)
            travel, way_back = (travel + slow, way_back) if world.random.random() < 0.5 else (travel, way_back + slow)
        process.sleep(travel)
        if fault is Fault.CRASH_BEFORE:
            self._die(name, "before")
        self._reach(name)
        if fault is Fault.LATE and name not in ("attach", "remember", "remember_running"):
            self._give_up(name, carry, args)
        known = self._client._known
        try:
            answer = net.witness.carried_out(process.name, name, carry, args)
        except MemoryLost:
            if world.lines is not None:
                self._say(f"{name}: memory lost")
            process.sleep(way_back)
            raise
        if world.lines is not None:
            self._say(f"{name}{text(args)} -> {text(answer)}")
        if fault is Fault.CRASH_AFTER:
            self._die(name, "after")
        if fault is Fault.LOST_REPLY:
            self._client._known = known  # a process that was not told does not know
            net.trouble(process, TIMEOUT)
            self._say(f"{name}: reply lost")
            process.sleep(world.random.choice((0.001, TIMEOUT)))
            raise Unreachable("the connection broke")
        process.sleep(way_back)
        if name in ("sweep", "commit"):
            net.history.lives[process.name].contacts.append(world.seconds)
        return answer

    def _reach(self, name: str) -> None:
        """Raise if the coordinator is out or this process cut off from it."""
        net, process, world = self._net, self._process, self._net.world
        if world.now < process.cut_until:
            net.trouble(process, TIMEOUT)
        elif world.now >= net.out_until:
            return
        self._say(f"{name}: cannot reach the coordinator")
        process.sleep(world.random.choice((0.001, TIMEOUT)))
        raise Unreachable("refused, or no answer in time")

    def _give_up(self, name: str, carry: Callable[[], Any], args: tuple[Any, ...]) -> None:
        """The process stops waiting; the server carries the call out all the same."""
        net, process, world = self._net, self._process, self._net.world

        def late() -> None:
            try:
                answer = net.witness.carried_out(process.name, name, carry, args)
            except MemoryLost:
                return
            if world.lines is not None:
                self._say(f"{name}{text(args)} -> {text(answer)}, but nobody waits for the answer")

        net.trouble(process, TIMEOUT + 2.0)
        world.later(world.random.uniform(0.0, 2.0), late)
        process.sleep(world.random.uniform(0.001, TIMEOUT))
        raise Unreachable("no answer in time")

    def _die(self, name: str, when: str) -> None:
        self._say(f"crashes {when} {name}")
        self._process.kill()
