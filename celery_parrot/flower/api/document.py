"""The operation that answers the OpenAPI document of all operations, itself among them."""

from __future__ import annotations

from typing import Final

from celery_parrot.flower.api.openapi import document
from celery_parrot.flower.api.operations import Answer, Ask, Operation, Reply
from celery_parrot.flower.api.shapes import OBJECT
from celery_parrot.flower.api.table import OPERATIONS


def _document(ask: Ask) -> Reply:
    return Reply(body=document(ALL, ask.prefix))


ALL: Final = (
    *OPERATIONS,
    Operation(
        method="GET", path="/openapi.json", id="openapi", at_hand=True, tag="files", call=_document,
        summary="This document",
        answers={200: Answer("OpenAPI 3.1.", OBJECT)},
    ),
)  # fmt: skip
