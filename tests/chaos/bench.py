"""The processes of one experiment: one configuration for all of ``tests.chaos.app``, and what they logged."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import redis

from tests.chaos.journal import Due, Journal
from tests.chaos.ledger import in_redis, open_ledger
from tests.support.procs import Proc, Procs
from tests.support.waiting import stays, wait_until, wall_clock

APP = "tests.chaos.app"

#: How long the tests give a loaded machine to get something done that takes a moment.
PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the processes of one experiment find things."""

    broker: str
    coordinator: str


class Bench:
    """Starts processes with one configuration and reads their logs.

    :param journal: the Redis server on which the tasks note what they did.
    :param say: takes a line for the summary of the whole run.
    """

    def __init__(self, procs: Procs, journal: redis.Redis, journal_url: str, say: Callable[[str], None]) -> None:
        self.procs = procs
        self.journal = Journal(journal)
        self.seed: int | None = None
        self._journal_url = journal_url
        self._say = say
        self._servers: Servers | None = None
        self._names: tuple[str, ...] = ()
        self._environment: dict[str, str] = {}
        self.name = "scheduler_manager"
        self.every = 1

    def set_up(
        self,
        broker: str,
        coordinator: str,
        *,
        ticks: int = 0,
        every: int = 1,
        entries: Mapping[str, Mapping[str, Any]] | None = None,
        name: str = "scheduler_manager",
        **conf: Any,
    ) -> None:
        """What every process of this experiment is told; each may be told otherwise when it is started.

        :param coordinator: URL of a Redis server, or of a database that has the tables.
        :param ticks: how many schedules s-000, s-001, ... of ``every`` seconds.
        :param entries: further ones, as in ``beat_schedule``.
        :param conf: Celery settings.
        """
        self._servers = Servers(broker, coordinator)
        self.name, self.every = name, every
        self._names = (*(f"s-{number:03}" for number in range(ticks)),)
        agree = (
            {"parrot_redis_url": coordinator}
            if in_redis(coordinator)
            else {"parrot_coordination": "db", "parrot_database_url": coordinator}
        )
        conf = {**agree, "parrot_name": name, **conf}
        self._environment = {
            "CHAOS_BROKER": broker,
            "CHAOS_JOURNAL": self._journal_url,
            "CHAOS_CONF": json.dumps(conf),
            "CHAOS_TICKS": str(ticks),
            "CHAOS_EVERY": str(every),
            "CHAOS_ENTRIES": json.dumps(entries or {}),
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The schedules that tick every ``every`` seconds."""
        return self._names

    @property
    def environment(self) -> Mapping[str, str]:
        """What every process of the experiment is started with."""
        return self._environment

    def with_conf(self, **conf: Any) -> dict[str, str]:
        """The environment of a process with other Celery settings."""
        return {"CHAOS_CONF": json.dumps({**json.loads(self._environment["CHAOS_CONF"]), **conf})}

    def beat(self, *arguments: str, env: Mapping[str, str] | None = None, name: str = "") -> Proc:
        """Start a beat; :meth:`wait_ready` waits for it."""
        return self.procs.beat(APP, *arguments, env={**self._environment, **(env or {})}, name=name)

    def worker(
        self,
        *arguments: str,
        pool: str = "threads",
        concurrency: int = 4,
        env: Mapping[str, str] | None = None,
        name: str = "",
        level: str = "warning",
    ) -> Proc:
        """Start a worker; it is quiet, so that its log keeps what matters."""
        arguments = ("--pool", pool, "--without-gossip", "--without-mingle", *arguments)
        environment = {**self._environment, **(env or {})}
        return self.procs.worker(APP, *arguments, concurrency=concurrency, level=level, env=environment, name=name)

    def wait_ready(self, *procs: Proc) -> None:
        """Wait until each of them beats, as the coordinator says."""
        for proc in procs:
            pids = lambda proc=proc: self.beats() & {proc.pid, *(child.pid for child in proc.children())}  # noqa: E731
            wait_until(pids, f"{proc.name} to be among the beats", PATIENCE, interval=0.1, explain=proc.tail)

    def beats(self, name: str = "") -> set[int]:
        """The pids of all beats that the coordinator knows."""
        assert self._servers is not None
        url = self._servers.coordinator
        if not in_redis(url):
            with open_ledger(url, name or self.name) as ledger:
                return {beat.pid for beat in ledger.beats()}
        with redis.Redis.from_url(url, socket_timeout=5) as client:
            known: Any = client.hvals(f"parrot:scheduler:{name or self.name}:beats")
        return {int(json.loads(value)["pid"]) for value in known}

    def at(self, instant: float, what: str) -> None:
        """Wait for an instant of the wall clock."""
        wait_until(lambda: wall_clock() >= instant, what, max(1.0, instant - wall_clock() + 1), interval=0.002)

    def say(self, line: str) -> None:
        """A line for the summary."""
        self._say(line)

    def explain(self, dues: Iterable[Due] = ()) -> str:
        """Seed, what the logs say of these due times, and the ends of all logs."""
        parts = [f"seed {self.seed}"] if self.seed is not None else []
        for name, due_at in list(dues)[:4]:
            for proc in self.procs.all:
                lines = [line for line in proc.text().splitlines() if name in line and due_at.isoformat() in line]
                parts += [f"{proc.name} of {name} due {due_at.isoformat()}:", *(f"    {line}" for line in lines[:8])]
        for proc in self.procs.all:
            parts.append(f"--- end of the log of {proc!r}\n{proc.tail(15)}")
        return "\n".join(parts)

    def logs(self, procs: Iterable[Proc] = ()) -> str:
        """What these processes (all) have logged."""
        return "\n".join(proc.text() for proc in (procs or self.procs.all))

    def assert_quiet(self, *words: str) -> None:
        """No process has logged any of these words."""
        found = [
            f"{proc.name}: {line}"
            for proc in self.procs.all
            for line in proc.text().splitlines()
            if any(word in line for word in words)
        ]
        assert not found, "should not have been logged:\n" + "\n".join(found[:20])

    def stays_alive(self, *procs: Proc, seconds: float = 0.0) -> None:
        """They run, and go on to."""
        stays(lambda: all(proc.alive for proc in procs), f"{', '.join(p.name for p in procs)} alive", seconds or 0.01)

    def sent_by(self, proc: Proc) -> int:
        """How many fires this beat says it has sent."""
        return proc.text().count("[fire-sent]")

    def passed_on(self, *beats: Proc) -> set[Due]:
        """The due times that these beats (all) say they took over from another, or tried again."""
        found = re.findall(r"\[fire-(?:taken-over|tried-again)\] (\S+) due (\S+): ", self.logs(beats))
        return {(name, datetime.fromisoformat(due)) for name, due in found}
