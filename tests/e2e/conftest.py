"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.lab import Lab, open_lab
from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis


@pytest.fixture
def lab(procs: Procs, redis_server: PrivateRedis, redis_url: str, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """An experiment with the app of the chaos tests, which notes what it does on the run's shared Redis."""
    with open_lab(procs, redis_server, redis_url, request) as lab:
        yield lab


@pytest.fixture
def long_form(full: bool) -> None:
    """For tests that cost seconds and show what others show in part."""
    if not full:
        pytest.skip("only the long form has it (make chaos)")
