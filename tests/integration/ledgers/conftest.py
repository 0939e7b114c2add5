"""Scenes over every store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.integration.ledgers.scene import OnRedis, opened
from tests.integration.stores_redis.server import PERMANENT, StoreServer
from tests.integration.stores_sql.database import DIALECTS, SharedDatabases


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return PERMANENT


@pytest.fixture
def server(redis_url: str, redis_client: Any) -> Iterator[StoreServer]:
    server = StoreServer(redis_url, redis_client)
    yield server
    server.close()


@pytest.fixture(scope="module")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabases]:
    """The databases of this module."""
    found = SharedDatabases(tmp_path_factory.mktemp("databases"))
    yield found
    found.close()


def long_form_only(kind: str, full: bool) -> None:
    """In the short form one server database will do, beside the file: what differs is tried in stores_sql on each."""
    if kind == "mysql" and not full:
        pytest.skip("the long form has MariaDB, too (make long)")


@pytest.fixture(params=[*DIALECTS, "redis"])
def scene(
    request: pytest.FixtureRequest, server: StoreServer, databases: SharedDatabases, full: bool
) -> Iterator[OnRedis]:
    """Every store, coordinated by Redis."""
    long_form_only(request.param, full)
    with opened(request.param, server, databases) as made:
        yield made


@pytest.fixture(params=DIALECTS)
def rows(
    request: pytest.FixtureRequest, server: StoreServer, databases: SharedDatabases, full: bool
) -> Iterator[OnRedis]:
    """Every store whose rows decide, coordinated by Redis."""
    long_form_only(request.param, full)
    with opened(request.param, server, databases) as made:
        yield made


@pytest.fixture
def sqlite(server: StoreServer, databases: SharedDatabases) -> Iterator[OnRedis]:
    """One of them, where the database makes no difference."""
    with opened("sqlite", server, databases) as made:
        yield made
