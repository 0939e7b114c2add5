"""Our metrics on Flower's ``/metrics``: counted from the events that Flower receives, the rest asked for in threads."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from celery_parrot.client import Schedules
from celery_parrot.clock import Clock
from celery_parrot.instrumentation import Metrics
from celery_parrot.instrumentation.metrics import HEARD
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.runtime.census import Census
from celery_parrot.runtime.config import Settings

logger = logging.getLogger("celery_parrot")

LOOK_EVERY: Final = 15.0
"""Seconds between two looks at beats and lines."""


class Shown:
    """A collector for ``prometheus_client``. Nothing is asked of a server before the first scrape, and a scrape never
    waits for one.

    :param client: gives the verbs; called in threads of ours.
    """

    def __init__(self, settings: Settings, clock: Clock, client: Callable[[], Schedules]) -> None:
        groups = {kind.exclusion_group for kind in settings.kinds.values() if kind.exclusion_group}
        self._counted = Metrics(settings.kinds, groups | settings.exclusion_groups.keys())
        self._scheduler, self._clock, self._client = settings.name, clock, client
        self._census = Census(clock, lambda: _Kept(client()))
        self._waiting: Mapping[str, int] = {}
        self._beats = 0
        self._counted.schedules = lambda: self._census.schedules
        self._counted.waiting, self._counted.beats = lambda: self._waiting, lambda: self._beats
        self._stop = threading.Event()
        self._started = False

    def hear(self, event: Mapping[str, Any]) -> None:
        """Count a Celery event, whoever sent it."""
        name = str(event.get("type"))
        if name not in events.FOR_CELERY or event.get("scheduler") != self._scheduler:
            return
        from_a_beat = str(event.get("hostname", "")).startswith("beat@")
        if name in HEARD and not from_a_beat:
            self._counted.heard(name, event)
        else:
            self._counted.emit(Event(name, logging.WARNING, "", event))

    def describe(self) -> Iterator[Any]:
        """The families. What ``prometheus_client`` asks when this is registered."""
        return self._counted.collect()

    def collect(self) -> Iterator[Any]:
        """The families with what is known now. What it asks at each scrape."""
        if not self._started:
            self._started = True
            self._census.start()
            threading.Thread(target=self._keep_looking, name="parrot-look", daemon=True).start()
        return self._counted.collect()

    def close(self) -> None:
        """Ask no more; does not wait."""
        self._census.close()
        self._stop.set()

    def _keep_looking(self) -> None:
        pause = 0.0
        while not self._clock.wait(self._stop, pause):
            pause = LOOK_EVERY
            try:
                client = self._client()
                self._beats = sum(beat.state == "alive" for beat in client.beats())
                waiting = Counter({group.limit: len(group.waiting) for group in client.groups()})
                self._waiting = {limit: count for limit, count in waiting.items() if count}
            except Exception as exc:  # what cannot be seen now stays as it was
                logger.debug("beats and lines cannot be seen: %s", exc)


class _Kept:
    """The client that others use as well: the census must not close it."""

    def __init__(self, client: Schedules) -> None:
        self.stores, self.find = client.stores, client.find

    def close(self) -> None:
        """Whoever made it closes it."""
