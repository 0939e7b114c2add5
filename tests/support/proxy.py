"""A TCP proxy between a process and its server, to break the network without touching either."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import Literal, Self

from tests.support.services import free_port
from tests.support.waiting import pause, wait_until

Direction = Literal["requests", "replies", "both"]


class TcpProxy:
    """Forwards ``127.0.0.1:port`` to a target until told otherwise. The port stays the same over cut and restore.

    * :meth:`cut`: connections are reset, new ones refused (a crash).
    * :meth:`stall`: connections stay open and nothing passes (a partition). With ``"replies"`` the server still gets
      what is sent to it and only the answer is held: the way to lose a reply.
    * :attr:`delay`: seconds by which every chunk is late, each way.
    * :meth:`restore`: all well again; what a stall held back is delivered now.
    """

    def __init__(self, target_host: str, target_port: int, *, delay: float = 0.0) -> None:
        self.target = (target_host, target_port)
        self.host = "127.0.0.1"
        self.port = free_port()
        self.delay = delay
        self.accepted = 0
        self._lock = threading.Lock()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._half_closed: set[tuple[socket.socket, socket.socket]] = set()
        self._flow = {"requests": threading.Event(), "replies": threading.Event()}
        self._listener: socket.socket | None = None
        for gate in self._flow.values():
            gate.set()
        self._listen()

    def url(self, template: str) -> str:
        """``template`` with ``{host}`` and ``{port}`` filled in: ``proxy.url("redis://{host}:{port}/0")``."""
        return template.format(host=self.host, port=self.port)

    def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            _close(listener)
        with self._lock:
            pairs, self._pairs = self._pairs, set()
            self._half_closed.clear()
        for pair in pairs:
            for side in pair:
                _reset(side)

    def stall(self, direction: Direction = "both") -> None:
        """Hold everything that passes in ``direction``; connections stay open, new ones are accepted and hang."""
        for name, gate in self._flow.items():
            if direction in (name, "both"):
                gate.clear()

    def restore(self) -> None:
        """Undo :meth:`cut` and :meth:`stall`."""
        for gate in self._flow.values():
            gate.set()
        if self._listener is None:
            self._listen()

    def close(self) -> None:
        """End it. Safe to repeat."""
        self.cut()
        for gate in self._flow.values():
            gate.set()  # pumps that hold something find their sockets closed and end

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- inside ---

    def _listen(self) -> None:
        def bound() -> socket.socket:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((self.host, self.port))
                listener.listen(128)
            except OSError:
                listener.close()
                raise
            return listener

        listener = wait_until(bound, f"port {self.port} to be free again", 5)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), name=f"proxy-{self.port}", daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = listener.accept()
            except OSError:  # closed by cut()
                return
            self.accepted += 1
            try:
                far = socket.create_connection(self.target, timeout=5)
            except OSError:
                _reset(near)
                continue
            far.settimeout(None)
            pair = (near, far)
            with self._lock:
                alive = self._listener is listener
                if alive:
                    self._pairs.add(pair)
            if not alive:
                _reset(near)
                _reset(far)
                return
            for source, sink, gate in ((near, far, "requests"), (far, near, "replies")):
                threading.Thread(target=self._pump, args=(pair, source, sink, self._flow[gate]), daemon=True).start()

    def _pump(
        self,
        pair: tuple[socket.socket, socket.socket],
        source: socket.socket,
        sink: socket.socket,
        gate: threading.Event,
    ) -> None:
        try:
            while data := source.recv(65536):
                gate.wait()
                if self.delay:
                    pause(self.delay)
                sink.sendall(data)
            gate.wait()
            sink.shutdown(socket.SHUT_WR)  # the other way may still flow
        except OSError:
            done = True
        else:
            with self._lock:
                done = pair in self._half_closed or pair not in self._pairs
                self._half_closed.add(pair)
        if done:
            with self._lock:
                self._pairs.discard(pair)
                self._half_closed.discard(pair)
            for side in pair:
                _close(side)


def _close(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that blocks in accept() or recv()
    with contextlib.suppress(OSError):
        sock.close()


def _reset(sock: socket.socket) -> None:
    """Close with RST, as a crashed host's kernel would."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        sock.close()
