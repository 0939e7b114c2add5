"""Celery events of fires and schedules (``parrot_send_events``): kept for a moment, sent in batches, from a thread of
their own, so that neither a tick nor a task waits for a broker."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from celery import Celery, signals
from kombu.clocks import LamportClock

from celery_parrot.clock import Clock
from celery_parrot.instrumentation import Fan, LogEvents
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.secrets import mask
from celery_parrot.protocols import EventSink
from celery_parrot.runtime.broker import Broker
from celery_parrot.runtime.config import Settings

logger = logging.getLogger("celery_parrot")

EVERY: Final = 0.5
"""Seconds that an event waits for company."""
KEPT: Final = 10_000
"""Events that are kept while the broker is away; beyond, the oldest are dropped and counted."""
_BATCH: Final = 500
_AGAIN: Final = 1.0
_IDLE: Final = 60.0
_AT_THE_END: Final = 0.5
_GROUPS: Final = frozenset({"fire", "schedule"})
_PLAIN: Final = (str, int, float, bool, type(None))

_worker: str | None = None


class CeleryEvents:
    """An :class:`~celery_parrot.protocols.EventSink`. Cheap to make; a process that emits gets a thread and a
    connection of its own, after any fork.

    :param scheduler: the registered name, in every event.
    :param hostname: of the events; default: the worker's node name, or what Celery makes up for a client.
    :param dropped: told how many events were dropped.
    """

    def __init__(
        self,
        app: Celery,
        scheduler: str,
        clock: Clock,
        *,
        hostname: str | None = None,
        kept: int = KEPT,
        dropped: Callable[[int], None] = lambda count: None,
    ) -> None:
        self._app, self._scheduler, self._clock, self._hostname = app, scheduler, clock, hostname
        self._kept, self._dropped = kept, dropped
        self._by_process: dict[int, _Outgoing] = {}
        _everywhere.add(self)

    def emit(self, event: Event) -> None:
        """Keep it for the next batch. Never raises, never waits."""
        if event.name not in events.FOR_CELERY:
            return
        with suppress(Exception):
            payload = {"scheduler": self._scheduler, **payload_of(event), "timestamp": self._clock.now().timestamp()}
            self._here().put((event.name, payload))

    def flush(self, seconds: float) -> bool:
        """Send what is kept now, for at most ``seconds``. True if nothing is left."""
        here = self._by_process.get(os.getpid())
        return here is None or here.flush(seconds)

    def prepare(self) -> None:
        """Import what sending needs: a thread that imports while a pool forks would leave its child a locked module."""
        with suppress(Exception):
            importlib.import_module("celery.events.dispatcher")
            _ = Broker(self._app, self._clock).connection.transport

    def _here(self) -> _Outgoing:
        pid = os.getpid()
        here = self._by_process.get(pid)
        if here is None:
            # No lock, which a fork could inherit locked: of several threads that ask first, one's stays.
            made = _Outgoing(self._app, self._hostname or _worker, self._clock, self._kept, self._dropped)
            here = self._by_process.setdefault(pid, made)
            if here is made:
                made.start()
                atexit.register(made.flush, _AT_THE_END)
        return here


def payload_of(event: Event) -> dict[str, Any]:
    """The fields that leave: those that are public, as plain values."""
    found = {key: event.fields[key] for key in events.PUBLIC_FIELDS if key in event.fields}
    if event.name == events.SCHEDULE_BROKEN:
        found.pop("reason", None)  # it may quote what cannot be read
    return {key: value if isinstance(value, _PLAIN) else str(value) for key, value in found.items()}


class _Outgoing:
    """The buffer, thread and connection of one process."""

    def __init__(
        self, app: Celery, hostname: str | None, clock: Clock, kept: int, dropped: Callable[[int], None]
    ) -> None:
        self._app, self._hostname, self._clock, self._kept, self._dropped = app, hostname, clock, kept, dropped
        self._buffer: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._some, self._hurry, self._empty = threading.Event(), threading.Event(), threading.Event()
        self._empty.set()
        self._broker = Broker(app, clock)
        self._dispatcher: Any = None
        self._down = False
        self._lost = 0
        self._thread = threading.Thread(target=self._run, name="parrot-events", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, event: tuple[str, Mapping[str, Any]]) -> None:
        if len(self._buffer) >= self._kept:
            with suppress(IndexError):
                self._buffer.popleft()
                self._lost += 1
                self._dropped(1)
        self._buffer.append(event)
        self._empty.clear()
        self._some.set()

    def flush(self, seconds: float) -> bool:
        self._hurry.set()
        self._some.set()
        return self._clock.wait(self._empty, seconds)

    def _run(self) -> None:
        with suppress(Exception):  # imports at once: a process may be about to end, and can import nothing then
            importlib.import_module("celery.events.dispatcher")
            _ = self._broker.connection.transport
        while True:
            self._clock.wait(self._some, _IDLE)
            self._clock.wait(self._hurry, _AGAIN if self._down else EVERY)
            self._some.clear()
            self._hurry.clear()
            try:
                self._send()
            except Exception as exc:  # whatever the broker or its client does, the next batch is tried
                self._failed(exc)
                self._some.set()
            else:
                if not self._buffer:
                    self._empty.set()

    def _send(self) -> None:
        while self._buffer:
            dispatcher = self._ready()
            batch = [self._buffer.popleft() for _ in range(min(_BATCH, len(self._buffer)))]
            try:
                for name, fields in batch:
                    dispatcher.send(name, **fields)
                dispatcher.flush(errors=False)
            except BaseException:
                self._buffer.extendleft(reversed(batch))
                raise
            self._worked()

    def _ready(self) -> Any:
        """Celery's dispatcher, on a channel that is known to be open and has time for one publish."""
        channel = self._broker.producer().channel
        if self._dispatcher is None:
            module = importlib.import_module("celery.events.dispatcher")
            # A group that is buffered is published as one message.
            self._dispatcher = module.EventDispatcher(
                app=self._app,
                channel=channel,
                hostname=self._hostname,
                buffer_while_offline=False,
                buffer_group=_GROUPS,
                buffer_limit=_BATCH + 1,
            )
            # Not the app's, whose lock a pool that forks just now would inherit locked.
            self._dispatcher.clock = LamportClock(getattr(self._app, "clock").value)  # noqa: B009 - unknown to the stubs
        return self._dispatcher

    def _failed(self, exc: Exception) -> None:
        self._dispatcher = None
        self._broker.failed(f"{type(exc).__name__}: {exc}")
        if not self._down:
            text = "Celery events cannot be sent; the newest %d are kept, nothing else is affected: %s"
            logger.warning(text, self._kept, mask(f"{type(exc).__name__}: {exc}"))
        self._down = True

    def _worked(self) -> None:
        self._broker.worked()
        if self._down:
            logger.info("Celery events are sent again; %d were dropped meanwhile", self._lost)
        self._down, self._lost = False, 0


_everywhere: weakref.WeakSet[CeleryEvents] = weakref.WeakSet()


def sink(app: Celery, settings: Settings, clock: Clock, log: str = "celery_parrot") -> EventSink:
    """Where the events of a worker or client go: the log, and Celery's events where the settings say so."""
    logged = LogEvents(log)
    return Fan(logged, CeleryEvents(app, settings.name, clock)) if settings.send_events else logged


@signals.worker_init.connect(weak=False)
def _on_worker_init(sender: Any = None, **_: Any) -> None:
    """Before the pool forks."""
    global _worker
    _worker = getattr(sender, "hostname", None)
    for one in list(_everywhere):
        one.prepare()
