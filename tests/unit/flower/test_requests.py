"""What came over the wire becomes values, or a refusal with its status and field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from celery_parrot.flower.api.document import ALL
from celery_parrot.flower.api.operations import Operation
from celery_parrot.flower.api.requests import DEEPEST, body_of, parameters_of, version_of
from celery_parrot.flower.bridge import Refused

JSON = "application/json"
BY_ID = {one.id: one for one in ALL}


def refused(operation: str, raw: bytes, media: str = JSON) -> Refused:
    with pytest.raises(Refused) as caught:
        body_of(BY_ID[operation], media, raw)
    return caught.value


@pytest.mark.parametrize(
    ("raw", "status", "says"),
    [
        (b"", 415, "must be JSON"),
        (b"{", 400, "is not JSON: .* line 1, column 2"),
        (b"\xff\xfe{\x00}\x00", 400, "not in UTF-8"),
        (b'{"name": NaN}', 400, "NaN is no number"),
        (b'{"kwargs": {"n": -Infinity}}', 400, "-Infinity is no number"),
        (b"[]", 422, "must be a JSON object"),
        (b'"text"', 422, "must be a JSON object"),
        (b'{"kwargs": {"n": 1e999}}', 422, "too large a number"),
        (b'{"kwargs": {"n": 9223372036854775808}}', 422, "larger ones must be texts"),
        (b'{"kwargs": {"n": ' + b"9" * 5000 + b"}}", 422, "too large a number"),
        (b'{"kwargs": ' + b'{"a":' * DEEPEST + b"1" + b"}" * DEEPEST + b"}", 422, "in one another"),
        (b'{"args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422, "in one another"),
        (b'{"kwargs": {"a": "\\u0000"}}', 422, "must not contain NUL"),
        (b'{"kwargs": {"\\ud800": 1}}', 422, "surrogate"),
        (b'{"name": "a", "name": "b"}', 422, "is there twice"),
    ],
)
def test_what_no_store_keeps_is_no_body(raw: bytes, status: int, says: str) -> None:
    error = refused("create", raw, "text/plain" if not raw else JSON)
    assert error.status_code == status
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(error.message)


@pytest.mark.parametrize(
    "media", ["", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1"]
)
def test_a_body_of_another_type_is_refused(media: str) -> None:
    """A form of another site can send no JSON without asking first."""
    assert refused("pause", b"{}", media).status_code == 415


@pytest.mark.parametrize(
    ("body", "field", "reason"),
    [
        ({"jiter": 1}, "jiter", "unknown field; did you mean 'jitter'?"),
        ({"jitter": "1"}, "jitter", "must be a number"),
        ({"jitter": True}, "jitter", "must be a number"),
        ({"jitter": -1}, "jitter", "must be at least 0"),
        ({"catch_up_limit": 0}, "catch_up_limit", "must be at least 1"),
        ({"catch_up_limit": 5001}, "catch_up_limit", "must be at most 5000"),
        ({"missed": "catchup"}, "missed", "must be one of coalesce, catch_up, skip"),
        ({"name": ""}, "name", "must not be empty"),
        ({"name": "a" * 256}, "name", "must have at most 255 characters"),
        ({"callbacks": [1]}, "callbacks[0]", "must be an object or a text"),
        ({"schedule_id": "x"}, "schedule_id", "unknown field; did you mean"),
        ({"version": -1}, "version", "must be at least 0"),
    ],
)
def test_a_wrong_value_names_its_field_and_what_would_be_right(body: Any, field: str, reason: str) -> None:
    error = refused("update", json.dumps(body).encode())
    assert (error.status_code, error.details["field"]) == (422, field)
    assert error.details["reason"].startswith(reason)


def test_what_is_missing_is_named() -> None:
    assert refused("backfill", b"{}").details == {"field": "from", "value": None, "reason": "is required"}


def test_a_body_may_be_left_out_where_nothing_in_it_is_required() -> None:
    assert body_of(BY_ID["pause"], "", b"") == {}
    assert refused("get", b"{}").status_code == 400


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": [b"501"]}, "limit"),
        ({"limit": [b"0"]}, "limit"),
        ({"limit": [b"1_0"]}, "limit"),
        ({"limit": [b""]}, "limit"),
        ({"limit": ["١".encode()]}, "limit"),
        ({"limit": [b"9" * 30]}, "limit"),
        ({"limit": [b"1", b"2"]}, "limit"),
        ({"state": [b"Active"]}, "state"),
        ({"text": [b"a\0"]}, "text"),
        ({"text": [b"a\n"]}, "text"),
        ({"kinds": [b"a"]}, "kinds"),
        ({"name": [b"a"]}, "name"),
    ],
)
def test_a_wrong_parameter_is_named(query: dict[str, list[bytes]], field: str) -> None:
    with pytest.raises(Refused) as caught:
        parameters_of(BY_ID["find"], {}, query)
    assert (caught.value.status_code, caught.value.details["field"]) == (422, field)


def test_an_unknown_parameter_is_told_with_what_it_held() -> None:
    with pytest.raises(Refused) as caught:
        parameters_of(BY_ID["find"], {}, {"kinds": [b"report"]})
    assert caught.value.message == "kinds = 'report': unknown parameter; did you mean 'kind'?"


def test_parameters_become_values_and_empty_ones_none() -> None:
    operation: Operation = BY_ID["fires"]
    found = parameters_of(operation, {"name": "a"}, {"limit": [b"7"], "before": [b""]})
    assert found == {"name": "a", "limit": 7}


@pytest.mark.parametrize(
    ("header", "said", "version"),
    [(None, None, None), ("*", None, None), ('"3"', None, 3), ('"3"', 3, 3), (None, 3, 3), ("*", 3, 3)],
)
def test_the_version_is_that_of_header_or_body(header: str | None, said: int | None, version: int | None) -> None:
    assert version_of(header, {} if said is None else {"version": said}) == version


@pytest.mark.parametrize(
    ("header", "said"), [("3", None), ('W/"3"', None), ('"3", "4"', None), ('"9999999999"', None), ('"3"', 4)]
)
def test_an_if_match_that_is_no_version_is_refused(header: str, said: int | None) -> None:
    with pytest.raises(Refused) as caught:
        version_of(header, {} if said is None else {"version": said})
    assert caught.value.status_code == 422
