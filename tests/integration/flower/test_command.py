"""Flower as people start it: the verb, or Flower's own command with one import in its configuration."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from celery import Celery
from click.testing import CliRunner

from celery_parrot.cli import parrot
from tests.support.procs import Proc, Procs
from tests.support.services import free_port
from tests.support.waiting import wait_until

APP = "tests.integration.flower.command_app"
BASIC = {"Authorization": "Basic YW5uOnNlY3JldA=="}  # ann:secret
NO_WORKERS = "inspect_timeout = 10.0\n"
"""In Flower's configuration: it asks workers what they do, and here nobody answers."""


class OverSocket(http.client.HTTPConnection):
    """HTTP through a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10)
        self._path = str(path)

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def status(connection: http.client.HTTPConnection, path: str, headers: dict[str, str]) -> int:
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def up(proc: Proc, ask: Callable[[], int]) -> None:
    wait_until(lambda: ask() == 200, "Flower to answer", 20, explain=proc.tail)


def test_the_verb_hands_flowers_own_options_on(procs: Procs, redis_url: str, tmp_path: Path) -> None:
    """From the command line, the environment and the file of ``--conf``, for the same app."""
    conf, door = tmp_path / "mine.py", tmp_path / "flower.socket"
    conf.write_text(f"url_prefix = 'ops'\n{NO_WORKERS}")
    flower = procs.celery(
        "flower", APP, "parrot", "flower", f"--conf={conf}", f"--unix_socket={door}",
        env={"BROKER": redis_url, "FLOWER_BASIC_AUTH": "ann:secret"},
    )  # fmt: skip
    up(flower, lambda: status(OverSocket(door), "/ops/parrot/schedules", BASIC))
    assert status(OverSocket(door), "/ops/parrot/api/fires", BASIC) == 200
    assert status(OverSocket(door), "/ops/parrot/api/fires", {}) == 401
    assert "Registered tasks" in flower.tail()
    assert "tests.command" in flower.tail()
    assert "secret" not in flower.tail()
    assert flower.terminate(timeout=10) == 0


def test_one_import_in_flowers_configuration_is_enough(procs: Procs, redis_url: str, tmp_path: Path) -> None:
    """``celery -A app flower``, as ever."""
    conf, port = tmp_path / "flowerconfig.py", free_port()
    conf.write_text(f"import celery_parrot.flower.plugin\n{NO_WORKERS}")
    flower = procs.celery(
        "flower", APP, "flower", f"--conf={conf}", "--address=127.0.0.1", f"--port={port}", env={"BROKER": redis_url}
    )
    up(flower, lambda: status(http.client.HTTPConnection("127.0.0.1", port, timeout=10), "/parrot/schedules", {}))


def test_without_flower_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one sentence."""
    for name in ("flower", "flower.command"):
        monkeypatch.setitem(sys.modules, name, None)
    result = CliRunner().invoke(parrot, ["flower", "--port=1"], obj=SimpleNamespace(app=Celery(set_as_current=False)))
    assert (result.exit_code, result.output) == (
        1, "Error: Flower is not installed. Install it: pip install 'celery-parrot[flower]'\n",
    )  # fmt: skip


def test_a_value_without_the_sign_of_equality_is_told() -> None:
    """As Flower wants it, which is not as Celery's own options are written."""
    result = CliRunner().invoke(
        parrot, ["flower", "--port", "1"], obj=SimpleNamespace(app=Celery(set_as_current=False))
    )
    assert result.exit_code == 2
    assert "Error: Option 'port' requires a value. Flower takes values after a sign of equality: --port=5555." in (
        result.output
    )
