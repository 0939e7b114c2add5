"""Puts a beat together from its settings. The only place that knows which backends there are."""

from __future__ import annotations

import logging
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
from celery_parrot.clock import Clock, new_id
from celery_parrot.coordination.memory import MemoryCoordinator, MemoryWake
from celery_parrot.dispatch.routing import Router
from celery_parrot.dispatch.ticker import Identity, Ticker, TickSettings
from celery_parrot.instrumentation import LogEvents
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Coordinator, EventSink, ScheduleStore, Sender, WakeChannel
from celery_parrot.runtime import faults
from celery_parrot.runtime.config import Settings, check_graces, load
from celery_parrot.runtime.entries import Collected, Source, collect, evaluate, sources
from celery_parrot.runtime.sender import CelerySender
from celery_parrot.stores.memory import CodeStore

logger = logging.getLogger("celery_parrot")

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
    events: EventSink
    clock: Clock
    app: Celery
    sources: Sequence[Source]
    pid: int

    def tick(self) -> float:
        """One tick; the seconds to sleep until the next."""
        return self.ticker.tick()

    def put(self, source: Source) -> None:
        """Add a schedule, or replace the one of that name."""
        collected = collect(self.app, [source], self.settings, started=self.clock.now())
        check_graces(self.settings, collected.graces())
        _warn(collected.warnings)
        for definition in collected.definitions:
            self.code.put(definition)

    def close(self, seconds: float) -> None:
        """Leave in good order, but never wait longer than ``seconds`` for a backend that does not answer."""
        closing: Sequence[Callable[[], None]] = (self.ticker.close, self.wake.close, self.coordinator.close)

        def close_all() -> None:
            for close in closing:
                with suppress(Exception):
                    close()

        thread = threading.Thread(target=close_all, name="parrot-close", daemon=True)
        thread.start()
        thread.join(seconds)


def beat(
    app: Celery, *, decorated: Iterable[Source] = (), stores: Sequence[ScheduleStore] = (), clock: Clock | None = None
) -> Beat:
    """A beat for ``app``. Opens no connection yet.

    :param decorated: schedules from decorators. :param stores: further stores.
    :raises ConfigurationError: for settings or entries that cannot work.
    """
    clock = clock or faults.clock()
    settings = load(app)
    app.finalize()
    found = sources(app, decorated)
    collected = collect(app, found, settings, started=clock.now())
    check_graces(settings, collected.graces())
    _warn((*settings.warnings, *collected.warnings, *_odd(app, settings)))
    sink = LogEvents()
    code = CodeStore(collected.definitions, on_broken=_broken(sink))
    coordinator = faults.coordinator(connect(settings, clock))
    sender: Sender = faults.sender(CelerySender(app, clock))
    ticker = Ticker(
        coordinator=coordinator,
        stores=[code, *stores],
        sender=sender,
        router=Router(settings.namespace, settings.kinds, evaluate),
        clock=clock,
        events=sink,
        identity=_identity(),
        settings=_tick_settings(settings),
    )
    return Beat(
        settings=settings,
        ticker=ticker,
        code=code,
        wake=_wake(settings, clock),
        coordinator=coordinator,
        events=sink,
        clock=clock,
        app=app,
        sources=found,
        pid=os.getpid(),
    )


def connect(settings: Settings, clock: Clock) -> Coordinator:
    """A coordinator of this process's own. Opens no connection yet."""
    if settings.redis is None:
        return MemoryCoordinator(settings.namespace, settings.timing, clock)
    from celery_parrot.coordination.redis import RedisCoordinator

    redis = settings.redis
    return RedisCoordinator(redis.url, settings.namespace, settings.timing, options=redis.options, clock=clock)


def _wake(settings: Settings, clock: Clock) -> WakeChannel:
    if settings.redis is None:
        return MemoryWake(clock)
    from celery_parrot.coordination.redis import RedisWake

    return RedisWake(settings.redis.url, settings.namespace, options=settings.redis.options, clock=clock)


def _tick_settings(settings: Settings) -> TickSettings:
    return TickSettings(
        on_time=settings.on_time,
        sync_interval=settings.sync_interval,
        reap_interval=settings.reap_interval,
        max_clock_skew=settings.max_clock_skew,
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


def _broken(sink: EventSink) -> Callable[[Schedule, str], None]:
    def tell(schedule: Schedule, reason: str) -> None:
        text = f"{schedule.name}: broken, all others run: {reason}"
        fields = {"schedule": schedule.name, "reason": reason}
        sink.emit(Event(events.SCHEDULE_BROKEN, logging.ERROR, text, fields))

    return tell


def _odd(app: Celery, settings: Settings) -> Iterable[str]:
    if settings.coordination == "none":
        yield (
            "no coordinator: this beat must be the only one, and what is due while it is down is forgotten. "
            "Set parrot_redis_url for more"
        )
    if app.conf.task_always_eager:
        yield "task_always_eager is set: tasks run inside this beat, one after the other"


def _warn(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        logger.warning("%s", sentence)


__all__ = ["Beat", "Collected", "beat", "connect"]
