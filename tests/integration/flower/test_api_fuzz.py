"""Whatever the OpenAPI document allows, and what it forbids, is answered as the document says, and never by a fault."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CheckFunction, not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from celery_parrot.flower.api.document import ALL
from celery_parrot.flower.api.openapi import document
from celery_parrot.stores.sql import upgrade
from tests.integration.flower.asking import API, Api, api_of, new, shop
from tests.support.databases import own_postgresql
from tests.support.redis_server import PrivateRedis

THERE = {
    "nightly": {"schedule_type": "cron", "schedule_config": {"expr": "30 2 * * *"}, "store": "redis"},
    "a b/ñ": {"schedule_type": "interval", "schedule_config": {"hours": 1}, "kind": "report"},
}
"""Schedules that there are before each request."""

SHORT, LONG = 3, 100
"""Requests of each sort to each operation."""

CHECKS: list[CheckFunction] = [
    status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance,
    negative_data_rejection,
]  # fmt: skip

SCHEMA = schemathesis.openapi.from_dict(document(ALL))
OPERATIONS = {one.id: one for one in ALL if one.call is not None}


@pytest.fixture(scope="module")
def api(_migrated: Path, tmp_path_factory: pytest.TempPathFactory, full: bool) -> Iterator[Api]:
    """One for all operations, open to all."""
    directory = tmp_path_factory.mktemp("fuzzed")
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, FLOWER_UNAUTHENTICATED_API="1"))
        redis = stack.enter_context(PrivateRedis(directory / "redis"))
        if full:
            database = stack.enter_context(own_postgresql())
            upgrade(database)
        else:
            database = f"sqlite:///{shutil.copy(_migrated, directory / 'shop.db')}"
        yield stack.enter_context(api_of(shop(redis.url(), database)))


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda one: one.value)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_answers_are_as_documented(api: Api, operation: str, mode: GenerationMode, full: bool) -> None:
    """The long form asks more, and over PostgreSQL (make long)."""
    takes = OPERATIONS[operation]
    if mode is GenerationMode.NEGATIVE and takes.body is None and not takes.parameters:
        pytest.skip("there is nothing in it that could be wrong")
    url = f"http://{api.served.host}{API}"
    known = st.none() if not any(one.name == "name" for one in takes.parameters) else st.sampled_from([None, *THERE])

    @seed(7)
    @settings(
        max_examples=LONG if full else SHORT, deadline=None, database=None, derandomize=not full,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(case=SCHEMA.find_operation_by_id(operation).as_strategy(generation_mode=mode), name=known)
    def ask(case: Any, name: str | None) -> None:
        _restock(api)
        if name is not None and mode is GenerationMode.POSITIVE:
            case.path_parameters["name"] = quote(name, safe="")
        response = case.call(base_url=url, timeout=40)
        # 503 is documented: of a beat there is none, and nothing else may be out of reach.
        checks = CHECKS if operation == "health" else [*CHECKS, not_a_server_error]
        case.validate_response(response, checks=checks)

    ask()


def _restock(api: Api) -> None:
    there = api.client.get_many(THERE)
    for name in THERE.keys() - there.keys():
        api.client.create(**new(name, **THERE[name]))
