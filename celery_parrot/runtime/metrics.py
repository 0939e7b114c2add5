"""The page that Prometheus reads (``parrot_metrics_port``): one a beat, from the beat's own process."""

from __future__ import annotations

import importlib
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from celery_parrot.errors import ConfigurationError
from celery_parrot.instrumentation import Metrics
from celery_parrot.protocols import Busy, Waiting
from celery_parrot.runtime.census import Census
from celery_parrot.runtime.config import Settings

logger = logging.getLogger("celery_parrot")


class Beating(Protocol):
    """What a page asks its beat: :class:`~celery_parrot.dispatch.ticker.Ticker`."""

    def health(self) -> Any: ...

    @property
    def line(self) -> tuple[Waiting, ...]: ...


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

    :param census: counts the schedules.
    """

    def __init__(self, port: int, counted: Metrics, beat: Beating, census: Census) -> None:
        self._port, self._counted, self._beat, self._census = port, counted, beat, census
        self._server: Any = None
        self._tried = False

    def start(self) -> None:
        """Open the port. A port that is taken, by another beat of this host say, is a warning. May be repeated."""
        if self._tried:
            return
        self._tried = True
        self._counted.waiting, self._counted.beats = self._waiting, lambda: int(self._beat.health().beats)
        self._counted.schedules = lambda: self._census.schedules
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
        self._census.start()

    def close(self) -> None:
        """Let go of the port."""
        self._census.close()
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    # --- inside ---

    def _waiting(self) -> Mapping[str, int]:
        return Counter(limit.name for one in self._beat.line for limit in one.limits if limit.busy is Busy.WAIT)
