"""What can go wrong, and how much of it a seed gets."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Fault(StrEnum):
    """The first group strikes a call to the coordinator, the second a process or server, the third the broker."""

    CRASH_BEFORE = "crash before a call"
    CRASH_AFTER = "crash after a call"
    LOST_REPLY = "reply lost"
    LATE = "carried out after it was given up"
    SLOW = "slow call"

    OUTAGE = "coordinator out"
    CUT = "process cut off"
    FREEZE = "process stopped"
    KILL = "process killed"
    LEAVE = "beat stopped in good order"
    FLUSH = "memory lost"
    OTHER_SERVER = "server changed, data kept"
    CLOCK = "wall clock off"

    BROKER_OUT = "broker out"
    REFUSED = "publish failed"
    DOUBTFUL = "publish failed, delivered"
    STRAY = "publish failed, delivered later"
    TWICE = "delivered twice"


ON_CALL = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST_REPLY, Fault.LATE, Fault.SLOW)
ON_PUBLISH = (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.REFUSED, Fault.DOUBTFUL, Fault.STRAY, Fault.SLOW)
STORMS: Mapping[Fault, float] = {  # mean seconds between two, where the seed has any
    Fault.OUTAGE: 20.0,
    Fault.CUT: 9.0,
    Fault.FREEZE: 8.0,
    Fault.KILL: 7.0,
    Fault.LEAVE: 12.0,
    Fault.FLUSH: 25.0,
    Fault.OTHER_SERVER: 30.0,
    Fault.BROKER_OUT: 15.0,
}
_RARE = {Fault.FLUSH: 0.12, Fault.OTHER_SERVER: 0.08}
_USUAL = 0.35


@dataclass(slots=True)
class Weather:
    """The faults of one seed: a random handful of kinds, so that each is also met alone.

    :ivar rates: chance per call or publish, of the kinds that strike there.
    :ivar struck: how often each has struck.
    """

    kinds: frozenset[Fault]
    rates: Mapping[Fault, float]
    struck: Counter[Fault] = field(default_factory=Counter)
    on: bool = True

    @classmethod
    def draw(cls, chance: random.Random) -> Weather:
        some = [fault for fault in Fault if chance.random() < _RARE.get(fault, _USUAL)]
        return cls(frozenset(some), {fault: chance.choice((0.002, 0.01, 0.03)) for fault in some})

    def on_call(self, chance: random.Random) -> Fault | None:
        return self._pick(ON_CALL, chance)

    def on_publish(self, chance: random.Random) -> Fault | None:
        return self._pick(ON_PUBLISH, chance, 4.0)

    def twice(self, chance: random.Random) -> bool:
        return self._pick((Fault.TWICE,), chance, 4.0) is not None

    def _pick(self, of: tuple[Fault, ...], chance: random.Random, times: float = 1.0) -> Fault | None:
        if not self.on:
            return None
        drawn = chance.random()
        for fault in of:
            rate = self.rates.get(fault, 0.0) * times
            if drawn < rate:
                self.strike(fault)
                return fault
            drawn -= rate
        return None

    def strike(self, fault: Fault) -> None:
        self.struck[fault] += 1
