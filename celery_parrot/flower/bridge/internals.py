"""All contact with Flower's internals: its handlers, templates, events and metrics, and its ways to authenticate.

Tried with every release from 2.0.0 on (tests/integration/flower/test_releases.py).
"""

from __future__ import annotations

import functools
import logging
import os
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import flower.urls
import prometheus_client
from celery.utils.time import utcoffset
from flower.events import Events
from flower.utils import strtobool
from flower.views import BaseHandler
from tornado.routing import URLSpec
from tornado.template import Loader, Template
from tornado.web import HTTPError

from celery_parrot.flower.desk import Desk, desk_at, desk_of
from celery_parrot.flower.hearing import sane
from celery_parrot.flower.metrics import Shown

logger = logging.getLogger("celery_parrot")

TEMPLATES: Final = Path(__file__).parents[1] / "templates"

LINK: Final = ("parrot-schedules", "parrot", "Schedules")
"""In Flower's navbar: the name of its route, of its tab, and its text."""

_AN_ITEM: Final = r"<li\b(?:(?!</li>).)*reverse_url\('broker'\)(?:(?!</li>).)*</li>"
_HOUR: Final = 3600.0


class FlowerHandler(BaseHandler):  # type: ignore[misc]  # Flower has no types
    """What we take from Flower's own handlers."""

    @property
    def desk(self) -> Desk:
        """What all requests share."""
        return desk_of(self.application)

    @property
    def authenticates(self) -> bool:
        """Whether this Flower asks anybody who they are."""
        return bool(self.option("basic_auth") or self.option("auth"))

    @property
    def listening(self) -> bool:
        """Whether this Flower receives events, and we with it."""
        events = self.application.events
        return events.is_alive() and "on_event" in vars(events)

    @property
    def open_to_all(self) -> bool:
        """Flower's own switch for an API without authentication."""
        return bool(strtobool(os.environ.get("FLOWER_UNAUTHENTICATED_API") or "false"))

    @property
    def actor(self) -> str:
        """Who asks: the user name of basic auth or the e-mail of OAuth, else empty."""
        if self.option("basic_auth"):
            credentials = self.request.headers["Authorization"].split()[1]  # looked at by get_current_user
            return b64decode(credentials).decode().partition(":")[0]
        user = self.current_user
        return user if isinstance(user, str) else ""

    def option(self, name: str) -> Any:
        """One of Flower's options, None where this release has none of that name."""
        options = self.application.options
        return getattr(options, name) if name in options else None

    def get_current_user(self) -> Any:
        """As Flower does. Raises HTTPError for credentials that are wrong."""
        try:
            return super().get_current_user()
        except TypeError:  # Flower compares ASCII only
            raise HTTPError(401) from None


def put_in_front(routes: Iterable[URLSpec]) -> None:
    """Have Flower serve these before its own, whose last one catches all. May be repeated."""
    known = {id(one) for one in flower.urls.handlers}
    flower.urls.handlers[:0] = [route for route in routes if id(route) not in known]


# --- templates --------------------------------------------------------------------------------------------------------


class Templates(Loader):
    """Flower's templates, with our link in its navbar, and ours below ``parrot/``."""

    def _create_template(self, name: str) -> Template:
        place = TEMPLATES if name.startswith("parrot/") else Path(self.root)
        source = (place / name).read_text("utf-8")
        return Template(with_link(source) if name == "navbar.html" else source, name=name, loader=self)


def with_link(navbar: str) -> str:
    """Flower's navbar with our link after its last one, made as that is made in this release."""
    route, tab, text = LINK
    item = re.search(_AN_ITEM, navbar, re.DOTALL)
    if item is None or not any(isinstance(one, URLSpec) and one.name == route for one in flower.urls.handlers):
        logger.warning("Flower's navbar is not as expected: it has no link to the schedules, which are at /parrot")
        return navbar
    ours = item[0].replace("reverse_url('broker')", f"reverse_url('{route}')").replace("'broker'", f"'{tab}'")
    return navbar[: item.end()] + ours.replace("Broker", text) + navbar[item.end() :]


def serve_templates() -> None:
    """Have Flower take its templates from us. May be repeated."""
    settings = flower.urls.settings
    if not isinstance(settings.get("template_loader"), Templates):
        settings["template_loader"] = Templates(settings["template_path"])


# --- events and metrics -----------------------------------------------------------------------------------------------


def listen() -> None:
    """Hear what Flower's receiver hears, from its first event on, and show our metrics. May be repeated."""
    begin = Events.__init__
    if vars(begin).get("parrot_listens"):
        return

    @functools.wraps(begin)
    def begin_and_listen(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        try:
            desk = desk_at(self, self.capp)
            self.on_event = _heard_by(desk, self.on_event)
            if desk.shown is not None:
                _show(desk.shown)
        except Exception:  # Flower goes on without us
            logger.exception("Flower's events cannot be heard: there will be no live fires")

    vars(begin_and_listen)["parrot_listens"] = True
    Events.__init__ = begin_and_listen


def _heard_by(desk: Desk, on_event: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
    def heard(event: dict[str, Any]) -> None:
        try:
            desk.hear(_with_own_time(sane(event)))
        except Exception as error:  # whatever somebody sends, Flower hears it as well
            logger.debug("an event of type %r cannot be read: %s", event.get("type"), type(error).__name__)
        on_event(event)

    return heard


def _with_own_time(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """With the timestamp as it was sent. Celery moves it by the hours that the sender's zone is away from ours,
    although it counts from 1970 in every zone."""
    if "timestamp" not in event or "utcoffset" not in event:
        return event
    return {**event, "timestamp": event["timestamp"] + (event["utcoffset"] - utcoffset()) * _HOUR}


_on_the_page: list[Shown] = []


def _show(shown: Shown) -> None:
    """Put our families on the page that Flower prints; those of an earlier application go."""
    registry = prometheus_client.REGISTRY
    while _on_the_page:
        registry.unregister(_on_the_page.pop())
    try:
        registry.register(shown)
    except ValueError as error:  # somebody has metrics of these names already
        logger.warning("Flower's /metrics will not have ours: %s", error)
    else:
        _on_the_page.append(shown)
