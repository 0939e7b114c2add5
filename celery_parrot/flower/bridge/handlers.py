"""What pages and API have in common: who may read, who may write, and how it is told that one may not."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from celery import Celery
from tornado.web import HTTPError

from celery_parrot.errors import ConfigurationError
from celery_parrot.flower.bridge.internals import FlowerHandler
from celery_parrot.model.secrets import mask

logger = logging.getLogger("celery_parrot")

READING: Final = ("GET", "HEAD", "OPTIONS")
FAILED: Final = "Something failed here; the log of Flower says what."

_TYPES: Final = {
    400: "invalid", 401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "not_allowed", 409: "conflict",
    413: "too_large", 415: "unsupported", 422: "invalid", 503: "unreachable",
}  # fmt: skip


class Refused(HTTPError):
    """An answer that is not 2xx, with the reason for the caller.

    :param kind: the ``type`` of the error in JSON. :param message: one sentence.
    :param details: further members of the error in JSON: ``field``, ``value``, ``closest``, …
    """

    def __init__(self, status: int, kind: str, message: str, **details: Any) -> None:
        super().__init__(status)
        self.kind, self.message, self.details = kind, message, details


class Handler(FlowerHandler):
    """Flower's authentication, and our own checks of who may write."""

    @property
    def app(self) -> Celery:
        """The Celery app that this Flower watches."""
        return self.desk.app

    def may_write(self) -> str | None:
        """None, or why this request may change nothing, in one sentence."""
        if self.desk.read_only:
            return "Nothing can be changed here: parrot_http_read_only is on."
        if self.option("read_only"):
            return "Nothing can be changed here: Flower was started with --read_only."
        if not self.authenticates and not self.open_to_all:
            return (
                "Nothing can be changed without authentication: start Flower with --basic_auth or --auth, "
                "or set FLOWER_UNAUTHENTICATED_API=1."
            )
        return None

    def prepare(self) -> None:
        """Refuse who may not read, then who may not write."""
        reads = self.request.method in READING
        if not reads:
            self._refuse_other_sites()
        if not self.current_user:
            self.refuse_stranger()
            return
        try:
            why_not = self.may_write()
        except ConfigurationError as error:
            raise Refused(503, "misconfigured", mask(str(error))) from None
        if not reads and why_not is not None:
            raise Refused(403, "read_only", why_not)

    def refuse_stranger(self) -> None:
        """Answer somebody who has not logged in."""
        raise Refused(401, "unauthenticated", "Log in first.")

    def set_default_headers(self) -> None:
        """Not Flower's: before 2.2 those let any site read, where nobody authenticates."""
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("X-Frame-Options", "SAMEORIGIN")

    def log_exception(
        self,
        typ: type[BaseException] | None,
        value: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Log what we did not expect, without passwords; answers that are not 2xx are no fault."""
        if not isinstance(value, HTTPError):
            told = mask("".join(traceback.format_exception(typ, value, tb)))
            logger.error("%s %s failed: %s", self.request.method, self.request.path, told)

    def check_xsrf_cookie(self) -> None:
        """As Flower does, once its own look at the origin cannot fail."""
        self._refuse_other_sites()
        super().check_xsrf_cookie()

    def _refuse_other_sites(self) -> None:
        """Flower looks at the origin only where it authenticates, and not in all releases."""
        site, origin = self.request.headers.get("Sec-Fetch-Site"), self.request.headers.get("Origin")
        own = origin is None or _host(origin) == self.request.host.lower() if site is None else site == "same-origin"
        if not own:
            raise Refused(403, "forbidden", "A page of another site may change nothing here.")


def _host(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


class PageHandler(Handler):
    """A page in Flower's look."""

    def render_page(self, template: str, **values: Any) -> None:
        """Answer with a template of ours, e.g. ``schedules.html``."""
        self.render(f"parrot/{template}", **values)

    def refuse_stranger(self) -> None:
        """Lead to Flower's login, and from there back."""
        self.redirect(f"{self.get_login_url()}?{urlencode({'next': self.request.uri})}")

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """As Flower's pages do, but for faults: those show a traceback."""
        error = kwargs.get("exc_info", (None, None))[1]
        if status_code < 500 and not isinstance(error, Refused):
            super().write_error(status_code, **kwargs)
            return
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(error.message if isinstance(error, Refused) else FAILED)


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
        if status_code == 401 and self.option("basic_auth"):
            self.set_header("WWW-Authenticate", 'Basic realm="flower"')
        if isinstance(error, Refused):
            body = {"type": error.kind, "message": error.message, **error.details}
        else:
            body = {"type": _TYPES.get(status_code, "internal"), "message": self._sentence(status_code, error)}
        self.answer({"error": body}, status_code)

    def _sentence(self, status: int, error: object) -> str:
        if status >= 500:
            return FAILED
        told = error.log_message % error.args if isinstance(error, HTTPError) and error.log_message else self._reason
        return f"{told.rstrip('.')}."
