"""How many schedules there are, for metrics: counted now and then, in a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from celery_parrot.client.view import SchedulePage
from celery_parrot.clock import Clock

logger = logging.getLogger("celery_parrot")

COUNT_EVERY: Final = 60.0
"""Seconds between two counts of all schedules, at least."""
_SHARE: Final = 20.0
"""A count that takes longer is repeated after so many times what it took."""
_AGAIN: Final = 5.0
_PAGE: Final = 200
_BETWEEN_PAGES: Final = 0.05


class Listing(Protocol):
    """What is counted: :class:`~celery_parrot.client.Schedules`."""

    @property
    def stores(self) -> tuple[str, ...]: ...
    def find(self, *, store: str | None = None, after: str = "", limit: int = 100) -> SchedulePage: ...
    def close(self) -> None: ...


class Census:
    """:param listing: makes the client that is asked; called, used and closed in the census's thread.

    :ivar schedules: how many, by store and state; empty until they have been counted once.
    """

    def __init__(self, clock: Clock, listing: Callable[[], Listing]) -> None:
        self._clock, self._listing = clock, listing
        self._stop = threading.Event()
        self.schedules: Mapping[tuple[str, str], int] = {}

    def start(self) -> None:
        """Begin to count."""
        threading.Thread(target=self._keep_counting, name="parrot-census", daemon=True).start()

    def close(self) -> None:
        """Count no more; does not wait."""
        self._stop.set()

    # --- inside ---

    def _keep_counting(self) -> None:
        listing: Listing | None = None
        pause = 0.0
        while not self._clock.wait(self._stop, pause):
            begun, least = self._clock.monotonic(), COUNT_EVERY
            try:
                listing = listing or self._listing()
                counts: Counter[tuple[str, str]] = Counter()
                for store in listing.stores:
                    counts.update(self._count(listing, store))
                self.schedules = counts
            except Exception as exc:  # what cannot be counted now keeps its last count
                logger.debug("schedules cannot be counted: %s", exc)
                least = _AGAIN
            pause = max(least, _SHARE * (self._clock.monotonic() - begun))
        if listing is not None:
            listing.close()

    def _count(self, listing: Listing, store: str) -> Iterator[tuple[str, str]]:
        """Store and state of each schedule, a page at a time and without haste: others have more urgent things."""
        after = ""
        while True:
            page = listing.find(store=store, after=after, limit=_PAGE)
            yield from ((store, str(view.state)) for view in page)
            after = page.after
            if not after or self._clock.wait(self._stop, _BETWEEN_PAGES):
                return
