"""Databases with the store's tables."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.stores_sql.database import DIALECTS, SharedDatabases, SqlDatabase


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabases]:
    """The databases of this module."""
    databases = SharedDatabases(tmp_path_factory.mktemp("databases"))
    yield databases
    databases.close()


@pytest.fixture(params=DIALECTS)
def database(request: pytest.FixtureRequest, shared: SharedDatabases, full: bool) -> SqlDatabase:
    """A real database, empty but for the tables. The short form leaves MariaDB to the conformance suites."""
    if request.param == "mysql" and not full:
        pytest.skip("the long form has MariaDB, too (make long)")
    return shared.get(request.param)
