"""Real processes: beats, workers and whatever else an end-to-end test starts.

Each runs in a process group of its own, logs to a file, and is gone after the test, with everything it started. When
the test fails, the ends of the logs are part of the report.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

#: Set in the environment of everything that a test starts, so that what detaches itself is found too.
MARK = "PARROT_TEST_RUN"


class Proc:
    """One process and its log. Started by :class:`Procs`."""

    def __init__(self, name: str, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self.log = log
        self._env = dict(env)
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._group = 0
        self.start()

    # --- look at it ---

    @property
    def pid(self) -> int:
        """The process id, which is also that of its group."""
        return self._group

    @property
    def alive(self) -> bool:
        """Whether it runs (a stopped process counts as running)."""
        return self._process is not None and self._process.poll() is None

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for a signal, None while it runs."""
        return None if self._process is None else self._process.poll()

    def children(self) -> list[psutil.Process]:
        """Every process below it that is alive."""
        try:
            return psutil.Process(self._group).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def text(self) -> str:
        """All it has written so far, over restarts."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, lines: int = 40) -> str:
        """The end of :meth:`text`."""
        return "\n".join(self.text().splitlines()[-lines:])

    def wait_for_log(self, pattern: str, timeout: float = 20.0) -> re.Match[str]:
        """Wait for a regular expression in the log; fails at once when the process ends without it."""

        def look() -> re.Match[str] | bool:
            alive = self.alive  # asked before the log is read: what it wrote last is then in it
            return re.search(pattern, self.text(), re.MULTILINE) or not alive

        found = wait_until(look, f"{self.name} to log {pattern!r}", timeout, explain=self.tail)
        assert not isinstance(found, bool), (
            f"{self.name} ended (exit code {self.returncode}) without logging {pattern!r}:\n{self.tail()}"
        )
        return found

    # --- do things to it ---

    def start(self) -> None:
        """Start it again after it ended; same arguments, same log."""
        assert not self.alive, f"{self.name} is running"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.arguments,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=self._env,
                cwd=self._cwd,
                start_new_session=True,
            )
        self._group = self._process.pid

    def send(self, sig: signal.Signals) -> None:
        """Signal this one process."""
        assert self._process is not None
        self._process.send_signal(sig)

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Signal this one process (its children live on) and, for SIGKILL, wait until it is gone."""
        self.send(sig)
        if sig == signal.SIGKILL:
            self.wait(10)

    def kill_group(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Signal the process and all it started in its group: how to kill a prefork worker, or ``worker -B``."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._group, sig)
        if sig == signal.SIGKILL and self._process is not None:
            self.wait(10)

    def pause(self) -> None:
        """SIGSTOP the group."""
        self.kill_group(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT the group."""
        self.kill_group(signal.SIGCONT)

    def wait(self, timeout: float = 20.0) -> int:
        """Wait for its end and return the exit code."""
        assert self._process is not None
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {timeout:g} s:\n{self.tail()}") from None

    def terminate(self, timeout: float = 20.0) -> int:
        """SIGTERM, as an init system would, and wait; returns the exit code."""
        self.send(signal.SIGTERM)
        return self.wait(timeout)

    def __repr__(self) -> str:
        state = "running" if self.alive else f"exit code {self.returncode}"
        return f"<{self.name} pid {self._group}, {state}>"


class Procs:
    """The processes of one test.

    :param directory: for logs and as a place for schedule and pid files.
    :param env: for all of them, on top of this process's own environment.
    """

    def __init__(self, directory: Path, env: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.env = dict(env or {})
        self.all: list[Proc] = []
        self._mark = uuid.uuid4().hex

    def start(self, name: str, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Proc:
        """Start a program. ``name`` is for logs and messages and must be unique within the test."""
        assert all(proc.name != name for proc in self.all), f"there is a process named {name} already"
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONUNBUFFERED": "1",
            "PYTHONFAULTHANDLER": "1",
            **self.env,
            **(env or {}),
            MARK: self._mark,
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        proc = Proc(name, arguments, environment, cwd or self.directory, self.directory / f"{name}.log")
        self.all.append(proc)
        return proc

    def python(self, name: str, *arguments: str, env: Mapping[str, str] | None = None) -> Proc:
        """Start ``python ARGUMENTS`` with the interpreter that runs the tests."""
        return self.start(name, sys.executable, *arguments, env=env)

    def celery(self, name: str, app: str, *arguments: str, env: Mapping[str, str] | None = None) -> Proc:
        """Start ``celery -A app ARGUMENTS``. ``app`` is an importable module, e.g. ``tests.e2e.apps.basic``."""
        return self.python(name, "-m", "celery", "-A", app, *arguments, env=env)

    def beat(
        self, app: str, *arguments: str, name: str = "", level: str = "info", env: Mapping[str, str] | None = None
    ) -> Proc:
        """Start a ``celery beat``, named beat-1, beat-2, ... unless told otherwise."""
        name = name or self._next("beat")
        return self.celery(name, app, "beat", "--loglevel", level, "--pidfile", "", *arguments, env=env)

    def worker(
        self,
        app: str,
        *arguments: str,
        name: str = "",
        concurrency: int = 2,
        level: str = "info",
        env: Mapping[str, str] | None = None,
    ) -> Proc:
        """Start a ``celery worker``, named worker-1, worker-2, ... (its node name too) unless told otherwise."""
        name = name or self._next("worker")
        fixed = ("--loglevel", level, "--concurrency", str(concurrency), "--hostname", f"{name}@%h")
        return self.celery(name, app, "worker", *fixed, *arguments, env=env)

    def _next(self, kind: str) -> str:
        return f"{kind}-{1 + sum(proc.name.startswith(f'{kind}-') for proc in self.all)}"

    def __getitem__(self, name: str) -> Proc:
        return next(proc for proc in self.all if proc.name == name)

    def strays(self) -> list[psutil.Process]:
        """Everything alive that a process of this test started, also what left its group or its parent."""
        found: list[psutil.Process] = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self._mark:
                    found.append(process)
        return found

    def close(self, grace: float = 3.0) -> None:
        """End all of them: SIGTERM to every process, ``grace`` seconds, then SIGKILL to whatever is left."""
        for proc in self.all:
            if proc.alive:
                with contextlib.suppress(ProcessLookupError):
                    proc.resume()
                    proc.send(signal.SIGTERM)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: not any(proc.alive for proc in self.all), "the processes to end", grace)
        for proc in self.all:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(proc.pid, signal.SIGKILL)
        strays = self.strays()
        for stray in strays:
            with contextlib.suppress(psutil.Error):
                stray.kill()
        psutil.wait_procs(strays, timeout=5)
        for proc in self.all:
            proc.wait(10)

    def report_sections(self) -> list[tuple[str, str]]:
        """What a failing test shows of them."""
        return [(repr(proc).strip("<>"), proc.tail()) for proc in self.all]
