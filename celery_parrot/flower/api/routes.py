"""What Flower serves from this package."""

from __future__ import annotations

from tornado.routing import URLSpec
from tornado.web import url

from celery_parrot.flower.api.live import Events, Fires

ROUTES: list[URLSpec] = [
    url(r"/parrot/api/events", Events, name="parrot-api-events"),
    url(r"/parrot/api/fires", Fires, name="parrot-api-fires"),
]
