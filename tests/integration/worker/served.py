"""A coordinator that several processes share: the one in memory, behind a socket.

What these tests are about is the worker. A coordinator that can be looked into, and is the same whatever the broker
is, keeps them so.
"""

from __future__ import annotations

import pickle
import socket
import socketserver
import threading
from collections.abc import Sequence
from typing import Any, Self

from celery_parrot.clock import SystemClock, new_id
from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, Namespace
from celery_parrot.protocols import (
    LimitReply,
    LimitRequest,
    LimitState,
    Reaped,
    Reservation,
    Timing,
)


class CoordinatorServer(socketserver.ThreadingTCPServer):
    """Answers one pickled call a connection. Every caller has the epoch knowledge of a process of its own."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, namespace: Namespace, timing: Timing) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.coordinator = MemoryCoordinator(namespace, timing, SystemClock())
        self.callers: dict[str, MemoryCoordinator] = {}
        self.calls: list[str] = []
        self.port = int(self.server_address[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.shutdown()
        self.server_close()

    def answer(self, caller: str, method: str, args: tuple[Any, ...]) -> Any:
        """Carry out one call."""
        self.calls.append(method)
        coordinator = self.callers.setdefault(caller, self.coordinator.client())
        return getattr(coordinator, method)(*args)


class _Handler(socketserver.StreamRequestHandler):
    server: CoordinatorServer

    def handle(self) -> None:
        reply: tuple[bool, Any]
        try:
            reply = True, self.server.answer(*pickle.load(self.rfile))
        except EOFError:
            return
        except Exception as exc:
            reply = False, exc
        self.wfile.write(pickle.dumps(reply))


class ServedCoordinator:
    """The coordinator of a :class:`CoordinatorServer`, one connection a call."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._caller = new_id()

    def __getattr__(self, method: str) -> Any:
        def call(*args: Any) -> Any:
            try:
                with socket.create_connection(("127.0.0.1", self._port), timeout=1) as sock:
                    sock.sendall(pickle.dumps((self._caller, method, args)))
                    sock.shutdown(socket.SHUT_WR)
                    with sock.makefile("rb") as reply:
                        ok, value = pickle.load(reply)
            except (OSError, EOFError, pickle.UnpicklingError) as exc:
                raise Unreachable(str(exc)) from exc
            if not ok:
                raise value
            return value

        return call

    # Written out: who looks for the capability must find it.

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        return self.__getattr__("request")(requests)  # type: ignore[no-any-return]  # whatever was answered

    def reserve(self, reservations: Sequence[Reservation]) -> Sequence[bool]:
        return self.__getattr__("reserve")(reservations)  # type: ignore[no-any-return]  # whatever was answered

    def limits(self) -> Sequence[LimitState]:
        return self.__getattr__("limits")()  # type: ignore[no-any-return]  # whatever was answered

    def free(self, keys: Sequence[FireKey], reason: str) -> Sequence[Reaped | None]:
        return self.__getattr__("free")(keys, reason)  # type: ignore[no-any-return]  # whatever was answered

    def close(self) -> None:
        """Nothing is open between calls."""
