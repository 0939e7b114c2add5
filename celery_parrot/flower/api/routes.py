"""What Flower serves from this package."""

from __future__ import annotations

import re

from tornado.routing import URLSpec
from tornado.web import url

from celery_parrot.flower.api.document import ALL
from celery_parrot.flower.api.handler import NothingThere, OperationHandler
from celery_parrot.flower.api.live import Events
from celery_parrot.flower.api.openapi import ROOT
from celery_parrot.flower.api.operations import Operation


def _by_path() -> dict[str, dict[str, Operation]]:
    found: dict[str, dict[str, Operation]] = {}
    for operation in ALL:
        if operation.call is not None:
            found.setdefault(operation.path, {})[operation.method] = operation
    return found


def _pattern(path: str) -> str:
    """Percent-encoded slashes are part of a name."""
    return ROOT + re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path.replace(".", r"\."))


ROUTES: list[URLSpec] = [
    *(
        url(_pattern(path), OperationHandler, {"operations": operations})
        for path, operations in _by_path().items()
    ),
    url(f"{ROOT}/events", Events, name="parrot-api-events"),
    url(f"{ROOT}(?:/.*)?", NothingThere),
]  # fmt: skip
