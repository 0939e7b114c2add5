"""The demo's set: a directory, a server, two beats, a worker and Flower, put up in order and taken down whatever
happens."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from celery_parrot.cli.demo import app_names, journal
from celery_parrot.cli.demo.children import Child, Children
from celery_parrot.cli.demo.errors import DemoError
from celery_parrot.cli.demo.examples import NAME, examples
from celery_parrot.cli.demo.server import HOST, Server, free_port, listens, start_server
from celery_parrot.cli.demo.watch import Watch
from celery_parrot.cli.lazy import in_a_sentence
from celery_parrot.clock import Clock, new_id
from celery_parrot.errors import ConfigurationError, Unreachable
from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator

BEATS = ("beat-1", "beat-2")
WORKER, FLOWER = "worker", "flower"
_READY_WITHIN = 30.0
_FOREIGN = ("CELERY_", "SCHEDULER_", "FLOWER_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the person asked for.

    :ivar seconds: how long to run once everything is up; None: until Ctrl-C.
    :ivar redis_url: a server to use instead of starting one.
    :ivar flower: whether Flower is wanted. ``port``: its port, None for a free one.
    """

    seconds: float | None = None
    redis_url: str | None = None
    flower: bool = True
    port: int | None = None


class Stage:
    """All of the demo's processes and files. A context manager: on leaving, none of them is left.

    :param say: takes each sentence about how the start goes.
    """

    def __init__(self, options: Options, clock: Clock, say: Callable[[str], None]) -> None:
        self._options, self._clock, self._say = options, clock, say
        self.start = clock.now()
        self.examples = examples(self.start)
        # On somebody's server the name must be nobody else's, so that removing everything under it harms nobody.
        self.namespace = Namespace(NAME if options.redis_url is None else f"{NAME}-{new_id()[:8]}")
        self.directory = Path(tempfile.mkdtemp(prefix="celery-parrot-demo-"))
        self.children = Children(self.directory, {}, clock)
        self.server: Server | None = None
        self.flower_url = ""
        self._coordinator: Coordinator | None = None
        self._watch: Watch | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # --- up ---

    def set_up(self) -> None:
        """Start everything and wait until both beats and the worker are ready.

        :raises DemoError: if one of them does not come up, with what it said.
        """
        self.server = self._server()
        self._say(f"  server    {self.server.description}")
        self.children.env |= environment(self.server.url, self.directory, self.namespace.name, self.start)
        self.children.celery(WORKER, "worker", *_WORKER_OPTIONS)
        for beat in BEATS:
            self.children.celery(beat, "beat", "--loglevel", "info", "--pidfile", "")
        self._start_flower()
        self._coordinator = open_coordinator(self.server.url, self.namespace.name)
        self._watch = Watch(self._coordinator, self.examples)
        for beat in BEATS:
            self._wait_for(beat, lambda child: child.pid in self.watch.living_pids())
            self._say(f"  {beat}    ready, process {self.children[beat].pid}")
        self._wait_for(WORKER, lambda child: f"{WORKER}@{NAME} ready" in child.text())
        self._say(f"  worker    ready, process {self.children[WORKER].pid}")
        self._look_for_flower()
        self.watch.learn_names({self.children[beat].pid: beat for beat in BEATS})

    @property
    def watch(self) -> Watch:
        """What is seen of the fires; there once the coordinator is."""
        assert self._watch is not None
        return self._watch

    def journal(self) -> list[journal.Line]:
        """What the tasks wrote."""
        return journal.read(self.directory / app_names.JOURNAL)

    def _server(self) -> Server:
        if self._options.redis_url is None:
            return start_server(self.children, self._clock)
        try:
            coordinator = open_coordinator(self._options.redis_url, self.namespace.name)
            coordinator.beats()
            coordinator.close()
        except ConfigurationError as error:
            raise DemoError(f"--redis-url {error.value}: {error.reason}. {error.fix}") from None
        except Unreachable as error:
            raise DemoError(f"The server of --redis-url cannot be reached: {in_a_sentence(error)}") from None
        return Server(self._options.redis_url, "yours", own=False)

    def _start_flower(self) -> None:
        if not self._options.flower:
            return
        if find_spec("flower") is None:
            self._say('  flower    not installed, so there are no pages (pip install "celery-parrot[flower]")')
            return
        port = self._options.port or free_port()
        self.flower_url = f"http://{HOST}:{port}/parrot"
        self.children.celery(FLOWER, "parrot", "flower", f"--address={HOST}", f"--port={port}", "--loglevel=info")

    def _look_for_flower(self) -> None:
        """Flower is for looking on: without it the demo goes on."""
        if FLOWER not in self.children:
            return
        child, port = self.children[FLOWER], urlsplit(self.flower_url).port or 0
        deadline = self._clock.monotonic() + 10
        while child.alive and not listens(port) and self._clock.monotonic() < deadline:
            self._clock.sleep(0.05)
        if child.alive and listens(port):
            self._say(f"  flower    {self.flower_url}")
            return
        self._say(f"  flower    did not start; the demo goes on without it. It said:\n{child.tail(3)}")
        self.flower_url = ""

    def _wait_for(self, name: str, ready: Callable[[Child], bool]) -> None:
        child = self.children[name]
        deadline = self._clock.monotonic() + _READY_WITHIN
        while not ready(child):
            if not child.alive:
                raise DemoError(f"The {name} ended at once (exit code {child.exit_code}). It said:\n{child.tail()}")
            if self._clock.monotonic() > deadline:
                raise DemoError(f"The {name} was not ready within {_READY_WITHIN:g} s. It said:\n{child.tail()}")
            self._clock.sleep(0.05)

    # --- down ---

    def close(self) -> None:
        """Kill what still runs, remove what is on disk, and what is in a server that is not ours. Safe to repeat."""
        try:
            self.children.end([*BEATS, WORKER, FLOWER], within=2)
            if self.server is not None and not self.server.own:
                self._remove_traces(self.server.url)
            if self._coordinator is not None:
                self._coordinator.close()
        finally:
            self.children.close()
            shutil.rmtree(self.directory, ignore_errors=True)

    def _remove_traces(self, url: str) -> None:
        try:
            remove_traces(url, self.namespace)
        except Exception as error:  # it went away meanwhile; what ended the demo is the news, not this
            names = f"{self.namespace.prefix}* and {app_names.key_prefix(self.namespace.name)}*"
            self._say(f"  server    the keys {names} may be left in it: {in_a_sentence(error)}")


