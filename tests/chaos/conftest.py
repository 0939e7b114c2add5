"""Fixtures of the chaos tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.lab import Lab, open_lab
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis

#: Ten in the long form; ``PARROT_CHAOS_SEED=7`` replays one. Odd seeds strike within the burst after a due time.
SEEDS = range(10)
SHORT_SEED = 3


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes ``seed`` runs once in the short form and for ten seeds in the long one."""
    if "seed" not in metafunc.fixturenames:
        return
    one = os.environ.get("PARROT_CHAOS_SEED")
    full = metafunc.config.getoption("--full")
    seeds = [int(one)] if one else list(SEEDS) if full else [SHORT_SEED]
    metafunc.parametrize("seed", seeds)


def pytest_configure(config: pytest.Config) -> None:
    """The marker of what only the long form runs."""
    config.addinivalue_line("markers", "long_form: in the long form only (make chaos)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One at a time, while the e2e tests have the other core; and leave out what only the long form runs."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.xdist_group("chaos"))
    if config.getoption("--full"):
        return
    left_out = [item for item in items if item.get_closest_marker("long_form")]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.fixture
def lab(procs: Procs, redis_server: PrivateRedis, redis_url: str, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """An experiment whose tasks note what they do on the run's shared Redis."""
    with open_lab(procs, redis_server, redis_url, request) as lab:
        yield lab
