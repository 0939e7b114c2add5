"""``notify``: any service that Apprise knows (extra ``notify``). Its URLs hold tokens and are never shown."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from celery_parrot.delivery import templates
from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means

_TITLE: Final = "$name: $status"
_MESSAGE: Final = "$name, due $due_at: $status\n$output$error"
#: Plain HTTP to any address: what the checks of ``webhook`` are for.
_WEBHOOKS: Final = frozenset({"json", "jsons", "xml", "xmls", "form", "forms", "http", "https"})
_NEEDS: Final = "needs a package that is not installed: install celery-parrot[notify]"


def check(fields: Fields) -> None:
    """Raises InvalidSchedule."""
    fields.only("type", "name", "url", "title", "message")
    fields.text("name")
    urls = fields.texts("url", hidden=True)
    fields.template("title")
    fields.template("message")
    for url in urls:
        scheme = _scheme(url)
        if not scheme:
            fields.refuse("url", "must be a URL of Apprise, such as slack://…", hidden=True)
        if scheme in _WEBHOOKS and not _native(url):
            fields.refuse("url", f"{scheme}:// goes to any address; use a callback of type webhook", hidden=True)
    try:
        apprise = _apprise()
    except ImportError:
        return  # it is the workers that need it
    for url in urls:
        if apprise.Apprise.instantiate(url, suppress_exceptions=True) is None:
            fields.refuse("url", f"{_scheme(url)}://… is no URL that Apprise can read", hidden=True)


def label(spec: Mapping[str, Any]) -> str:
    """The services."""
    return "notify " + ", ".join(_scheme(url) or "?" for url in _urls(spec))


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """The URLs, whole and less their scheme, and each part of them that may be a token."""
    found: list[str] = []
    for url in _urls(spec):
        rest = url.partition("://")[2]
        found += [url, rest, *(part for part in rest.replace("?", "/").replace("@", "/").split("/") if len(part) > 7)]
    return found


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises NotDelivered."""
    try:
        apprise = _apprise()
    except ImportError:
        raise NotDelivered(_NEEDS) from None
    services = apprise.Apprise()
    for url in _urls(spec):
        if _scheme(url) in _WEBHOOKS and not _native(url):
            raise NotDelivered(f"{_scheme(url)}:// goes to any address; use a callback of type webhook", final=True)
        if not services.add(url):
            raise NotDelivered(f"{_scheme(url)}://… is no URL that Apprise can read", final=True)
    title = templates.one_line(templates.render(str(spec.get("title") or _TITLE), letter.names), 200)
    body = templates.render(str(spec.get("message") or _MESSAGE), letter.names)
    if not services.notify(body=body, title=title):
        raise NotDelivered(f"{label(spec).removeprefix('notify ')}: not taken by the service")


@cache
def _apprise() -> Any:
    """The library and its services, which take a second to load. Raises ImportError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it says of its own modules is nothing that we or our users can change
        import apprise

        apprise.Apprise.instantiate("null://", suppress_exceptions=True)
    return apprise


def _urls(spec: Mapping[str, Any]) -> list[str]:
    given = spec.get("url")
    return [str(one) for one in (given if isinstance(given, list | tuple) else [given]) if one]


def _scheme(url: str) -> str:
    scheme, found, _ = url.partition("://")
    return scheme.strip().lower() if found else ""


def _native(url: str) -> bool:
    """Whether it is the https address of a service that Apprise recognises, as one copies it from that service."""
    try:
        service = _apprise().Apprise.instantiate(url, suppress_exceptions=True)
    except ImportError:
        return False
    return service is not None and not type(service).__name__.startswith(("NotifyJSON", "NotifyXML", "NotifyForm"))
