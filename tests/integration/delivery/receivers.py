"""A mail server and a web server on the loopback, each real, each a context manager."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult

CERTIFICATE = Path(__file__).with_name("hooks_example.pem")
"""Of ``hooks.example`` and ``mail.example``, with its key; nobody trusts it but who is told to. From 2020 to 2120."""


def certified() -> ssl.SSLContext:
    """A server that proves itself by :data:`CERTIFICATE`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def free_port() -> int:
    """One that nobody listens to now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Post:
    """What a mail server took in."""

    mails: list[EmailMessage] = field(default_factory=list)
    recipients: list[list[str]] = field(default_factory=list)
    logins: list[bytes] = field(default_factory=list)
    refuse: frozenset[str] = frozenset()

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address in self.refuse:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        self.recipients.append(list(envelope.rcpt_tos))
        return "250 OK"

    def login(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append(data.login + b":" + data.password)
        return AuthResult(success=True)


@contextmanager
def mail_server(post: Post, port: int = 0, *, encrypted: ssl.SSLContext | None = None, **options: Any) -> Iterator[int]:
    """aiosmtpd in a thread; its port. ``encrypted``: from the first byte."""
    loop = asyncio.new_event_loop()

    def protocol() -> SMTP:
        # Loop given, no name of ours looked up: some machines take seconds for that.
        return SMTP(post, hostname="mail.test", loop=loop, authenticator=post.login, auth_require_tls=False, **options)

    server = loop.run_until_complete(loop.create_server(protocol, "127.0.0.1", port, ssl=encrypted))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:

        async def stop() -> None:
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)  # noqa: TID251  # lets the cancelled end; no time passes
            loop.stop()

        asyncio.run_coroutine_threadsafe(stop(), loop)
        thread.join(5)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@dataclass
class Hooks:
    """What a web server was sent, and what it answers."""

    requests: list[tuple[str, Mapping[str, str], bytes]] = field(default_factory=list)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def web_server(hooks: Hooks, encrypted: ssl.SSLContext | None = None) -> Iterator[int]:
    """http.server in a thread; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hooks.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(hooks.status)
            for name, value in hooks.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that refuses our certificate
    if encrypted is not None:
        server.socket = encrypted.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def raw_server(handle: Callable[[socket.socket, threading.Event], None]) -> Iterator[int]:
    """A server that does what it likes with its first connection, until told to stop; its port."""
    stop = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, suppress(OSError):
            handle(connection, stop)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listener.getsockname()[1])
    finally:
        stop.set()
        listener.close()
        thread.join(5)
