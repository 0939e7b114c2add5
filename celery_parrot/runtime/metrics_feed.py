"""How a beat learns of outcomes, for its metrics: from the events of workers, each outcome counted by one beat only.

That is the beat which sent the fire last. A beat that ends takes what it had in flight with it: too few are counted
then, never too many.
"""

from __future__ import annotations

import importlib
import logging
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from celery import Celery

from celery_parrot.clock import Clock
from celery_parrot.instrumentation import Metrics
from celery_parrot.instrumentation.metrics import HEARD
from celery_parrot.model import events
from celery_parrot.model.events import Event

logger = logging.getLogger("celery_parrot")

REMEMBERED: Final = 100_000
"""Fires in flight that a beat knows as its own."""
_EARLY: Final = 1000
_AGAIN: Final = 1.0


class Feed:
    """An :class:`~celery_parrot.protocols.EventSink` that notes what this beat sends, and a listener.

    :param scheduler: the registered name; fires of others are not ours.
    """

    def __init__(self, app: Celery, scheduler: str, counted: Metrics, clock: Clock) -> None:
        self._app, self._scheduler, self._counted, self._clock = app, scheduler, counted, clock
        self._lock = threading.Lock()
        self._mine: OrderedDict[str, tuple[float, object]] = OrderedDict()  # when it was sent, and its kind
        self._early: OrderedDict[str, tuple[str, Mapping[str, Any]]] = OrderedDict()
        self._stop = threading.Event()
        self._receiver: Any = None
        self._thread: threading.Thread | None = None

    def emit(self, event: Event) -> None:
        """Note a fire that was sent here. An outcome may have been heard before."""
        if event.name != events.FIRE_SENT:
            return
        fire_id = str(event.fields["fire_id"])
        with self._lock:
            early = self._early.pop(fire_id, None)
            if early is None:
                self._mine[fire_id] = self._clock.now().timestamp(), event.fields.get("kind")
                self._mine.move_to_end(fire_id)
                if len(self._mine) > REMEMBERED:
                    self._mine.popitem(last=False)
        if early is not None:
            self._counted.heard(*early)

    def heard(self, fields: Mapping[str, Any]) -> None:
        """What anybody told of a fire."""
        name, fire_id = str(fields.get("type")), fields.get("fire_id")
        if fields.get("scheduler") != self._scheduler or not isinstance(fire_id, str):
            return
        with self._lock:
            since, _ = self._mine.get(fire_id, (None, None))
            if name == events.FIRE_SENT:
                elsewhere = fields.get("pid") != os.getpid() and float(fields.get("timestamp", 0.0)) > (since or 0.0)
                if since is not None and elsewhere:
                    del self._mine[fire_id]  # sent again by another beat, which counts it
                return
            if name == events.FIRE_REAPED:
                self._mine.pop(fire_id, None)  # whoever reaped has counted it
                return
            if name not in HEARD:
                return
            mine = self._mine.pop(fire_id, None)
            if mine is None:
                self._early[fire_id] = (name, fields)
                if len(self._early) > _EARLY:
                    self._early.popitem(last=False)
                return
        self._counted.heard(name, {**fields, "kind": mine[1]})

    def start(self) -> None:
        """Begin to listen. May be repeated."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="parrot-outcomes", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Listen no more; does not wait."""
        self._stop.set()
        if self._receiver is not None:
            self._receiver.should_stop = True

    def _run(self) -> None:
        receiver = importlib.import_module("celery.events.receiver").EventReceiver
        while not self._stop.is_set():
            try:
                with self._app.connection_for_read() as connection:
                    connection.ensure_connection(max_retries=0)
                    self._receiver = receiver(connection, {"*": self.heard}, app=self._app, routing_key="fire.#")
                    # Not wakeup: that would have every worker of the cluster send a heartbeat.
                    self._receiver.capture(wakeup=False)
            except Exception as exc:  # what is told meanwhile is not counted
                logger.debug("events cannot be received: %s", exc)
            self._clock.wait(self._stop, _AGAIN)
