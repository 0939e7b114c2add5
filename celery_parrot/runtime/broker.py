"""One connection to the broker that cannot hang: every step of connecting and publishing fits into a time budget."""

from __future__ import annotations

import contextlib
import functools
import logging
import socket
from typing import Any

from celery import Celery
from kombu import Connection, Producer
from kombu.transport import pyamqp

from celery_parrot.clock import Clock
from celery_parrot.runtime.bounded import STEP, BoundedConnection, Budget, bounded_redis

logger = logging.getLogger("celery_parrot")

PUBLISH_BUDGET = 2.0
"""Seconds that connecting may take, and one publish: well within the heartbeat by which other beats judge this one."""

_BOTH = 2.9
"""Seconds that connecting and a first publish may take together."""

_CONNECTED_IN_TIME = 1.4
"""Seconds of connecting after which the message waits for the next try, on the connection that there is then."""

_BACKOFF_FIRST, _BACKOFF_CAP = 0.1, 1.0
_VIRTUAL_TIMEOUTS = ("socket_timeout", "socket_connect_timeout")


class BrokerDown(Exception):
    """There is no connection to publish on now; nothing was sent."""


class _Counting:
    """Mixed into the app's producer class: knows whether a publish came through."""

    published = 0

    def publish(self, *args: Any, **kwargs: Any) -> Any:
        result = super().publish(*args, **kwargs)  # type: ignore[misc]
        self.published += 1
        return result


class Broker:
    """The connection and producer of one process. Not thread-safe.

    AMQP: publisher confirms always, no heartbeats (nobody would answer them between two fires; TCP keepalive watches
    the connection), py-amqp always. Redis: no retries inside the client, whose answers would come after the deadline.
    """

    def __init__(self, app: Celery, clock: Clock) -> None:
        self._app, self._clock = app, clock
        self._budget = Budget(clock)
        self._connection: Connection | None = None
        self._producer: Any = None  # of a class made from the app's
        self._retry_at = clock.monotonic()
        self._pause = _BACKOFF_FIRST
        self._last_error = "not connected"

    def producer(self) -> Producer:
        """A producer on a live connection; starts the budget of one publish.

        :raises BrokerDown: within the pause after a failure, and where connecting left no time to publish in (the
            connection is kept: the next call is in time). Otherwise whatever connecting raises.
        """
        self._budget.start(PUBLISH_BUDGET)
        if self._producer is None:
            if self._clock.monotonic() < self._retry_at:
                raise BrokerDown(self._last_error)
            self._connect()
            took = PUBLISH_BUDGET - self._budget.left()
            if took > _CONNECTED_IN_TIME:
                raise BrokerDown("connected only now, over a slow network")
            self._budget.start(min(PUBLISH_BUDGET, _BOTH - took))
        producer: Producer = self._producer
        return producer

    @property
    def published(self) -> int:
        """How many publishes the present producer brought to their end."""
        return 0 if self._producer is None else int(self._producer.published)

    @property
    def connection(self) -> Connection:
        """The kombu connection, connected or not."""
        if self._connection is None:
            self._connection = self._make()
        return self._connection

    def check(self) -> None:
        """Notice a connection that ended while it was idle, so that it costs no publish. Raises nothing."""
        amqp = None if self._producer is None else self._producer.channel.connection
        if not isinstance(amqp, BoundedConnection):
            return
        self._budget.start(STEP)
        try:
            while True:
                amqp.drain_events(timeout=0)
        except TimeoutError:
            return
        except Exception:  # closed by the broker: connect anew, nothing was sent on it
            self._drop()

    def failed(self, error: str) -> None:
        """Give up the connection (its state is in doubt) and pause before the next try."""
        self._last_error = error
        self._drop()
        with contextlib.suppress(Exception):
            self.connection.maybe_switch_next()  # the next of several brokers
        self._retry_at = self._clock.monotonic() + self._pause
        self._pause = min(self._pause * 2, _BACKOFF_CAP)

    def retry_now(self) -> None:
        """The last failure was not the broker's: connect again without a pause."""
        self._retry_at, self._pause = self._clock.monotonic(), _BACKOFF_FIRST

    def worked(self) -> None:
        """A publish came through: the next failure is a first one."""
        self._pause = _BACKOFF_FIRST

    def close(self) -> None:
        """Let go without waiting for the broker."""
        self._drop()

    # --- inside ---

    def _connect(self) -> None:
        connection = self.connection
        transport = connection.transport
        if isinstance(transport, pyamqp.Transport):
            setattr(transport, "Connection", functools.partial(BoundedConnection, budget=self._budget))  # noqa: B010
        elif transport.driver_type == "redis":
            bounded = bounded_redis(getattr(transport, "Channel"), self._budget)  # noqa: B009
            setattr(transport, "Channel", bounded)  # noqa: B010
        connection.ensure_connection(max_retries=0)  # one try: between two of them it would sleep whole seconds
        counting = type("CountingProducer", (_Counting, self._app.amqp.Producer), {})
        self._producer = counting(connection.default_channel, auto_declare=False)

    def _make(self) -> Connection:
        app = self._app
        connection = app.connection_for_write(heartbeat=0, connect_timeout=STEP)
        if connection.transport.driver_type == "amqp":
            if not isinstance(connection.transport, pyamqp.Transport):
                connection = app.connection_for_write(heartbeat=0, connect_timeout=STEP, transport="pyamqp")
            _options(connection).update(confirm_publish=True, read_timeout=STEP, write_timeout=STEP)
        elif connection.transport.driver_type == "redis":
            options = _options(connection)
            for key in _VIRTUAL_TIMEOUTS:
                options[key] = min(options.get(key) or STEP, STEP)
            options["retry_on_timeout"] = False
            if "sentinel_kwargs" in options or "master_name" in options:
                bounds = {key: options[key] for key in _VIRTUAL_TIMEOUTS}
                options["sentinel_kwargs"] = {**bounds, **(options.get("sentinel_kwargs") or {})}
        return connection

    def _drop(self) -> None:
        self._producer = None
        if self._connection is None:
            return
        default = socket.getdefaulttimeout()
        try:
            # Not close(): AMQP would wait for the broker to agree.
            self._connection.collect(socket_timeout=STEP)
        except Exception:
            logger.debug("the broker connection could not be collected", exc_info=True)
            self._connection = None
        finally:
            socket.setdefaulttimeout(default)


def _options(connection: Connection) -> dict[str, Any]:
    options = connection.transport_options
    assert isinstance(options, dict)  # Celery always gives one
    return options
