"""``webhook``: the story as JSON, POSTed, signed by the Standard Webhooks scheme.

The name is resolved once, every address of it is checked, and the connection goes to a checked address: a name that
answers differently the second time gains nothing. Redirects are answers like any other that is not a success.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import http.client
import json
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from celery_parrot.__about__ import __version__
from celery_parrot.delivery.bounds import Deadline
from celery_parrot.delivery.destinations import checked
from celery_parrot.delivery.failures import NotDelivered
from celery_parrot.delivery.fields import Fields
from celery_parrot.delivery.means import Letter, Means
from celery_parrot.model.secrets import mask

TIMEOUT: Final = 10.0
LONGEST_TIMEOUT: Final = 60.0
_PREFIX: Final = "whsec_"
_KEY_BYTES: Final = (24, 64)
_GONE: Final = 410
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e]*")
_OWN_HEADERS: Final = frozenset(
    {"host", "content-length", "content-type", "connection", "transfer-encoding", "expect", "upgrade"}
)


def check(fields: Fields) -> None:
    """Raises InvalidSchedule."""
    fields.only("type", "name", "url", "secret", "headers", "timeout")
    fields.text("name")
    url = fields.text("url", required=True, hidden=True)
    assert url is not None
    if reason := _url_fault(url):
        fields.refuse("url", reason)
    fields.seconds("timeout", LONGEST_TIMEOUT)
    if fields.given.get("secret") is not None:
        for secret in fields.texts("secret", hidden=True):
            if key_of(secret) is None:
                fields.refuse(
                    "secret", f"must be {_PREFIX} and the base64 of {_KEY_BYTES[0]} to {_KEY_BYTES[1]} bytes (or a "
                    "list of such, while you change it)", hidden=True,
                )  # fmt: skip
    for name, value in fields.mapping("headers").items():
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name) or lower in _OWN_HEADERS or lower.startswith("webhook-"):
            fields.refuse("headers", f"{name!r} is no header that can be set here", hidden=True)
        if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
            fields.refuse("headers", f"the value of {name!r} must be a text of printable ASCII", hidden=True)


def label(spec: Mapping[str, Any]) -> str:
    """Scheme and host: paths and queries of webhooks are often what keeps strangers out."""
    try:
        parts = urlsplit(str(spec.get("url") or ""))
        return f"webhook {parts.scheme}://{parts.hostname or ''}"
    except ValueError:
        return "webhook"


def secrets(spec: Mapping[str, Any]) -> list[str]:
    """What must not be shown."""
    given = spec.get("secret")
    headers = spec.get("headers")
    url = str(spec.get("url") or "")
    return [
        *(str(one) for one in (given if isinstance(given, list | tuple) else [given]) if one),
        *(str(value) for value in (headers.values() if isinstance(headers, Mapping) else ())),
        url,
        *((path,) if (path := url.partition("://")[2].partition("/")[2]) else ()),
    ]


def key_of(secret: str) -> bytes | None:
    """The bytes of a ``whsec_…`` secret, or None if it is none."""
    if not secret.startswith(_PREFIX):
        return None
    text = secret.removeprefix(_PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if _KEY_BYTES[0] <= len(key) <= _KEY_BYTES[1] else None


def signature(keys: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of ``webhook-signature``: one ``v1`` for each key."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    return " ".join("v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)


def body_of(letter: Letter) -> bytes:
    """The same for every try."""
    parcel = letter.parcel
    body = {
        "type": f"fire.{parcel.about}" if parcel.about != "alert" else "schedule.disabled",
        "timestamp": (parcel.finished_at or parcel.queued_at).isoformat(),
        "data": parcel.to_json(),
    }
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def send(spec: Mapping[str, Any], letter: Letter, means: Means) -> None:
    """Raises NotDelivered, OSError, HTTPException."""
    url = str(spec["url"])
    if reason := _url_fault(url):
        raise NotDelivered(f"url {reason}", final=True)
    parts = urlsplit(url)
    body = body_of(letter)
    headers = _headers(spec, letter, means, body)
    with Deadline(min(float(spec.get("timeout") or TIMEOUT), LONGEST_TIMEOUT), means.clock) as deadline:
        connection = _connect(parts, means, deadline)
        try:
            connection.request("POST", _target(parts), body=body, headers=headers)
            status = connection.getresponse().status  # the body stays unread: nothing here depends on it
        finally:
            connection.close()
    _judge(status)


def _headers(spec: Mapping[str, Any], letter: Letter, means: Means, body: bytes) -> dict[str, str]:
    timestamp = int(means.clock.now().timestamp())
    headers = {
        **{str(name): str(value) for name, value in (spec.get("headers") or {}).items()},
        "Content-Type": "application/json",
        "Connection": "close",
        "User-Agent": f"celery-parrot/{__version__}",
        "webhook-id": letter.key,
        "webhook-timestamp": str(timestamp),
    }
    given = spec.get("secret")
    if given:
        keys = [key_of(str(one)) for one in (given if isinstance(given, list | tuple) else [given])]
        if None in keys:
            raise NotDelivered(f"secret is no {_PREFIX} secret", final=True)
        headers["webhook-signature"] = signature([key for key in keys if key], letter.key, timestamp, body)
    return headers


def _connect(parts: SplitResult, means: Means, deadline: Deadline) -> http.client.HTTPConnection:
    host, secure = _ascii(parts.hostname or ""), parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    found = deadline.call(lambda: checked(host, port, means.allow, means.resolve))
    plain = _socket(found, port, deadline)
    connection = http.client.HTTPConnection(host, port)
    try:
        connection.sock = _encrypted(plain, host, deadline) if secure else plain
    except BaseException:
        plain.close()
        raise
    if secure:
        connection.default_port = 443  # what the Host header leaves out
    return connection


def _socket(found: Sequence[str], port: int, deadline: Deadline) -> socket.socket:
    """A connection to the first of the addresses that takes one."""
    fault: OSError | None = None
    for address in found:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        candidate = socket.socket(family, socket.SOCK_STREAM)
        try:
            deadline.watch(candidate).connect((address, port))
            return candidate
        except OSError as exc:
            candidate.close()
            deadline.left()
            fault = exc
        except BaseException:
            candidate.close()
            raise
    raise NotDelivered(f"no connection: {fault.strerror or fault if fault else 'no address'}")


def _encrypted(plain: socket.socket, host: str, deadline: Deadline) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    connection = context.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
    try:
        deadline.watch(connection)
        connection.do_handshake()
    except BaseException:
        connection.close()
        raise
    return connection


def _judge(status: int) -> None:
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise NotDelivered(f"answered {status}, a redirect, which is not followed: give the url it leads to")
    raise NotDelivered(f"answered {status}", final=status == _GONE)


def _target(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path


def _ascii(host: str) -> str:
    try:
        return host if host.isascii() else host.encode("idna").decode()
    except UnicodeError:
        raise NotDelivered("the host name cannot be written in ASCII", final=True) from None


def _url_fault(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as exc:
        return f"is no URL: {mask(str(exc))}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return "must be a URL of http or https with a host, such as https://example.com/hook"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user or password; put them into headers"
    if not url.isascii() and not (parts.path + parts.query).isascii():
        return "has characters that a URL writes as %XX"
    return "has a space" if " " in url else ""
