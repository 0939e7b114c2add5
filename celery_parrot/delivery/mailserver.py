"""A mail server, as ``parrot_smtp_url`` names it, and one mail through it."""

from __future__ import annotations

import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from celery_parrot.clock import Clock
from celery_parrot.delivery.bounds import Deadline
from celery_parrot.delivery.failures import NotDelivered

TIMEOUT: Final = 30.0
"""Seconds for one mail, from the name's look-up to the server's last word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MailServer:
    """:ivar encrypted: TLS from the first byte (``smtps``); else STARTTLS.
    :ivar plain: may go without any encryption over a network (``?plain=1``).
    """

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    encrypted: bool = False
    plain: bool = False

    @classmethod
    def of(cls, url: str) -> MailServer:
        """From ``smtp://user:pass@host:port`` or ``smtps://…``. Raises ValueError saying what is wrong, without the
        password."""
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            raise ValueError("has a port that is no number up to 65535") from None
        if parts.scheme not in ("smtp", "smtps") or not parts.hostname:
            raise ValueError("must be smtp://user:password@host:port or smtps://…")
        if parts.path not in ("", "/") or parts.fragment:
            raise ValueError("has something behind the host; is a character of the password not written as %XX?")
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(options.keys() - {"plain"}):
            raise ValueError(f"has an unknown option {unknown[0]!r}; there is ?plain=1")
        encrypted = parts.scheme == "smtps"
        user = unquote(parts.username or "")
        return cls(
            host=parts.hostname,
            port=port or (465 if encrypted else 587 if user else 25),
            user=user,
            password=unquote(parts.password or ""),
            encrypted=encrypted,
            plain=options.get("plain", "0") not in ("", "0", "false"),
        )

    def send(self, mail: EmailMessage, recipients: tuple[str, ...], clock: Clock) -> None:
        """One mail to all of them. Raises NotDelivered, SMTPException, OSError."""
        with Deadline(TIMEOUT, clock) as deadline:
            client = _Client(deadline)
            try:
                self._open(client, deadline)
                refused = client.send_message(mail, to_addrs=list(recipients))
            finally:
                client.close()
        if refused:
            # The others have it: a second try would be a second mail to them.
            told = "; ".join(f"{who}: {code} {_text(why)}" for who, (code, why) in refused.items())
            raise NotDelivered(f"the other recipients have it, but not {told}", final=True)

    def _open(self, client: _Client, deadline: Deadline) -> None:
        found = deadline.call(lambda: socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM))
        client.reach([str(each[4][0]) for each in found], self.host, self.port, encrypted=self.encrypted)
        client.ehlo_or_helo_if_needed()
        if not self.encrypted:
            if client.has_extn("starttls"):
                client.starttls(context=client.context())
                client.ehlo()
            elif not (self.plain or client.local):
                raise NotDelivered(
                    "the mail server offers no encryption (STARTTLS); if plain text over the network is meant, "
                    "add ?plain=1 to parrot_smtp_url"
                )
        if self.user:
            client.login(self.user, self.password)


class _Client(smtplib.SMTP):
    """smtplib's client on a connection of ours, whose every wait is bounded."""

    def __init__(self, deadline: Deadline) -> None:
        # Its own default asks the resolver for our name, as long as that takes.
        super().__init__(local_hostname=_own_name())
        self._deadline = deadline
        self.local = False
        self._host = ""

    def reach(self, found: list[str], host: str, port: int, *, encrypted: bool) -> None:
        """Connect to the first of the addresses that answers, and hear its greeting."""
        fault: Exception | None = None
        for address in found:
            try:
                plain = socket.create_connection((address, port), timeout=self._deadline.left())
            except OSError as exc:
                self._deadline.left()
                fault = exc
                continue
            self._host, self.local = host, _is_loopback(address)
            self.sock = self._deadline.watch(plain)
            if encrypted:
                self._encrypt(plain)
            code, said = self.getreply()
            if code != 220:
                raise smtplib.SMTPConnectError(code, said)
            return
        raise NotDelivered(f"the mail server cannot be reached: {fault}")

    def _encrypt(self, plain: socket.socket) -> None:
        connection = self.context().wrap_socket(plain, server_hostname=self._host, do_handshake_on_connect=False)
        self.sock = self._deadline.watch(connection)
        connection.do_handshake()

    def starttls(self, *args: Any, **kwargs: Any) -> tuple[int, bytes]:
        """As smtplib's, and the encrypted connection is the one to cut."""
        reply = super().starttls(*args, **kwargs)
        if isinstance(self.sock, socket.socket):
            self._deadline.watch(self.sock)
        return reply

    def context(self) -> ssl.SSLContext:
        """The server must prove its name, except on this very machine, where it can have none."""
        context = ssl.create_default_context()
        if self.local:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def close(self) -> None:
        """Say goodbye if there is time, and go."""
        if self.sock is not None:
            with suppress(Exception):
                self.sock.settimeout(1.0)
                self.sock.sendall(b"QUIT\r\n")
        with suppress(Exception):
            super().close()


def _is_loopback(address: str) -> bool:
    return ip_address(address.partition("%")[0]).is_loopback


def _own_name() -> str:
    name = socket.gethostname()
    return name if "." in name and name.isascii() else "[127.0.0.1]"


def _text(said: bytes | str) -> str:
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else said
