"""The OpenAPI 3.1 document, made of the operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from celery_parrot.__about__ import __version__
from celery_parrot.client.schema import DRAFT
from celery_parrot.flower.api.operations import Answer, Operation, Parameter
from celery_parrot.flower.api.shapes import SCHEMAS, TEXT, ref

Json = dict[str, Any]

ROOT: Final = "/parrot/api"

_REASONS: Final = {
    400: "This is no request: not JSON, not UTF-8.",
    401: "Log in first.",
    403: "You may change nothing: read_only, or the request came from a page of another site (forbidden).",
    404: "There is none of that name: not_found, with the closest names.",
    409: "Not as things are now: conflict (stale version), already_running, exists or refused.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "A value is wrong; field names it, reason says what would be right.",
    503: "A store or the coordinator cannot be asked (unreachable), or the settings cannot work (misconfigured).",
}
_HEADERS: Final[Json] = {
    "ETag": {"description": 'The version, in quotes: "3". Give it as If-Match.', "schema": TEXT},
    "Location": {"description": "Where it can be asked for.", "schema": TEXT},
}
_IF_MATCH: Final[Json] = {
    "name": "If-Match", "in": "header", "required": False,
    "description": "The ETag that you read: refused (409) if another is current by now.",
    "schema": {"type": "string", "pattern": r'^("[0-9]{1,9}"|\*)$'},
}  # fmt: skip
_TAGS: Final = {
    "schedules": "Schedules, one by one.", "backfills": "Due times that did not fire.",
    "files": "Many schedules at once.", "scheduler": "All that is going on.",
}  # fmt: skip


def document(operations: Iterable[Operation], prefix: str = "") -> Json:
    """:param prefix: Flower's ``url_prefix`` as a path, ``/flower``; empty without one."""
    paths: dict[str, Json] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": DRAFT,
        "info": {
            "title": "Schedules of celery-parrot",
            "version": __version__,
            "description": "Inside Flower, behind Flower's own authentication.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": f"{prefix}{ROOT}"}],
        "security": [{"basic": []}, {"session": []}, {}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(SCHEMAS),
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic", "description": "Where Flower has --basic_auth."},
                "session": {
                    "type": "apiKey", "in": "cookie", "name": "user",
                    "description": "Where Flower has --auth: log in at its pages, and send X-XSRFToken with changes.",
                },
            },
        },
    }  # fmt: skip


def _operation(one: Operation) -> Json:
    found: Json = {"operationId": one.id, "summary": one.summary, "tags": [one.tag]}
    if one.text:
        found["description"] = one.text
    parameters = [_parameter(each) for each in one.parameters]
    if one.versioned:
        parameters.append(_IF_MATCH)
    if parameters:
        found["parameters"] = parameters
    if one.body is not None:
        content = {"application/json": {"schema": dict(one.body)}}
        found["requestBody"] = {"required": one.body_required, "content": content}
    answers = {str(status): _answer(answer, one.media) for status, answer in one.answers.items()}
    for status in one.statuses:
        answers.setdefault(str(status), _answer(Answer(_REASONS[status], ref("Error"))))
    found["responses"] = dict(sorted(answers.items()))
    return found


def _parameter(one: Parameter) -> Json:
    return {
        "name": one.name, "in": one.where, "required": one.where == "path", "description": one.text,
        "schema": dict(one.schema),
    }  # fmt: skip


def _answer(one: Answer, media: str = "application/json") -> Json:
    found: Json = {"description": one.text}
    if one.headers:
        found["headers"] = {name: _HEADERS[name] for name in one.headers}
    if one.schema is not None:
        found["content"] = {media: {"schema": one.schema}}
    return found
