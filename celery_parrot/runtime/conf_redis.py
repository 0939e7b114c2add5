"""Where the coordinating Redis is: ``parrot_redis_url``, else the broker if it is one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from celery_parrot.runtime.conf_source import Source, mask, refuse

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "redis+socket", "unix")
"""What a Redis URL may begin with."""

_SENTINEL = "sentinel"
_CERT_REQS = re.compile(r"(ssl_cert_reqs=)CERT_(\w+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is. Its text form carries no password.

    :ivar url: as a Redis client takes it, credentials included.
    :ivar options: further arguments of the client.
    """

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        return mask(self.url)


def redis_address(source: Source) -> RedisAddress | None:
    """The address, or None where none is known. Raises ConfigurationError for one that cannot be used."""
    given = source.integer("parrot_redis_db", -1, least=0)
    db = None if given == -1 else given
    options = dict(source.mapping("parrot_redis_options"))
    own = source.raw("parrot_redis_url")
    if own is not None:
        if not isinstance(own, str) or _scheme(own) not in SCHEMES:
            refuse(
                "parrot_redis_url", own, f"does not begin with one of {', '.join(f'{s}://' for s in SCHEMES)}",
                "Write it as redis://[:password@]host:port/db.",
            )  # fmt: skip
        return RedisAddress(_normal(own, db), options)
    broker = _broker(source)
    if broker is None:
        return None
    ssl = source.celery("broker_use_ssl")
    if ssl:
        broker = re.sub(r"^(redis|valkey)://", r"\1s://", broker)
        options = {**(ssl if isinstance(ssl, Mapping) else {}), **options}
    return RedisAddress(_normal(broker, db), options)


def _broker(source: Source) -> str | None:
    """The broker's URL, if it is a Redis; the first of several."""
    url = source.celery("broker_write_url") or source.celery("broker_url")
    if isinstance(url, list | tuple):
        url = ";".join(str(one) for one in url)
    if not isinstance(url, str):
        return None
    if _scheme(url) == _SENTINEL and source.raw("parrot_coordination") is None:
        # Silently uncoordinated beats would send everything once each.
        refuse(
            "broker_url", url, "is a Redis behind Sentinel, and coordinating through Sentinel is not in this release",
            "Set parrot_redis_url to a Redis for coordination, or parrot_coordination to 'none' for a single beat.",
        )  # fmt: skip
    return url.split(";")[0] if _scheme(url) in SCHEMES else None


def _normal(url: str, db: int | None) -> str:
    """From what Celery takes to what a Redis client takes."""
    parts = urlsplit(_CERT_REQS.sub(lambda match: match[1] + match[2].lower(), url.strip()))
    if parts.scheme in ("redis+socket", "unix"):
        query = dict(parse_qsl(parts.query))
        number = query.pop("virtual_host", None)
        if db is not None or number:
            query["db"] = str(db if db is not None else number).lstrip("/")
        return f"unix://{parts.netloc}{parts.path}" + (f"?{urlencode(query)}" if query else "")
    return urlunsplit(parts if db is None else parts._replace(path=f"/{db}"))


def _scheme(url: str) -> str:
    return urlsplit(url.strip()).scheme.lower()
