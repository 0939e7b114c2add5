"""One world a module or a test: a broker, a coordinator that can be cut off, and workers of every pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.worker.world import World
from tests.support.redis_server import PrivateRedis


@pytest.fixture(scope="module")
def broker_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateRedis]:
    with PrivateRedis(tmp_path_factory.mktemp("broker")) as server:
        yield server


@pytest.fixture
def make_world(tmp_path: Path, broker_server: PrivateRedis) -> Iterator[Callable[..., World]]:
    worlds: list[World] = []

    def make(**options: Any) -> World:
        world = World(tmp_path / f"world-{len(worlds)}", broker_server, **options)
        worlds.append(world)
        return world

    yield make
    for world in worlds:
        world.close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world()


@pytest.fixture(scope="module", params=["prefork", "threads", "solo", "gevent"])
def pool(request: pytest.FixtureRequest, full: bool) -> str:
    if request.param in ("threads", "solo") and not full:
        pytest.skip("the long form has every pool (make long)")
    return str(request.param)


@pytest.fixture(scope="module")
def shared(pool: str, tmp_path_factory: pytest.TempPathFactory, broker_server: PrivateRedis) -> Iterator[World]:
    """A world with one running worker of each pool in turn."""
    world = World(tmp_path_factory.mktemp(f"world-{pool}"), broker_server)
    try:
        world.worker(pool, concurrency=3)
        yield world
    finally:
        world.close()
