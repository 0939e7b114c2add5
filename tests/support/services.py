"""The policy for servers that a test needs: skip on a laptop, fail in CI, say what to start in both."""

from __future__ import annotations

import contextlib
import os
import socket
import uuid
from pathlib import Path
from typing import NoReturn

import pytest


def in_ci() -> bool:
    """Whether ``CI`` is set to anything but an empty value, 0 or false."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def unavailable(what: str, how: str) -> NoReturn:
    """End the running test: a service that it needs is not there.

    :param what: the service, e.g. ``RabbitMQ on 127.0.0.1:5672``.
    :param how: what to start or install, as a command where possible.
    """
    message = f"{what} is not available. {how}"
    if in_ci():
        pytest.fail(f"{message} (CI is set, so this fails instead of skipping)", pytrace=False)
    pytest.skip(message)


def answers(host: str, port: int, timeout: float = 1.0) -> bool:
    """Whether something accepts TCP connections there."""
    try:
        with socket.create_connection((host, port), timeout=timeout):
            return True
    except OSError:
        return False


def unique(length: int = 8) -> str:
    """Letters and digits that no other test uses, for names on shared servers."""
    return uuid.uuid4().hex[:length]


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on, below the range the kernel hands out to clients.

    From inside that range a client that keeps retrying a stopped server may, sooner or later, be given the server's
    own port as its source and connect to itself.
    """
    low, high = 10_000, 32_000
    with contextlib.suppress(OSError):  # not Linux
        high = min(high, int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) - 1)
    if high - low < 1_000:
        low, high = 10_000, 60_000
    width = high - low
    start = int.from_bytes(os.urandom(4), "big") % width
    for step in range(width):
        port = low + (start + step) % width
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port on {host}")
