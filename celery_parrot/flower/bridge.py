"""All contact with Flower's internals: its handlers, its settings, its events, its metrics.

Tried with every release from 2.0.0 on (tests/integration/flower/test_versions.py).
"""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

import flower.urls
from celery import Celery
from flower.utils import strtobool
from flower.views import BaseHandler
from tornado.web import HTTPError

from celery_parrot.flower.desk import Desk, desk_of

_READING: Final = ("GET", "HEAD", "OPTIONS")

_TYPES: Final = {
    400: "invalid", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "not_allowed", 409: "conflict",
    413: "too_large", 415: "not_json", 422: "invalid", 503: "unreachable",
}  # fmt: skip


class Refused(HTTPError):
    """An answer that is not 2xx, with the reason for the caller.

    :param kind: the ``type`` of the error in JSON. :param message: one sentence.
    :param details: further members of the error in JSON: ``field``, ``value``, ``closest``, …
    """

    def __init__(self, status: int, kind: str, message: str, **details: Any) -> None:
        super().__init__(status)
        self.kind, self.message, self.details = kind, message, details


class Handler(BaseHandler):  # type: ignore[misc]  # Flower has no types
    """What our pages and our API have in common: Flower's authentication, and our own checks of who may write."""

    @property
    def app(self) -> Celery:
        """The Celery app that this Flower watches."""
        return self.desk.app

    @property
    def desk(self) -> Desk:
        """What all requests share."""
        return desk_of(self.application)

    @property
    def actor(self) -> str:
        """Who asks: the user name of basic auth or the e-mail of OAuth, else empty."""
        if self._option("basic_auth"):
            scheme, _, credentials = self.request.headers.get("Authorization", "").partition(" ")
            return b64decode(credentials).decode().partition(":")[0] if scheme == "Basic" else ""
        user = self.current_user
        return user if isinstance(user, str) else ""

    def may_write(self) -> str | None:
        """None, or why this request may change nothing, in one sentence."""
        if self.desk.read_only:
            return "Nothing can be changed here: parrot_http_read_only is on."
        if self._option("read_only"):
            return "Nothing can be changed here: Flower was started with --read_only."
        if not self._authenticates and not strtobool(os.environ.get("FLOWER_UNAUTHENTICATED_API") or "false"):
            return (
                "Nothing can be changed without authentication: start Flower with --basic_auth or --auth, "
                "or set FLOWER_UNAUTHENTICATED_API=1."
            )
        return None

    def prepare(self) -> None:
        """Refuse who may not read, then who may not write."""
        if self.request.method not in _READING:
            self._refuse_other_sites()
        if not self.current_user:
            self._refuse_strangers()
            return
        if self.request.method not in _READING:
            why_not = self.may_write()
            if why_not is not None:
                raise Refused(403, "read_only", why_not)

    def _refuse_strangers(self) -> None:
        raise Refused(401, "unauthenticated", "Log in first.")

    def _refuse_other_sites(self) -> None:
        """Flower checks this only where it authenticates, and not in all releases."""
        site, origin = self.request.headers.get("Sec-Fetch-Site"), self.request.headers.get("Origin")
        if site is not None and site != "same-origin":
            raise Refused(403, "forbidden", "A page of another site may change nothing here.")
        if site is None and origin is not None and urlsplit(origin).netloc != self.request.host:
            raise Refused(403, "forbidden", "A page of another site may change nothing here.")

    @property
    def _authenticates(self) -> bool:
        return bool(self._option("basic_auth") or self._option("auth"))

    def _option(self, name: str) -> Any:
        """One of Flower's options, None where this release has none of that name."""
        options = self.application.options
        return getattr(options, name) if name in options else None


class PageHandler(Handler):
    """A page in Flower's look."""

    def render_page(self, template: str, **values: Any) -> None:
        """Answer with a template of ours, e.g. ``schedules.html``."""
        self.render(f"parrot/{template}", **values)

    def _refuse_strangers(self) -> None:
        self.redirect(self.get_login_url())


class ApiHandler(Handler):
    """JSON in, JSON out; errors as well."""

    def answer(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Answer with JSON."""
        self.set_status(status)
        for name, text in (headers or {}).items():
            self.set_header(name, text)
        self.set_header("Content-Type", "application/json; charset=UTF-8")
        self.finish(json.dumps(value))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """As ``{"error": {"type", "message", …}}``."""
        error = kwargs.get("exc_info", (None, None))[1]
        if isinstance(error, Refused):
            body = {"type": error.kind, "message": error.message, **error.details}
        else:
            body = {"type": _TYPES.get(status_code, "internal"), "message": f"{self._reason}."}
        self.answer({"error": body}, status_code)


def put_in_front(routes: list[Any]) -> None:
    """Have Flower serve these before its own, whose last one catches all. May be repeated."""
    known = {id(one) for one in flower.urls.handlers}
    flower.urls.handlers[:0] = [route for route in routes if id(route) not in known]
