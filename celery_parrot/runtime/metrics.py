"""The page that Prometheus reads (``parrot_metrics_port``): one a beat, from the beat's own process."""

from __future__ import annotations

import importlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Protocol

from celery_parrot.client.view import SchedulePage
from celery_parrot.clock import Clock
from celery_parrot.errors import ConfigurationError
from celery_parrot.instrumentation import Metrics
from celery_parrot.protocols import Busy, Waiting
from celery_parrot.runtime.config import Settings

logger = logging.getLogger("celery_parrot")

COUNT_EVERY: Final = 60.0
"""Seconds between two counts of all schedules, at least."""
_SHARE: Final = 20.0
"""A count that takes longer is repeated after so many times what it took."""
_AGAIN: Final = 5.0
_PAGE: Final = 200
_BETWEEN_PAGES: Final = 0.05


class Beating(Protocol):
    """What a page asks its beat: :class:`~celery_parrot.dispatch.ticker.Ticker`."""

    def health(self) -> Any: ...

    @property
    def line(self) -> tuple[Waiting, ...]: ...


class Listing(Protocol):
    """What is counted: :class:`~celery_parrot.client.Schedules`."""

    @property
    def stores(self) -> tuple[str, ...]: ...
    def find(self, *, store: str | None = None, after: str = "", limit: int = 100) -> SchedulePage: ...
    def close(self) -> None: ...


def metrics(settings: Settings) -> Metrics | None:
    """What counts for ``settings``, or None where no port is set.

    :raises ConfigurationError: if prometheus-client is not installed.
    """
    if settings.metrics_port is None:
        return None
    try:
        importlib.import_module("prometheus_client")
    except ImportError as exc:
        raise ConfigurationError(
            "parrot_metrics_port", settings.metrics_port, f"needs a package that is not installed ({exc})",
            "Install celery-parrot[metrics], or remove the setting.",
        ) from None  # fmt: skip
    groups = {kind.exclusion_group for kind in settings.kinds.values() if kind.exclusion_group}
    return Metrics(settings.kinds, groups | settings.exclusion_groups.keys())


class Page:
    """Serves the metrics of one beat.

    :param listing: makes the client that counts schedules; called in a thread of the page's own.
    """

    def __init__(
        self, port: int, counted: Metrics, beat: Beating, clock: Clock, listing: Callable[[], Listing]
    ) -> None:
        self._port, self._counted, self._beat, self._clock, self._listing = port, counted, beat, clock, listing
        self._server: Any = None
        self._tried = False
        self._stop = threading.Event()
        self._schedules: Mapping[tuple[str, str], int] = {}

    def start(self) -> None:
        """Open the port. A port that is taken, by another beat of this host say, is a warning. May be repeated."""
        if self._tried:
            return
        self._tried = True
        self._counted.waiting, self._counted.beats = self._waiting, lambda: int(self._beat.health().beats)
        self._counted.schedules = lambda: self._schedules
        prometheus = importlib.import_module("prometheus_client")
        registry = prometheus.CollectorRegistry()
        registry.register(self._counted)
        try:
            self._server, _ = prometheus.start_http_server(self._port, registry=registry)
        except OSError as exc:
            logger.warning(
                "parrot_metrics_port %d cannot be opened, this beat shows no metrics and works all the same: %s. "
                "Each beat of a host needs a port of its own",
                self._port, exc.strerror or exc,
            )  # fmt: skip
            return
        threading.Thread(target=self._keep_counting, name="parrot-census", daemon=True).start()

    def close(self) -> None:
        """Let go of the port."""
        self._stop.set()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    # --- inside ---

    def _waiting(self) -> Mapping[str, int]:
        return Counter(limit.name for one in self._beat.line for limit in one.limits if limit.busy is Busy.WAIT)

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
                self._schedules = counts
            except Exception as exc:  # what cannot be counted now keeps its last count
                logger.debug("schedules cannot be counted: %s", exc)
                least = _AGAIN
            pause = max(least, _SHARE * (self._clock.monotonic() - begun))
        if listing is not None:
            listing.close()

    def _count(self, listing: Listing, store: str) -> Iterator[tuple[str, str]]:
        """Store and state of each schedule, a page at a time and without haste: the beat has other things to do."""
        after = ""
        while True:
            page = listing.find(store=store, after=after, limit=_PAGE)
            yield from ((store, str(view.state)) for view in page)
            after = page.after
            if not after or self._clock.wait(self._stop, _BETWEEN_PAGES):
                return
