"""Where the coordinating Redis is: ``parrot_redis_url``, else the broker if it is one."""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from celery_parrot.model.secrets import mask
from celery_parrot.runtime.conf_source import Source, closest, number, refuse

SENTINEL = "sentinel"
CLUSTER = ("redis+cluster", "rediss+cluster")
SCHEMES = ("redis", "rediss", "valkey", "valkeys", "redis+socket", "unix")
"""What the URL of one server may begin with."""

_URL, _OPTIONS, _DB = "parrot_redis_url", "parrot_redis_options", "parrot_redis_db"
_CERT_REQS = re.compile(r"(ssl_cert_reqs=)CERT_(\w+)", re.IGNORECASE)
_PORTS = {SENTINEL: 26379}


@dataclass(frozen=True, slots=True)
class Behind:
    """How to ask Sentinel.

    :ivar master: what the sentinels call the group. :ivar options: arguments of their clients.
    """

    master: str
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    min_other_sentinels: int = 0


@dataclass(frozen=True, slots=True)
class RedisAddress:
    """Where Redis is. Its text form carries no password.

    :ivar url: as a Redis client takes it, credentials included; as it was given where there are several nodes.
    :ivar options: further arguments of the client. Where there are several nodes, credentials are among them.
    :ivar nodes: the sentinels, or the nodes of a cluster that are asked first. :ivar sentinel: None without Sentinel.
    :ivar cluster: whether it is a cluster: then the name is in a hash tag, so that all keys are in one slot.
    """

    url: str = field(repr=False)
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    nodes: Sequence[tuple[str, int]] = ()
    sentinel: Behind | None = None
    cluster: bool = False

    def __str__(self) -> str:
        return mask(self.url) + (f" ({self.sentinel.master})" if self.sentinel else "")


def redis_address(source: Source) -> RedisAddress | None:
    """The address, or None where none is known. Raises ConfigurationError for one that cannot be used."""
    given = source.integer(_DB, -1, least=0)
    db = None if given == -1 else given
    options = source.mapping(_OPTIONS)
    own = source.raw(_URL)
    if own is not None:
        scheme = _scheme(own) if isinstance(own, str) else ""
        if scheme == SENTINEL:
            return _behind_sentinel(_URL, own, db, options)
        if scheme in CLUSTER:
            return _cluster(source, own, db, options)
        if scheme not in SCHEMES:
            known = (*SCHEMES, SENTINEL, *CLUSTER)
            refuse(
                _URL, own, f"does not begin with one of {', '.join(f'{s}://' for s in known)}",
                "Write it as redis://[:password@]host:port/db.",
            )  # fmt: skip
        return _one_server(_URL, own, db, options)
    broker = _broker(source)
    if broker is None:
        return None
    tls = source.celery("broker_use_ssl")
    brought = dict(tls) if isinstance(tls, Mapping) else {}
    if _scheme(broker) == SENTINEL:
        transport = source.celery("broker_transport_options") or {}
        asked = {key: transport[key] for key in _SENTINEL_OPTIONS if transport.get(key) is not None}
        if tls:
            brought["ssl"] = True
        return _behind_sentinel("broker_url", broker, db, options, {**asked, **brought})
    if tls:
        broker = re.sub(r"^(redis|valkey)://", r"\1s://", broker)
    return _one_server("broker_url", broker, db, options, brought)


# --- one server, Sentinel, a cluster ---


def _one_server(
    label: str, url: str, db: int | None, options: Mapping[str, Any], brought: Mapping[str, Any] | None = None
) -> RedisAddress:
    known: dict[str, _Check] = {**_OF_EVERY}
    scheme = _scheme(url)
    if scheme in ("rediss", "valkeys"):
        known |= _OF_TLS
    elif scheme in ("redis+socket", "unix"):
        known = {key: check for key, check in known.items() if not key.startswith("socket_keepalive")}
    checked = _checked(_OPTIONS, options, known)
    try:
        _ = urlsplit(url.strip()).port
    except ValueError as exc:
        _no_node(label, url, str(exc))
    return RedisAddress(_normal(url, db), {**(brought or {}), **checked})


