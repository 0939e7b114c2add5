"""Limits in a simulation: what the fires of a seed must hold, and whether they do."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from celery_parrot.coordination.memory.space import MemorySpace
from celery_parrot.dispatch.limits import Bounds, limits_of
from celery_parrot.model.fire import FireKey
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import SLOTS, Busy, Limit
from celery_parrot.stores.memory import Definition
from tests.simulation.history import Execution, History

_EPSILON = 0.000_01


class Limited:
    """Two seeds of five have limits. Chance of their own decides, so that the others stay as they are.

    :ivar definitions: the schedules, with groups and ``overlap`` where the seed has limits.
    """

    def __init__(self, seed: int, definitions: Sequence[Definition]) -> None:
        chance = random.Random(f"{seed} limits")
        self.on = chance.random() < 0.4
        agent = Kind(name="agent", task="agents.run", queue="agents")
        self.bounds = Bounds()
        if self.on:
            self.bounds = Bounds(max_concurrent=chance.choice((None, None, 2)), reap_after=chance.choice((20.0, 60.0)))
            group = chance.choice((None, "g2"))
            agent = replace(agent, max_in_flight=chance.choice((None, 1, 2)), exclusion_group=group)
            definitions = [_limited(chance, definition) for definition in definitions]
        self.kinds: Mapping[str, Kind] = {"agent": agent}
        self.definitions = definitions
        routed = {**self.kinds, "task": Kind(name="task", declared=False)}
        self._limits: Mapping[str, tuple[Limit, ...]] = {
            one.schedule_id: limits_of(one.schedule, routed[one.schedule.kind], self.bounds) for one in definitions
        }

    def of(self, schedule_id: str) -> tuple[Limit, ...]:
        return self._limits.get(schedule_id, ())

    # --- after each call ---

    def granted(self, space: MemorySpace) -> frozenset[FireKey]:
        """Who holds all it asked for."""
        return frozenset(key for key, claim in space.claims.items() if claim.granted)

    def look(self, space: MemorySpace, before: frozenset[FireKey], reaped: bool) -> Sequence[str]:
        """What is wrong with holders and line, where no memory was lost."""
        wrong = [
            f"{limit.name} has {len(space.holders(limit.name))} holders"
            for limit in {limit for limits in self._limits.values() for limit in limits}
            if len(space.holders(limit.name)) > limit.capacity
        ]
        line = space.line()
        for key in sorted(self.granted(space) - before):
            wanted = _waited_for(space.claims[key].limits) - {SLOTS}
            passed = [c.fire.key for c in line if c.fire.key.due_at < key.due_at and wanted & _waited_for(c.limits)]
            wrong += [f"{key.text} passes {other.text} in its line" for other in passed]
        if reaped and not space.quiet:
            wrong += self._stuck(space)
        return wrong

    def _stuck(self, space: MemorySpace) -> Sequence[str]:
        """Every waiting fire lacks something, or stands behind one that needs the same."""
        before: set[str] = set()
        found = []
        for claim in space.line():
            wanted = [limit for limit in claim.limits if limit.busy is Busy.WAIT]
            full = {limit.name for limit in wanted if len(space.holders(limit.name)) >= limit.capacity}
            if not full and not before & _waited_for(claim.limits):
                found.append(f"{claim.fire.key.text} waits for nothing")
            before |= _waited_for(claim.limits)
        return found

    # --- at the end ---

    def together(self, history: History, lease: float) -> Sequence[str]:
        """Bodies with a live lease that ran together and must not have."""
        spans: dict[str, list[tuple[float, float, str]]] = {}
        capacity = {limit.name: limit.capacity for limits in self._limits.values() for limit in limits}
        for log in history.fires.values():
            for one in log.executions:
                for limit in self.of(log.key.schedule_id):
                    spans.setdefault(limit.name, []).append((one.at, _until(history, one, lease), log.key.text))
        return [line for name, there in spans.items() for line in _crowds(name, there, capacity[name])]


def _limited(chance: random.Random, definition: Definition) -> Definition:
    schedule = definition.schedule
    policy = replace(
        schedule.policy,
        exclusion_group=chance.choice((None, "g1", "g1", "g2")),
        overlap=chance.choice((None, None, "skip", "buffer_one", "buffer_all")),
    )
    return replace(definition, schedule=replace(schedule, policy=policy))


def _waited_for(limits: Sequence[Limit]) -> frozenset[str]:
    return frozenset(limit.name for limit in limits if limit.busy is Busy.WAIT)


def _until(history: History, one: Execution, lease: float) -> float:
    """Until when a body ran with a live lease."""
    grants = history.leases.get(one.token, [one.at])
    died = history.lives[one.worker].died
    ends = [grants[-1] + lease, *(at for at in (one.ended, died) if at is not None and at >= one.at)]
    return min(ends)


def _crowds(name: str, spans: Sequence[tuple[float, float, str]], capacity: int) -> Sequence[str]:
    found = []
    for begin, _, text in spans:
        there = [other for at, until, other in spans if at <= begin < until - _EPSILON]
        if len(there) > capacity:
            found.append(f"{name}: {', '.join(sorted(there))} run together at {begin:.3f}, as {text} begins")
    return found
