"""Where the events of a beat go: the log, Celery's events, metrics; each where the settings say so."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from celery import Celery

from celery_parrot.clock import Clock
from celery_parrot.instrumentation import Fan, LogEvents, flush
from celery_parrot.protocols import EventSink
from celery_parrot.runtime.census import Census, Listing
from celery_parrot.runtime.config import Settings
from celery_parrot.runtime.events import CeleryEvents
from celery_parrot.runtime.metrics import Beating, Page, metrics
from celery_parrot.runtime.metrics_feed import Feed

_LAST_EVENTS_WITHIN = 0.4


class Shown:
    """:ivar sink: for everything that belongs to the beat. Makes neither thread nor connection before :meth:`start`.

    :raises ConfigurationError: for metrics whose package is not installed.
    """

    def __init__(self, app: Celery, settings: Settings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._counted = metrics(settings)
        self._feed: Feed | None = None
        self._page: Page | None = None
        self._started_in: int | None = None
        sinks: list[EventSink] = [LogEvents()]
        if self._counted is not None:
            sinks.append(self._counted)
        if settings.send_events:
            dropped = (lambda count: None) if self._counted is None else self._counted.events_dropped
            host = f"beat@{socket.gethostname()}"
            sinks.append(CeleryEvents(app, settings.name, clock, hostname=host, dropped=dropped))
            if self._counted is not None:
                self._feed = Feed(app, settings.name, self._counted, clock)
                sinks.append(self._feed)
        self.sink: EventSink = Fan(*sinks) if len(sinks) > 1 else sinks[0]

    def start(self, beat: Beating, listing: Callable[[], Listing]) -> None:
        """Show what there is to show. May be repeated: called before each tick."""
        if self._counted is None or self._settings.metrics_port is None or self._started_in == os.getpid():
            return
        self._started_in = os.getpid()
        self._page = Page(self._settings.metrics_port, self._counted, beat, Census(self._clock, listing))
        self._page.start()
        if self._feed is not None:
            self._feed.start()

    def flush(self) -> None:
        """Hand on the last events, for a moment at most."""
        flush(self.sink, _LAST_EVENTS_WITHIN)

    def close(self) -> None:
        """Close the port."""
        if self._feed is not None:
            self._feed.close()
        if self._page is not None:
            self._page.close()
