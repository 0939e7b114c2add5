"""The one handler behind every operation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tornado.web import HTTPError, stream_request_body

from celery_parrot.errors import ConfigurationError, ParrotError
from celery_parrot.flower.api.openapi import ROOT
from celery_parrot.flower.api.operations import Ask, Operation, Reply
from celery_parrot.flower.api.refusals import refusal
from celery_parrot.flower.api.requests import MOST, body_of, parameters_of, version_of
from celery_parrot.flower.bridge import ApiHandler, Refused
from celery_parrot.runtime.config import Settings

_BESIDE: Final = ("field", "value", "reason")


@stream_request_body
class OperationHandler(ApiHandler):
    """:param operations: those of one path, by method."""

    def initialize(self, operations: Mapping[str, Operation]) -> None:
        self._operations = operations
        self._chunks: list[bytes] = []
        self._received = 0

    def data_received(self, chunk: bytes) -> None:
        """Count all of it, keep no more than may be."""
        self._received += len(chunk)
        if self._received <= MOST:
            self._chunks.append(chunk)
        else:
            self._chunks.clear()

    async def get(self, **path: str) -> None:
        await self._serve(path)

    async def post(self, **path: str) -> None:
        await self._serve(path)

    async def patch(self, **path: str) -> None:
        await self._serve(path)

    async def delete(self, **path: str) -> None:
        await self._serve(path)

    async def _serve(self, path: Mapping[str, str]) -> None:
        operation = self._operations.get(self.request.method or "")
        if operation is None:
            raise HTTPError(405)
        if self._received > MOST:
            raise Refused(413, "too_large", f"The body must have at most {MOST:,} bytes.")
        why_not, actor, listening, prefix = self.may_write(), self.actor, self.listening, self.prefix

        def work() -> tuple[Reply, str]:
            given = parameters_of(operation, path, self.request.query_arguments)
            body = body_of(operation, self.request.headers.get("Content-Type", ""), b"".join(self._chunks))
            ask = Ask(
                desk=self.desk, given=given, body=body, actor=actor, why_not=why_not, listening=listening,
                prefix=prefix,
                version=version_of(self.request.headers.get("If-Match"), body) if operation.versioned else None,
            )  # fmt: skip
            assert operation.call is not None
            reply = operation.call(ask)
            return reply, "" if reply.body is None else json.dumps(reply.body, allow_nan=False)

        try:
            reply, text = await (self.desk.run_at_hand(work) if operation.at_hand else self.desk.run(work))
        except ParrotError as error:
            raise refusal(error, self._settings()) from error
        self._reply(reply, text)

    def _reply(self, reply: Reply, text: str) -> None:
        self.set_status(reply.status)
        if reply.version is not None:
            self.set_header("ETag", f'"{reply.version}"')
        if reply.at:
            self.set_header("Location", f"{self.prefix}{ROOT}{reply.at}")
        if text:
            self.set_header("Content-Type", "application/json; charset=UTF-8")
        else:
            self.clear_header("Content-Type")
        self.finish(text or None)

    def _settings(self) -> Settings | None:
        try:
            return self.desk.settings
        except ConfigurationError:
            return None

    @property
    def prefix(self) -> str:
        """Flower's ``url_prefix`` as the beginning of a path."""
        given = (self.option("url_prefix") or "").strip("/")
        return f"/{given}" if given else ""

    def set_default_headers(self) -> None:
        """What is answered is how things are now."""
        super().set_default_headers()
        self.set_header("Cache-Control", "no-store")

    def compute_etag(self) -> str | None:
        """Ours is a version, and nothing of Tornado's: run state changes without it, so nobody is told 304."""
        etag: str | None = self._headers.get("ETag")
        return etag

    def check_etag_header(self) -> bool:
        """See :meth:`compute_etag`."""
        return False

    def answer(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """With what is at fault beside the error, too, for those who look for it there."""
        if status == 405:
            self.set_header("Allow", ", ".join(sorted(self._operations)))
        error = value.get("error") if isinstance(value, dict) else None
        beside = {name: error[name] for name in _BESIDE if name in error} if isinstance(error, dict) else {}
        super().answer({**value, **beside}, status, headers)


class NothingThere(ApiHandler):
    """Paths that the API does not have: Flower would answer with a page."""

    def prepare(self) -> None:
        super().prepare()
        raise Refused(
            404, "not_found", f"There is nothing at {self.request.path}; a slash in a name or an id is written %2F."
        )