def _behind_sentinel(
    label: str, url: str, db: int | None, options: Mapping[str, Any], brought: Mapping[str, Any] | None = None
) -> RedisAddress:
    """:param brought: what the broker's own settings say; ours win."""
    checked = {**(brought or {}), **_checked(_OPTIONS, options, {**_OF_EVERY, **_OF_TLS, **_SENTINEL_OPTIONS})}
    _tls_only(checked, bool(checked.get("ssl")), "the master's connection is not over TLS", "Add 'ssl': True.")
    nodes, found = _nodes(label, url)
    if db is not None:
        found["db"] = db
    master = checked.pop("master_name", None)
    if not isinstance(master, str) or not master:
        where = "broker_transport_options or parrot_redis_options" if label == "broker_url" else _OPTIONS
        refuse(
            label, url, "is a Redis behind Sentinel, and the name of its master is not known",
            f"Set 'master_name' in {where}, or parrot_redis_url to another Redis.",
        )  # fmt: skip
    behind = Behind(master, checked.pop("sentinel_kwargs", {}), checked.pop("min_other_sentinels", 0))
    return RedisAddress(url, {**found, **checked}, nodes, behind)


def _cluster(source: Source, url: str, db: int | None, options: Mapping[str, Any]) -> RedisAddress:
    if db:
        refuse(source.label(_DB), db, "a Redis Cluster has one database only", "Remove it; parrot_name keeps apart.")
    tls = _scheme(url) == CLUSTER[1]
    known = {**_OF_EVERY, **(_OF_TLS if tls else {})}
    known.pop("health_check_interval")
    checked = _checked(_OPTIONS, options, known)
    nodes, found = _nodes(_URL, url)
    if found.pop("db", 0):
        refuse(_URL, url, "names a database, and a Redis Cluster has one only", "Leave the number out.")
    return RedisAddress(url, {**found, **({"ssl": True} if tls else {}), **checked}, nodes, cluster=True)


def _nodes(label: str, url: str) -> tuple[Sequence[tuple[str, int]], dict[str, Any]]:
    """The nodes of ``scheme://[user:password@]host:port[/db];host:port;…``, and the first credentials and database."""
    scheme = _scheme(url)
    nodes: list[tuple[str, int]] = []
    found: dict[str, Any] = {}
    for part in filter(None, (one.strip() for one in url.split(";"))):
        try:
            parts = urlsplit(part if "://" in part else f"{scheme}://{part}")
            host, port = parts.hostname, parts.port or _PORTS.get(scheme, 6379)
        except ValueError as exc:
            _no_node(label, url, str(exc))
        path = parts.path.strip("/")
        if parts.scheme.lower() != scheme:
            _no_node(label, url, f"begins with {scheme}:// and goes on with {parts.scheme}://")
        if not host or (path and not path.isdecimal()):
            _no_node(label, url, "holds something that is no host:port, or a database that is no number")
        if parts.query and label == _URL:
            _no_node(label, url, "holds a '?'; arguments of the client belong into parrot_redis_options")
        nodes.append((unquote(host), port))
        for key, value in (("username", parts.username), ("password", parts.password)):
            if value and key not in found:
                found[key] = unquote(value)
        if path and "db" not in found:
            found["db"] = int(path)
    return tuple(nodes), found


def _no_node(label: str, url: str, reason: str) -> NoReturn:
    scheme = _scheme(url)
    further = f";{scheme}://host:port" if scheme == SENTINEL or scheme in CLUSTER else ""
    refuse(
        label, url, reason,
        f"Write it as {scheme}://[:password@]host:port{further}, special characters of a password as %3B.",
    )  # fmt: skip


def _broker(source: Source) -> str | None:
    """The broker's URL, if it is a Redis; the first of several, but all sentinels."""
    url = source.celery("broker_write_url") or source.celery("broker_url")
    if isinstance(url, list | tuple):
        url = ";".join(str(one) for one in url)
    if not isinstance(url, str):
        return None
    if _scheme(url) == SENTINEL:
        # Without Redis nothing has to be known of it; silently uncoordinated beats would send everything once each.
        return None if source.raw("parrot_coordination") == "none" else url
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


# --- options ---

