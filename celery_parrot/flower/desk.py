"""What the handlers of one Flower share: the client, the fires heard, and threads for work that blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Final, ParamSpec, TypeVar

from celery import Celery

from celery_parrot.client import Schedules
from celery_parrot.clock import Clock, SystemClock
from celery_parrot.errors import Unreachable
from celery_parrot.flower.feed import Feed
from celery_parrot.runtime.backends import attached
from celery_parrot.runtime.clients import ATTRIBUTE, of_app
from celery_parrot.runtime.config import Settings, load

PATIENCE: Final = 30.0
"""Seconds that a request waits for an answer of store or coordinator."""
THREADS: Final = 8

_DESK: Final = "_celery_parrot_desk"

P = ParamSpec("P")
R = TypeVar("R")


class Desk:
    """One per Flower application. Making it opens nothing.

    :ivar app: the Celery app. :ivar feed: the fires that were heard of.
    """

    def __init__(self, app: Celery, clock: Clock, *, patience: float = PATIENCE) -> None:
        self.app, self.clock, self.feed = app, clock, Feed()
        self._patience = patience
        self._lock = threading.Lock()
        self._client: Schedules | None = None

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

    async def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` in a thread of ours: nothing that may block is called on Tornado's loop.

        :raises Unreachable: if there is no answer in time. What was begun goes on.
        """
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, lambda: function(*args, **kwargs))
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._patience)
        except TimeoutError:
            raise Unreachable(f"no answer within {self._patience:g} s") from None

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(THREADS, thread_name_prefix="parrot-http")


def desk_of(application: Any) -> Desk:
    """The desk of a Flower application."""
    kept = vars(application)
    if _DESK not in kept:
        kept[_DESK] = Desk(application.capp, SystemClock())
    desk = kept[_DESK]
    assert isinstance(desk, Desk)
    return desk
