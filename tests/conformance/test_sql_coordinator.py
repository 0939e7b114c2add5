"""The coordinator in a database keeps the contract, on each database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from celery_parrot.testing.conformance import Backend, CoordinatorConformance, LimitsConformance
from celery_parrot.testing.conformance.delivering import DeliveringConformance
from celery_parrot.testing.conformance.demanding import DemandingConformance
from celery_parrot.testing.conformance.disabling import DisablingConformance
from celery_parrot.testing.conformance.holding import HoldingConformance
from celery_parrot.testing.conformance.inspecting import Inspecting
from celery_parrot.testing.conformance.reading import ReadingBack
from celery_parrot.testing.conformance.reaping import Reaping
from celery_parrot.testing.conformance.recovering import Recovering
from celery_parrot.testing.conformance.reserving import Reserving
from celery_parrot.testing.conformance.two_step import TwoStepConformance
from celery_parrot.testing.conformance.two_step_limits import TwoStepLimitsConformance
from celery_parrot.testing.conformance.two_step_telling import TwoStepTellingConformance
from celery_parrot.testing.conformance.unsent import Unsent
from celery_parrot.testing.conformance.waiting import Waiting
from tests.integration.coordination_sql.backend import Engines, SqlBackend
from tests.integration.stores_sql.database import DIALECTS, SharedDatabases


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedDatabases]:
    """The databases of this module."""
    databases = SharedDatabases(tmp_path_factory.mktemp("databases"))
    yield databases
    databases.close()


@pytest.fixture(scope="module")
def engines(shared: SharedDatabases) -> Iterator[Engines]:
    """The connections of this module."""
    made = Engines()
    yield made
    made.close()


@pytest.fixture(params=DIALECTS)
def backend(request: pytest.FixtureRequest, shared: SharedDatabases, engines: Engines, full: bool) -> SqlBackend:
    """A real database, empty but for the tables. The rules are the same on each; where every statement is spoken at
    least once, the short form asks each, otherwise SQLite alone: the one without a server is ten times quicker."""
    if request.param != "sqlite" and not full and not request.cls.everywhere:
        pytest.skip("the long form has the other databases (make long)")
    return engines.backend(shared.get(request.param))


class _OnSql:
    everywhere = False

    @pytest.fixture
    def backend(self, backend: Backend) -> Backend:
        return backend


class TestCoordinator(_OnSql, CoordinatorConformance):
    """Commits, the outbox, starts, finishes, loss of memory."""


class TestLimits(_OnSql, LimitsConformance):
    """Limits and the line."""


class TestReaping(_OnSql, Reaping):
    """What the reaper ends."""


class TestRecovering(_OnSql, Recovering):
    """What is sent once more."""


class TestWaiting(_OnSql, Waiting):
    """How long a fire may stand in line."""


class TestInspecting(_OnSql, Inspecting):
    """Who holds what, and who waits for it."""

    everywhere = True


class TestUnsent(_OnSql, Unsent):
    """What holds its limits and is never sent."""


class TestReserving(_OnSql, Reserving):
    """Messages that a worker has in hand."""


class TestTwoStepLimits(_OnSql, TwoStepLimitsConformance):
    """Limits of fires that rows decide."""


class TestTwoStep(_OnSql, TwoStepConformance):
    """Preparing for rows that decide."""


class TestHolding(_OnSql, HoldingConformance):
    """Pausing schedules of code."""

    everywhere = True


class TestDemanding(_OnSql, DemandingConformance):
    """Run-now and backfill."""


class TestReadingBack(_OnSql, ReadingBack):
    """History, run states, beats."""

    everywhere = True


class TestDelivering(_OnSql, DeliveringConformance):
    """What is to be told to somebody."""


class TestDisabling(_OnSql, DisablingConformance):
    """Failures in a row."""


class TestTwoStepTelling(_OnSql, TwoStepTellingConformance):
    """Both, where rows decide."""
