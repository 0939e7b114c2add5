"""Each page is the shell of its name; what a page shows, its module asks the API for."""

from __future__ import annotations

from typing import Final

from tornado.web import StaticFileHandler

from celery_parrot.flower.bridge import PageHandler

POLICY: Final = "; ".join([
    "default-src 'self'",
    "script-src 'self'",
    "style-src 'self' 'unsafe-inline'",  # Flower's own libraries set styles
    "img-src 'self' data:",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
])  # fmt: skip
"""No script of a page is inline, so none that somebody slips in runs."""


class Page(PageHandler):
    """``/parrot/{page}``."""

    def initialize(self, page: str) -> None:
        self.page = page

    def get(self) -> None:
        self.show()

    def show(self, schedule: str = "") -> None:
        """Answer with the shell. ``schedule``: the name or id in the address, for the page's module."""
        self.set_header("Content-Security-Policy", POLICY)
        self.set_header("Cache-Control", "no-store")  # it says who may write
        parrot = self.reverse_url("parrot-schedules").removesuffix("/schedules")
        self.render_page(f"{self.page}.html", page=self.page, parrot=parrot, schedule=schedule)


class SchedulePage(Page):
    """``/parrot/schedules/{name or id}``, and the same page empty at ``/parrot/schedules/new``."""

    def get(self, schedule: str = "") -> None:
        self.show(schedule)


class Root(PageHandler):
    """``/parrot`` leads to the schedules."""

    def get(self) -> None:
        self.redirect(self.reverse_url("parrot-schedules"))


class Asset(StaticFileHandler):
    """A module or style sheet of ours. Modules name each other without a version, so browsers ask each time."""

    def set_extra_headers(self, path: str) -> None:
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Content-Type-Options", "nosniff")
