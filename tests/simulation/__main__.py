"""``python -m tests.simulation --seed N [--trace]`` replays one seed, ``--seeds A..B`` tries many."""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tests.simulation.bugs import BUGS
from tests.simulation.faults import Fault
from tests.simulation.many import Outcome, command, try_seed
from tests.simulation.run import simulate
from tests.support.waiting import monotonic


def replay(seed: int, *, trace: bool) -> bool:
    """Print one seed; true if nothing is wrong with it."""
    result = simulate(seed, trace=trace)
    print(*result.trace, sep="\n", end="\n" if trace else "")
    outcome = Outcome.of(result)
    print(f"seed {seed}:", ", ".join(f"{count} {name}" for name, count in outcome.figures.items()))
    print("faults:", ", ".join(f"{count} × {fault}" for fault, count in sorted(outcome.faults.items())) or "none")
    print(*(f"WRONG {text}" for text in result.violations or ()), sep="\n", end="\n" if result.violations else "")
    return not result.violations


def try_many(seeds: Sequence[int], jobs: int) -> bool:
    """Print progress, failing seeds with the command that replays them, and the figures; true if none fails."""
    began, done, failing = monotonic(), 0, 0
    figures: Counter[str] = Counter()
    faults: Counter[Fault] = Counter()
    for outcome in _outcomes(seeds, jobs):
        done += 1
        figures.update(outcome.figures)
        faults.update(outcome.faults)
        if outcome.violations:
            failing += 1
            print(f"\rseed {outcome.seed}: {outcome.violations[0]}\n    {command(outcome.seed)}")
        if sys.stderr.isatty() or done % 500 == 0 or done == len(seeds):
            print(f"\r{done}/{len(seeds)} seeds, {failing} failing", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"{done} seeds in {monotonic() - began:.1f} s:", ", ".join(f"{n} {name}" for name, n in figures.items()))
    print(f"{faults.total()} faults:", ", ".join(f"{count} × {fault}" for fault, count in faults.most_common()))
    print(f"{failing} failing")
    return not failing


def _outcomes(seeds: Iterable[int], jobs: int) -> Iterator[Outcome]:
    if jobs == 1:
        yield from map(try_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(try_seed, seeds, chunksize=10)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=int, help="replay this one")
    which.add_argument("--seeds", metavar="A..B", help="try these, B excluded")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every step")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="with --seeds: processes")
    parser.add_argument("--bug", choices=sorted(BUGS), help="with a known bug patched in (and one process)")
    given = parser.parse_args(arguments)
    patch = BUGS[given.bug].patch() if given.bug else contextlib.nullcontext()
    with patch:
        if given.seed is not None:
            return 0 if replay(given.seed, trace=given.trace) else 1
        first, _, last = given.seeds.partition("..")
        return 0 if try_many(range(int(first), int(last)), 1 if given.bug else given.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