_WORKER_OPTIONS = (
    *("--loglevel", "info", "--concurrency", "4", "--hostname", f"{WORKER}@{NAME}"),
    *("--task-events", "--without-gossip", "--without-mingle"),
)


def environment(url: str, directory: Path, name: str, start: datetime) -> Mapping[str, str]:
    """The environment of the children: ours, less the settings of whatever else the person runs from this shell."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        "TMPDIR": str(directory),  # a pool that is killed leaves a directory behind: here, where it goes with the rest
        # A source tree that is not installed must be found from the children's directory too.
        "PYTHONPATH": os.pathsep.join(filter(None, [_root(), os.environ.get("PYTHONPATH")])),
        app_names.DIRECTORY: str(directory),
        app_names.REDIS: url,
        app_names.SCHEDULER: name,
        app_names.START: start.isoformat(),
    }


def _root() -> str:
    root = Path(__file__).resolve().parents[3]
    return "" if str(root) in sys.path and "site-packages" in root.parts else str(root)


def open_coordinator(url: str, name: str) -> Coordinator:
    """The coordinator as the demo's beats have it."""
    from celery import Celery

    from celery_parrot.cli.source import coordinator_of

    app = Celery("demo-watch", broker="memory://", set_as_current=False)
    app.conf.update(parrot_name=name, parrot_redis_url=url)
    return coordinator_of(app)


def remove_traces(url: str, namespace: Namespace) -> None:
    """Delete all that the demo put into a server that goes on to be used."""
    from kombu import Connection

    with Connection(url) as connection:
        # kombu's own client: of this package only the coordination room speaks Redis.
        channel: Any = connection.default_channel
        for prefix in (namespace.prefix, app_names.key_prefix(namespace.name)):
            keys = list(channel.client.scan_iter(match=f"{prefix}*", count=1000))
            if keys:
                channel.client.delete(*keys)
