"""What Flower serves from this package."""

from __future__ import annotations

from tornado.routing import URLSpec

ROUTES: list[URLSpec] = []
