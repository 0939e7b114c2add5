"""Between Flower and us: :mod:`.internals` has all contact with what Flower does not promise to keep, :mod:`.handlers`
the base of our pages and our API."""

from celery_parrot.flower.bridge.handlers import ApiHandler, Handler, PageHandler, Refused
from celery_parrot.flower.bridge.internals import listen, put_in_front, serve_templates

__all__ = ["ApiHandler", "Handler", "PageHandler", "Refused", "listen", "put_in_front", "serve_templates"]
