"""The interleavings around workers, turns and leases, unchanged, on real servers.

They are written down, and shown to go wrong without their rule, in ``tests/simulation``; here the fixture ``rig`` is
another, with the coordinator in Redis or in a database.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.coordination_sql.backend import Engines
from tests.integration.stores_sql.database import SharedDatabases
from tests.integration.traces.rig import ServerRig, on_redis, on_sql
from tests.simulation.test_traces_limits import test_19_a_fire_named_by_a_release_is_in_the_outbox
from tests.simulation.test_traces_turns import (
    test_13_only_an_outcome_frees_the_limit,
    test_17_a_queued_fire_keeps_its_limits_until_its_deadline,
    test_18_fires_that_need_only_slots_run,
    test_20_a_late_finish_is_a_note_and_frees_nothing,
)
from tests.simulation.test_traces_workers import (
    test_10_a_redelivery_right_after_an_outage_does_not_run,
    test_11_a_beat_that_slept_through_an_outage_reaps_nobody,
    test_12_a_redelivery_is_put_back_and_then_runs_as_the_next_attempt,
    test_14_a_retry_is_no_duplicate_of_what_still_runs,
    test_15_asking_again_with_the_same_token_wins_again,
    test_16_a_duplicate_does_not_run_unopened,
)

__all__ = [
    "test_10_a_redelivery_right_after_an_outage_does_not_run",
    "test_11_a_beat_that_slept_through_an_outage_reaps_nobody",
    "test_12_a_redelivery_is_put_back_and_then_runs_as_the_next_attempt",
    "test_13_only_an_outcome_frees_the_limit",
    "test_14_a_retry_is_no_duplicate_of_what_still_runs",
    "test_15_asking_again_with_the_same_token_wins_again",
    "test_16_a_duplicate_does_not_run_unopened",
    "test_17_a_queued_fire_keeps_its_limits_until_its_deadline",
    "test_18_fires_that_need_only_slots_run",
    "test_19_a_fire_named_by_a_release_is_in_the_outbox",
    "test_20_a_late_finish_is_a_note_and_frees_nothing",
]


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


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """What the databases share is the same code, so the short form asks one of them."""
    others = ["mysql", "sqlite"] if metafunc.config.getoption("--full") else []
    metafunc.parametrize("rig", ["redis", "postgresql", *others], indirect=True)


@pytest.fixture
def rig(request: pytest.FixtureRequest) -> Iterator[ServerRig]:
    """On a real server, empty."""
    if request.param == "redis":
        made, close = on_redis(request.getfixturevalue("redis_url"), request.getfixturevalue("redis_client"))
        yield made
        close()
        return
    databases: SharedDatabases = request.getfixturevalue("shared")
    yield on_sql(databases.get(request.param), request.getfixturevalue("engines"))
