"""The policy for missing servers, and the ports that the tests' own servers take."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.support.services import answers, free_port, in_ci, unavailable


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("1", True), ("", False), ("0", False), ("false", False)]
)
def test_ci_is_a_setting_that_can_be_off(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    """``CI=false`` and an empty ``CI`` mean a laptop."""
    monkeypatch.setenv("CI", value)
    assert in_ci() is expected


def test_a_missing_service_skips_on_a_laptop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason names the service and what to start."""
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"RabbitMQ on 127.0.0.1:5672 is not available. Start it"):
        unavailable("RabbitMQ on 127.0.0.1:5672", "Start it.")


def test_a_missing_service_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """A green CI never hides a test that did not run."""
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=r"Start it.*fails instead of skipping"):
        unavailable("RabbitMQ on 127.0.0.1:5672", "Start it.")


def test_a_free_port_can_be_bound_and_lies_below_those_of_clients() -> None:
    """A retrying client can then never be given the stopped server's port as its own source port."""
    port = free_port()
    try:
        low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        low = 65_536
    assert port < low
    assert not answers("127.0.0.1", port)
    with socket.create_server(("127.0.0.1", port)):
        assert answers("127.0.0.1", port)


def test_free_ports_differ_between_threads_that_hold_them() -> None:
    """Two tests at once do not get one port, as long as each binds what it got."""
    held: list[socket.socket] = []
    lock = threading.Lock()

    def take() -> None:
        with lock:
            held.append(socket.create_server(("127.0.0.1", free_port())))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({sock.getsockname()[1] for sock in held}) == 8
    for sock in held:
        sock.close()
