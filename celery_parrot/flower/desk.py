"""What the handlers of one Flower share: the client, the fires heard, and threads for work that blocks."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

from celery import Celery

from celery_parrot.client import Schedules
from celery_parrot.clock import Clock, SystemClock
from celery_parrot.errors import ConfigurationError, Unreachable
from celery_parrot.flower.backfills import Backfills
from celery_parrot.flower.feed import Feed
from celery_parrot.flower.metrics import Shown
from celery_parrot.flower.threads import Threads
from celery_parrot.flower.timeline import Timeline
from celery_parrot.model.secrets import mask
from celery_parrot.runtime.backends import attached
from celery_parrot.runtime.clients import ATTRIBUTE, of_app
from celery_parrot.runtime.config import Settings, load

logger = logging.getLogger("celery_parrot")

PATIENCE: Final = 30.0
"""Seconds that a request waits for an answer of store or coordinator."""
THREADS: Final = 8
"""So many requests ask at once; further ones wait, and at last get a 503."""

AT_HAND: Final = 2
"""Threads for what asks nobody, and so is not held up by those that wait."""

_DESK: Final = "_celery_parrot_desk"

P = ParamSpec("P")
R = TypeVar("R")


class NoAnswer(Unreachable):
    """In time; who did not give it is not known."""


class Desk:
    """One per Flower application. Making it opens nothing.

    :ivar app: the Celery app. :ivar feed: the fires that were heard of. :ivar backfills: those asked for here.
    :ivar timeline: the due times of the next 24 hours; asking it never waits.
    :ivar shown: the metrics, None where the settings cannot work.
    :ivar patience: seconds that a request waits for an answer of store or coordinator.
    """

    def __init__(self, app: Celery, clock: Clock, *, patience: float = PATIENCE) -> None:
        self.app, self.clock = app, clock
        self.backfills = Backfills(clock)
        self.timeline = Timeline(lambda: self.client, clock)
        self.shown: Shown | None = None
        self.patience = patience
        self._threads, self._at_hand = Threads(THREADS, "parrot-http"), Threads(AT_HAND, "parrot-at-hand")
        self._lock = threading.Lock()
        self._client: Schedules | None = None
        try:
            self.feed = Feed(self.settings.name)
            self.shown = Shown(self.settings, clock, lambda: self.client)
        except ConfigurationError as error:  # Flower itself works; each request of ours will say so
            logger.warning("there will be no schedules in Flower: %s", mask(str(error)))
            self.feed = Feed()

    @cached_property
    def settings(self) -> Settings:
        """The app's, checked. Raises ConfigurationError."""
        parrot = vars(self.app).get(ATTRIBUTE)
        return load(self.app, attached=attached(() if parrot is None else parrot.stores))

    @property
    def read_only(self) -> bool:
        """``parrot_http_read_only``."""
        return self.settings.http_read_only

    @property
    def client(self) -> Schedules:
        """The verbs. Connects at the first verb; use it in :meth:`run` only. Raises ConfigurationError."""
        with self._lock:
            if self._client is None:
                self._client = of_app(self.app, self.clock)
            return self._client

    def hear(self, event: Mapping[str, Any]) -> None:
        """Take note of a Celery event. Called in the thread of Flower's receiver."""
        self.feed.hear(event)
        if self.shown is not None:
            self.shown.hear(event)

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` in a thread of ours: nothing that may block is called on Tornado's loop.

        :raises NoAnswer: if there is none in time. What was begun goes on.
        """
        return await self._answer(self._threads.submit(function, *args, **kwargs))

    async def run_at_hand(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The same where ``function`` asks neither store nor coordinator: it does not stand behind those that do."""
        return await self._answer(self._at_hand.submit(function, *args, **kwargs))

    async def _answer(self, future: Future[R]) -> R:
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.patience)
        except TimeoutError:
            if future.done() and not future.cancelled() and isinstance(future.exception(), TimeoutError):
                raise  # the function's own
            raise NoAnswer(f"There was no answer within {self.patience:g} s") from None

    def close(self) -> None:
        """Ask nobody any more; does not wait."""
        if self.shown is not None:
            self.shown.close()
        self.backfills.close()
        for threads in (self._threads, self._at_hand):
            threads.close()
        if self._client is not None:
            self._client.close()


def desk_at(place: object, app: Celery) -> Desk:
    """The desk that is kept at an object of Flower's, made if there is none."""
    kept = vars(place)
    if _DESK not in kept:
        kept[_DESK] = Desk(app, SystemClock())
    desk = kept[_DESK]
    assert isinstance(desk, Desk)
    return desk


def desk_of(application: Any) -> Desk:
    """The desk of a Flower application: with its receiver, which feeds it."""
    return desk_at(application.events, application.capp)
