"""Hundreds of seeds: no fire lost, none run twice, one outcome each, in time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.simulation.bugs import Bug
from tests.simulation.many import command
from tests.simulation.run import simulate

ROOT = Path(__file__).parents[2]


def test_no_fire_is_lost_or_doubled(chunk: Sequence[int]) -> None:
    """Whatever goes wrong: each due time runs exactly once, or is recorded as not run, and the books agree."""
    for seed in chunk:
        result = simulate(seed)
        if result.violations:
            lines = "\n".join(result.violations[:20])
            pytest.fail(f"seed {seed}:\n{lines}\nReplay it: {command(seed)}", pytrace=False)


@pytest.mark.timeout(600)
def test_known_bugs_are_found(bug: Bug) -> None:
    """A bug patched in is found within 2,000 seeds: what the other test says is worth something."""
    with bug.patch():
        assert any(simulate(seed).violations for seed in range(2000)), f"{bug.name}: not found"


def test_a_seed_is_the_same_history_everywhere() -> None:
    """The trace of a seed depends on nothing but the seed, not even on the hashes of this process."""
    for seed in (3, 12):
        traces = {_trace_of(seed, hashes) for hashes in ("0", "1", "4711")}
        assert len(traces) == 1
        assert len(traces.pop().splitlines()) > 200


def _trace_of(seed: int, hashes: str) -> str:
    arguments = [sys.executable, "-m", "tests.simulation", "--seed", str(seed), "--trace"]
    environment = {**os.environ, "PYTHONHASHSEED": hashes}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return done.stdout


def test_a_trace_changes_nothing() -> None:
    """A seed runs the same with and without its trace being written."""
    plain, traced = simulate(5), simulate(5, trace=True)
    assert (plain.steps, plain.history.figures()) == (traced.steps, traced.history.figures())


def test_seeds_meet_every_kind_of_fault() -> None:
    """Sixty seeds: each kind of fault that a seed has strikes in some, and due times are missed and fires repeated."""
    results = [simulate(seed) for seed in range(1000, 1060)]
    struck = {fault for result in results for fault in result.weather.struck}
    offered = {fault for result in results for fault in result.weather.kinds}
    assert struck == offered
    assert sum(result.history.figures()["due times not fired"] for result in results) > 100
    repeats = sum(len(log.published) > 1 for result in results for log in result.history.fires.values())
    assert repeats > 100
