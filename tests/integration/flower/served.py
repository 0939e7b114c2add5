"""A real Flower application that answers real HTTP, in a thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import flower.options
import flower.urls
from celery import Celery
from flower.app import Flower
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.netutil import bind_sockets

import celery_parrot.flower.plugin as plugin  # before Flower's application is imported, as flowerconfig.py has it
from celery_parrot.flower.desk import Desk, desk_of

plugin.install()  # a second time changes nothing


class Options(dict[str, Any]):
    """Flower's options as they are without a command line."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        """What an answer that is not 2xx says: always one sentence."""
        error = self.json["error"]
        assert error["message"].endswith((".", "?")), error
        return error


@dataclass
class Served:
    """:ivar headers: sent with each request."""

    application: Any
    port: int
    loop: IOLoop
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def desk(self) -> Desk:
        return desk_of(self.application)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, **headers: str) -> Answer:
        """One request. Names of ``headers`` have _ for -."""
        connection = self.connect()
        try:
            sent = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
            body = "{}" if method != "GET" else None
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read().decode())
        finally:
            connection.close()

    def connect(self, timeout: float = 20) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, **headers)

    def post(self, path: str, **headers: str) -> Answer:
        return self.ask("POST", path, **headers)

    def on_loop(self, function: Callable[[], None]) -> None:
        """Call it on Flower's loop, where nothing else happens meanwhile."""
        done = threading.Event()

        def call() -> None:
            function()
            done.set()

        self.loop.add_callback(call)
        assert done.wait(10)

    def tell(self, name: str, **fields: Any) -> None:
        """As if Flower's receiver had got this event."""
        event = {"type": name, "hostname": "beat@here", "timestamp": 1_800_000_000.0, "utcoffset": 0, "pid": 1}
        self.application.events.on_event({**event, "clock": 1, "local_received": 0.0, **fields})


@contextmanager
def serve(app: Celery, **options: Any) -> Iterator[Served]:
    """``celery -A app flower`` with these options, but for what it asks of workers and brokers."""
    made: list[Served] = []
    ready = threading.Event()

    def run() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        loop = IOLoop.current()
        chosen = Options(flower.options.default_options.as_dict() | options)
        settings: dict[str, Any] = {**flower.urls.settings, "cookie_secret": "of the tests"}
        application = Flower(capp=app, options=chosen, io_loop=loop, **settings)
        (socket,) = bind_sockets(0, "127.0.0.1")
        server = HTTPServer(application)
        server.add_socket(socket)
        made.append(Served(application, socket.getsockname()[1], loop))
        ready.set()
        loop.start()
        server.stop()
        loop.run_sync(server.close_all_connections)
        loop.close()

    thread = threading.Thread(target=run, name="flower", daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield made[0]
    finally:
        made[0].desk.close()
        made[0].loop.add_callback(made[0].loop.stop)
        thread.join(10)
        made[0].application.executor.shutdown(wait=False)
