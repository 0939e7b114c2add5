"""What Flower serves from this package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tornado.routing import URLSpec
from tornado.web import url

from celery_parrot.flower.pages.handlers import Asset, Page, Root, SchedulePage

ASSETS: Final = Path(__file__).parents[1] / "static"

PAGES: Final = ("fires", "timeline", "groups", "beats")
"""Pages without an argument, each with a template and a module of its name."""

ROUTES: list[URLSpec] = [
    url(r"/parrot/?", Root, name="parrot"),
    url(r"/parrot/static/([a-z_]+\.[a-z]+)", Asset, {"path": str(ASSETS)}, name="parrot-static"),
    url(r"/parrot/schedules", Page, {"page": "schedules"}, name="parrot-schedules"),
    url(r"/parrot/schedules/new", SchedulePage, {"page": "schedule"}, name="parrot-new"),
    url(r"/parrot/schedules/([^/]+)", SchedulePage, {"page": "schedule"}, name="parrot-schedule"),
    *(url(rf"/parrot/{page}", Page, {"page": page}, name=f"parrot-{page}") for page in PAGES),
]
