"""Which seeds and which known bugs a run tries."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.simulation.bugs import BUGS

CHUNK = 25
USUAL = 200


def seeds_of(config: pytest.Config) -> Sequence[int]:
    """``--sim-seed``, else as many as ``SIM_SEEDS`` in the environment says, else ``--sim-seeds``."""
    one = config.getoption("--sim-seed")
    if one is not None:
        return [int(one)]
    return range(int(os.environ.get("SIM_SEEDS") or config.getoption("--sim-seeds")))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``chunk``: a few seeds. ``bug``: a known bug, those that take long to find only in the long form."""
    seeds = seeds_of(metafunc.config)
    if "chunk" in metafunc.fixturenames:
        chunks = [seeds[first : first + CHUNK] for first in range(0, len(seeds), CHUNK)]
        metafunc.parametrize("chunk", chunks, ids=[f"{chunk[0]}..{chunk[-1]}" for chunk in chunks])
    if "bug" in metafunc.fixturenames:
        long = metafunc.config.getoption("--full") or len(seeds) > USUAL
        bugs = [bug for bug in BUGS.values() if long or bug.quick]
        metafunc.parametrize("bug", bugs, ids=[bug.name for bug in bugs])
