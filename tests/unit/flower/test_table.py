"""The table of operations: complete, true to itself, and an OpenAPI document that others can read."""

from __future__ import annotations

import inspect
import re

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from celery_parrot.client import Schedules, schedule_schema
from celery_parrot.flower.api.bodies import NEW_SCHEDULE
from celery_parrot.flower.api.document import ALL
from celery_parrot.flower.api.handler import NothingThere
from celery_parrot.flower.api.openapi import document
from celery_parrot.flower.api.operations import Operation
from celery_parrot.flower.api.routes import ROUTES

ELSEWHERE = {
    "close": "of this process",
    "stores": "in kinds",
    "in_code": "find with store=code",
    "check": "apply with dry_run",
    "create_many": "apply",
    "compare": "apply with dry_run",
    "carry_out": "apply",
    "get_many": "find and get",
    "trigger": "next",
    "trigger_of": "next",
    "trigger_for": "preview",
    "describe": "sentence of each schedule",
    "group_holder": "groups",
}
"""Verbs of the client that have no operation of their own, and where they went."""


def test_every_verb_of_the_client_has_an_operation() -> None:
    verbs = {name for name, _ in inspect.getmembers(Schedules) if not name.startswith("_")}
    operations = {one.id for one in ALL}
    assert verbs - operations == set(ELSEWHERE)


def test_the_document_is_openapi_3_1() -> None:
    found = document(ALL, "/ops")
    OpenAPIV31SpecValidator(found).validate()
    assert found["servers"] == [{"url": "/ops/parrot/api"}]


def test_no_two_operations_are_the_same() -> None:
    assert len({one.id for one in ALL}) == len({(one.method, one.path) for one in ALL}) == len(ALL)


@pytest.mark.parametrize("operation", ALL, ids=lambda one: one.id)
def test_an_operation_names_what_its_path_has(operation: Operation) -> None:
    """And is served: by the handler of all, or by one of its own."""
    in_path = re.findall(r"\{(\w+)\}", operation.path)
    assert [one.name for one in operation.parameters if one.where == "path"] == in_path
    path = "/parrot/api" + re.sub(r"\{\w+\}", "a%2Fb", operation.path)
    served = next(route for route in ROUTES if route.regex.fullmatch(path))
    assert served.handler_class is not NothingThere


def test_every_operation_documents_what_all_of_them_refuse() -> None:
    """A parameter or a body that it does not take, a stranger, a server that is away; and whoever may not write."""
    for path in document(ALL)["paths"].values():
        for method, one in path.items():
            wanted = {"400", "401", "413", "422", "503"} | (set() if method == "get" else {"403"})
            assert wanted <= one["responses"].keys(), one["operationId"]


def test_a_new_schedule_is_what_the_client_says_it_is() -> None:
    schema = schedule_schema()
    assert {**schema["properties"], "schedule_id": NEW_SCHEDULE["properties"]["schedule_id"]} == NEW_SCHEDULE[
        "properties"
    ]
    assert NEW_SCHEDULE["required"] == schema["required"]
