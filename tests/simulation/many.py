"""Seeds by the thousand: what is kept of each. Apart from ``__main__``, whose functions other processes cannot find."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.faults import Fault
from tests.simulation.run import Result, simulate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is left of a result where thousands are counted."""

    seed: int
    violations: Sequence[str]
    figures: Counter[str]
    faults: Counter[Fault]

    @classmethod
    def of(cls, result: Result) -> Outcome:
        figures = Counter({**result.history.figures(), "steps": result.steps, "seconds": round(result.seconds)})
        return cls(result.seed, result.violations, figures, result.weather.struck)


def try_seed(seed: int) -> Outcome:
    """One seed, without a trace."""
    return Outcome.of(simulate(seed))


def command(seed: int) -> str:
    """How to see what a seed does."""
    return f"python -m tests.simulation --seed {seed} --trace"
