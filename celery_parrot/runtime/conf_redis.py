"""Where the coordinating Redis is: ``parrot_redis_url``, else the broker if it is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from celery_parrot.runtime.conf_source import Source, mask, refuse

SCHEMES = ("redis", "rediss", "valkey", "valkeys", "sentinel", "redis+socket", "unix")
"""What a Redis URL may begin with."""


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is. Its text form carries no password.

    :ivar url: as written, credentials included; several sentinels are separated by ``;``.
    :ivar db: overrides the database number of the URL.
    :ivar options: further arguments of the client.
    """

    url: str = field(repr=False)
    db: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def cluster(self) -> bool:
        """Whether it is a Redis Cluster, where all keys must share a hash tag."""
        return bool(self.options.get("cluster"))

    def __str__(self) -> str:
        return mask(self.url) + ("" if self.db is None else f" db {self.db}")


def redis_address(source: Source) -> RedisAddress | None:
    """The address, or None where none is known. Raises ConfigurationError for one that cannot be read."""
    db = source.integer("parrot_redis_db", -1, least=0)
    chosen = None if db == -1 else db
    options = dict(source.mapping("parrot_redis_options"))
    own = source.raw("parrot_redis_url")
    if own is not None:
        if not isinstance(own, str) or _scheme(own) not in SCHEMES:
            refuse(
                "parrot_redis_url", own, f"does not begin with one of {', '.join(f'{s}://' for s in SCHEMES)}",
                "Write it as redis://[:password@]host:port/db.",
            )  # fmt: skip
        return RedisAddress(own, chosen, options)
    broker = _broker(source)
    return None if broker is None else RedisAddress(broker, chosen, {**_broker_options(source), **options})


def _broker(source: Source) -> str | None:
    url = source.celery("broker_write_url") or source.celery("broker_url")
    if isinstance(url, list | tuple):
        url = ";".join(str(one) for one in url)
    if not isinstance(url, str) or _scheme(url) not in SCHEMES:
        return None
    # Several addresses are several sentinels of one server; of several plain servers the first is the one in use.
    return url if _scheme(url) == "sentinel" else url.split(";")[0]


def _broker_options(source: Source) -> dict[str, Any]:
    """What of the broker's options says how to reach that server at all."""
    transport = source.celery("broker_transport_options") or {}
    found = {key: transport[key] for key in ("master_name", "sentinel_kwargs") if key in transport}
    ssl = source.celery("broker_use_ssl")
    if isinstance(ssl, Mapping):
        found |= ssl
    return found


def _scheme(url: str) -> str:
    return urlsplit(url.strip()).scheme.lower()
