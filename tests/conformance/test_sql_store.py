"""The SQL store keeps the contracts, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_parrot.testing.conformance.row_store import RowStoreConformance
from celery_parrot.testing.conformance.row_telling import RowTellingConformance
from celery_parrot.testing.conformance.schedule_store import ScheduleStoreConformance
from tests.integration.stores_sql.database import DIALECTS, SharedDatabases, SqlDatabase


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabases]:
    """The databases of this module."""
    databases = SharedDatabases(tmp_path_factory.mktemp("databases"))
    yield databases
    databases.close()


@pytest.fixture(params=DIALECTS)
def stores(request: pytest.FixtureRequest, shared: SharedDatabases) -> SqlDatabase:
    """A real database, empty but for the tables."""
    return shared.get(request.param)


class TestScheduleStore(ScheduleStoreConformance):
    """Reading and editing."""

    @pytest.fixture
    def stores(self, stores: SqlDatabase) -> SqlDatabase:
        return stores


class TestRowStore(RowStoreConformance):
    """Commits, run state and history."""

    @pytest.fixture
    def stores(self, stores: SqlDatabase) -> SqlDatabase:
        return stores


class TestRowTelling(RowTellingConformance):
    """Failures in a row, and what is owed."""

    @pytest.fixture
    def stores(self, stores: SqlDatabase) -> SqlDatabase:
        return stores
