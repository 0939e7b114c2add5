"""The demo's processes: each leads a process group of its own, logs to a file, and is gone in the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from celery_parrot.clock import Clock

APP = "celery_parrot.cli.demo.app"


class Child:
    """One process of the demo, and all that it starts itself."""

    def __init__(self, name: str, arguments: Sequence[str], env: Mapping[str, str], directory: Path) -> None:
        self.name = name
        self._killed = False
        self.log = directory / f"{name}.log"
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C in the terminal reaches the demo alone, which then ends things in order.
            self._process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is also the id of its group."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def text(self) -> str:
        """All that it wrote."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 12) -> str:
        """The last lines that it wrote, indented for a message."""
        return "\n".join(f"    {line}" for line in self.text().rstrip().splitlines()[-lines:]) or "    (nothing)"

    def kill(self) -> None:
        """SIGKILL to it and to all of its group, and wait for its end. Once only: later the id may be another's."""
        if self._killed:
            return
        self._killed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)

    def ask_to_end(self) -> None:
        """SIGTERM to the process itself: beats and workers shut down in good order."""
        if self.alive:
            self._process.send_signal(signal.SIGTERM)


class Children:
    """All processes of one demo.

    :param directory: where they run and log: a directory of the demo's own.
    :param env: the environment of each.
    """

    def __init__(self, directory: Path, env: Mapping[str, str], clock: Clock) -> None:
        self.directory = directory
        self.env = dict(env)
        self._clock = clock
        self._all: dict[str, Child] = {}
        self._guard = _Guard(directory)

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Start a program under a name that no other child has."""
        assert name not in self._all
        child = Child(name, arguments, self.env, self.directory)
        self._all[name] = child
        self._guard.watch(child.pid)
        return child

    def celery(self, name: str, *arguments: str) -> Child:
        """Start ``celery -A <the demo's app> ARGUMENTS`` with this interpreter."""
        return self.start(name, [sys.executable, "-m", "celery", "-A", APP, *arguments])

    def __getitem__(self, name: str) -> Child:
        return self._all[name]

    def __contains__(self, name: str) -> bool:
        return name in self._all

    def end(self, names: Iterable[str], within: float) -> list[str]:
        """Ask each to end, kill those that still run ``within`` seconds later; returns the names of those killed."""
        asked = [self._all[name] for name in names if name in self._all]
        for child in asked:
            child.ask_to_end()
        deadline = self._clock.monotonic() + within
        while any(child.alive for child in asked) and self._clock.monotonic() < deadline:
            self._clock.sleep(0.02)
        killed = [child.name for child in asked if child.alive]
        for child in asked:
            child.kill()
        return killed

    def close(self) -> None:
        """Kill whatever is left, the groups of ended children included."""
        for child in reversed(self._all.values()):
            child.kill()
        self._guard.close()


class _Guard:
    """Ends the children should the demo itself be killed outright (SIGKILL, out of memory).

    A small process that reads from a pipe. The kernel closes the pipe when the demo is gone, however it went.
    """

    def __init__(self, directory: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(Path(__file__).with_name("guard.py")), str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        """Have the group of ``pid`` killed if the demo dies."""
        self._say(str(pid))

    def close(self) -> None:
        """The demo ends in good order: nothing is left to do."""
        self._say("done")
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()