_Check = Callable[[str, Any], Any]
"""Takes an option's full name and its value; returns what the client gets, or raises ConfigurationError."""


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        refuse(key, type(value).__name__, "must be a text", "Set one, or remove it.")  # may be a secret
    return value


def _path(key: str, value: Any) -> str:
    return _text(key, str(value) if hasattr(value, "__fspath__") else value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        refuse(key, value, "is neither True nor False", "Set one of them, or remove it.")
    return value


def _whole(key: str, value: Any, *, least: int) -> int:
    found = number(key, value, zero=True)
    if found != int(found) or found < least:
        refuse(key, value, f"must be a whole number of at least {least}", "Set one, or remove it.")
    return int(found)


def _mapping(key: str, value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        refuse(key, value, "must be a dictionary", "Set a dictionary, or remove it.")
    return value


def _protocol(key: str, value: Any) -> int:
    if value not in (2, 3) or isinstance(value, bool):
        refuse(key, value, "is no protocol of Redis", "Set 2 or 3, or remove it.")
    return int(value)


def _cert_reqs(key: str, value: Any) -> Any:
    if isinstance(value, str):
        value = value.lower().removeprefix("cert_")
    if value not in ("none", "optional", "required", *ssl.VerifyMode):
        refuse(key, value, "is not known", "Set 'required', 'optional' or 'none'.")
    return value


def _as_it_is(key: str, value: Any) -> Any:
    return value


_OF_EVERY: Mapping[str, _Check] = {
    "username": _text, "password": _text, "client_name": _text, "credential_provider": _as_it_is,
    "socket_timeout": number, "socket_connect_timeout": number, "socket_keepalive": _flag,
    "socket_keepalive_options": _mapping, "health_check_interval": partial(number, zero=True),
    "max_connections": partial(_whole, least=1), "protocol": _protocol,
}  # fmt: skip
_OF_TLS: Mapping[str, _Check] = {
    "ssl_ca_certs": _path, "ssl_ca_path": _path, "ssl_ca_data": _text, "ssl_certfile": _path, "ssl_keyfile": _path,
    "ssl_password": _text, "ssl_cert_reqs": _cert_reqs, "ssl_check_hostname": _flag,
}  # fmt: skip
_OF_SENTINELS: Mapping[str, _Check] = {**_OF_EVERY, **_OF_TLS, "ssl": _flag}


def _sentinel_kwargs(key: str, value: Any) -> Mapping[str, Any]:
    found = _checked(key, _mapping(key, value), _OF_SENTINELS)
    _tls_only(found, bool(found.get("ssl")), "the sentinels' connections are not over TLS", "Add 'ssl': True.", key)
    return found


_SENTINEL_OPTIONS: Mapping[str, _Check] = {
    "master_name": _text, "sentinel_kwargs": _sentinel_kwargs, "min_other_sentinels": partial(_whole, least=0),
    "ssl": _flag,
}  # fmt: skip


def _checked(label: str, options: Mapping[str, Any], known: Mapping[str, _Check]) -> dict[str, Any]:
    """``options`` as the client takes them. Raises ConfigurationError for the first that it does not know."""
    found: dict[str, Any] = {}
    for key, value in options.items():
        name = f"{label}[{key!r}]"
        if key in known:
            found[key] = known[key](name, value)
        elif key in _OF_TLS:
            told = _HIDDEN if "password" in key else value
            refuse(name, told, "needs TLS", "Begin the URL with rediss://, or remove it.")
        elif key in _SENTINEL_OPTIONS:
            refuse(name, value, "is for Sentinel only", "Begin the URL with sentinel://, or remove it.")
        elif key == "db":
            refuse(name, value, "has a setting of its own", "Set parrot_redis_db.")
        else:
            hint = closest(str(key), known)
            refuse(name, _HIDDEN, "is no option here", f"{hint}Use one of {', '.join(sorted(known))}.")
    return found


_HIDDEN = "**"
"""In place of what may be a password: also the value of an option whose name is misspelt."""


def _tls_only(options: Mapping[str, Any], tls: bool, reason: str, fix: str, label: str = _OPTIONS) -> None:
    for key in options:
        if key in _OF_TLS and not tls:
            refuse(f"{label}[{key!r}]", options[key] if key != "ssl_password" else _HIDDEN, reason, fix)
