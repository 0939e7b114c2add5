"""Puts a beat together from its settings. The only place that knows which backends there are."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from celery import Celery

from celery_parrot.__about__ import __version__
from celery_parrot.client import Schedules
from celery_parrot.clock import Clock, new_id
from celery_parrot.dispatch.limits import Bounds, refuse_unkept
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.protocols import Coordinator, EventSink, ScheduleStore, Sender, WakeChannel
from celery_parrot.runtime import clients, faults
from celery_parrot.runtime.backends import Backends, attached, backends, connect
from celery_parrot.runtime.config import Settings, check_graces, load
from celery_parrot.runtime.entries import Collected, Source, collect, evaluate, sources
from celery_parrot.runtime.events_of_beat import Shown
from celery_parrot.runtime.known_tasks import options_of
from celery_parrot.runtime.reports import broken, odd, warn
from celery_parrot.runtime.sender import CelerySender
from celery_parrot.stores.memory import CodeStore

_ZONEINFO_VERSIONS = (Path("/usr/share/zoneinfo/tzdata.zi"), Path("/usr/share/zoneinfo/+VERSION"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """One beat, ready to tick. Belongs to the process that made it.

    :ivar code: the schedules of this process's code. :ivar sources: the same as they were written.
    """

    settings: Settings
    ticker: Ticker
    code: CodeStore
    wake: WakeChannel
    coordinator: Coordinator
    backends: Backends
    shown: Shown
    clock: Clock
    app: Celery
    sources: Sequence[Source]
    pid: int

    def tick(self) -> float:
        """One tick; the seconds to sleep until the next."""
        self.shown.start(self.ticker, self._listing)
        return self.ticker.tick()

    @property
    def events(self) -> EventSink:
        """Where what happens here is told."""
        return self.shown.sink

    def _listing(self) -> Schedules:
        if self.settings.coordination == "none":
            return clients.over(self.backends, self.app, self.clock, code=self.code, coordinator=self.coordinator)
        made = backends(self.app, self.settings, self.clock, self.backends.others)
        return clients.over(made, self.app, self.clock, code=self.code, owned=True)

    def put(self, source: Source) -> None:
        """Add a schedule, or replace the one of that name."""
        collected = collect(self.app, [source], self.settings, started=self.clock.now())
        check_graces(self.settings, collected.graces())
        refuse_unkept(self.coordinator, (), (found.schedule for found in collected.definitions), Bounds())
        warn(collected.warnings)
        for definition in collected.definitions:
            self.code.put(definition)

    def close(self, seconds: float) -> None:
        """Leave in good order, but never wait longer than ``seconds`` for a backend that does not answer."""
        closing: Sequence[Callable[[], object]] = (
            self.ticker.close, self.shown.flush, self.wake.close, self.backends.close, self.shown.close,
        )  # fmt: skip

        def close_all() -> None:
            for close in closing:
                with suppress(Exception):
                    close()

        thread = threading.Thread(target=close_all, name="parrot-close", daemon=True)
        thread.start()
        thread.join(seconds)


def beat(
    app: Celery,
    *,
    decorated: Iterable[Source] = (),
    stores: Sequence[ScheduleStore] = (),
    clock: Clock | None = None,
    guarded: bool = False,
) -> Beat:
    """A beat for ``app``. Opens no connection yet.

    :param decorated: schedules from decorators. :param stores: stores that are handed in.
    :param guarded: the app has a ``Parrot``, and so have its workers: fires are opened and watched there.
    :raises ConfigurationError: for settings or entries that cannot work.
    """
    clock = clock or faults.clock()
    settings = load(app, attached=attached(stores))
    app.finalize()
    found = sources(app, decorated)
    collected = collect(app, found, settings, started=clock.now())
    check_graces(settings, collected.graces())
    shown = Shown(app, settings, clock)
    made = backends(app, settings, clock, stores)
    warn((*settings.warnings, *collected.warnings, *odd(app, settings)))
    sink = shown.sink
    code = CodeStore(collected.definitions, on_broken=broken(sink))
    coordinator = faults.coordinator(made.coordinator)
    bounds = _bounds(app, settings, guarded)
    refuse_unkept(coordinator, settings.kinds.values(), (found.schedule for found in collected.definitions), bounds)
    asked, rows = made.for_beat(code, sink)
    sender: Sender = faults.sender(CelerySender(app, clock))
    ticker = Ticker(
        coordinator=coordinator,
        stores=asked,
        rows=rows,
        sender=sender,
        router=Router(settings.namespace, settings.kinds, evaluate, bounds, options_of(app), settings.allowed_tasks),
        clock=clock,
        events=sink,
        identity=_identity(),
        settings=_tick_settings(settings),
    )
    return Beat(
        settings=settings,
        ticker=ticker,
        code=code,
        wake=made.wake(),
        coordinator=coordinator,
        backends=made,
        shown=shown,
        clock=clock,
        app=app,
        sources=found,
        pid=os.getpid(),
    )


def _bounds(app: Celery, settings: Settings, guarded: bool) -> Bounds:
    return Bounds(
        groups=settings.exclusion_groups,
        max_concurrent=settings.max_concurrent,
        reap_after=settings.reap_after,
        reap_margin=settings.reap_margin,
        guarded=guarded and settings.coordination != "none",
        timezone=app.timezone,
    )


def _tick_settings(settings: Settings) -> TickSettings:
    return TickSettings(
        on_time=settings.on_time,
        sync_interval=settings.sync_interval,
        reap_interval=settings.reap_interval,
        max_clock_skew=settings.max_clock_skew,
        delivery_queue=settings.delivery.queue,
    )


def _identity() -> Identity:
    return Identity(
        owner=new_id(), host=socket.gethostname(), pid=os.getpid(), version=__version__, tzdata=_tzdata_version()
    )


def _tzdata_version() -> str:
    """Which time zone rules this process computes with: the system's come first, as in zoneinfo."""
    for path in _ZONEINFO_VERSIONS:
        with suppress(OSError, IndexError):
            return path.read_text().splitlines()[0].removeprefix("# version").strip()
    with suppress(ImportError, AttributeError):
        return str(import_module("tzdata").IANA_VERSION)
    return ""


__all__ = ["Beat", "Collected", "beat", "connect"]
