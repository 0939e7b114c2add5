"""Handlers of the tests: what any page or part of the API may do, good or bad."""

from __future__ import annotations

from typing import Final

from tornado.web import url

from celery_parrot.flower.bridge import ApiHandler, PageHandler

SECRET: Final = "t0p-s3cret"


class Writes(ApiHandler):
    """Changes something."""

    def post(self) -> None:
        self.answer({"actor": self.actor})


class Breaks(ApiHandler):
    """Fails as no handler should."""

    def get(self) -> None:
        raise RuntimeError(f"no route to redis://ann:{SECRET}@shop/0")


class BreaksPage(PageHandler):
    """The same on a page."""

    def get(self) -> None:
        raise RuntimeError(f"no route to redis://ann:{SECRET}@shop/0")


ROUTES: Final = [
    url(r"/parrot/probe/writes", Writes),
    url(r"/parrot/probe/breaks", Breaks),
    url(r"/parrot/probe/breaks-page", BreaksPage),
]
