"""Connections of kombu's transports that keep a time budget, whatever the broker does."""

from __future__ import annotations

import select
from collections.abc import Callable
from typing import Any

from kombu.transport import pyamqp

from celery_parrot.clock import Clock

STEP = 1.0
"""Seconds any one step may take: opening a socket, writing to it, waiting for one answer of a Redis."""


class Budget:
    """A deadline on this process's monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = clock.monotonic()

    def start(self, seconds: float) -> None:
        """From now on ``seconds``."""
        self._until = self._clock.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, possibly below 0."""
        return self._until - self._clock.monotonic()


class BoundedConnection(pyamqp.Connection):
    """py-amqp's connection, whose every wait for the broker ends with the budget.

    Its own timeouts are per frame and absent from most calls (opening a channel, declaring a queue), so a broker that
    stalls half-way through would hold the beat for ever.
    """

    def __init__(self, *args: Any, budget: Budget, **kwargs: Any) -> None:
        self._budget = budget
        super().__init__(*args, **kwargs)

    def connect(self, callback: Callable[..., Any] | None = None) -> Any:
        """Connect and shake hands within the budget."""
        result = super().connect(callback)
        self.transport.sock.settimeout(STEP)  # writes: a broker that reads nothing blocks them
        return result

    def blocking_read(self, timeout: float | None = None) -> Any:
        """Read one frame. Asked not to wait, it looks first; a frame that has begun is read within the budget."""
        left = self._budget.left()
        if timeout == 0:
            if not self._readable():
                raise TimeoutError
            timeout = left
        timeout = left if timeout is None else min(timeout, left)
        if timeout <= 0:
            raise TimeoutError("the broker did not answer in time")
        return super().blocking_read(timeout)

    def _readable(self) -> bool:
        if self.transport._read_buffer:
            return True
        poll = select.poll()
        poll.register(self.transport.sock, select.POLLIN)
        return bool(poll.poll(0))


def bounded_redis(channel: Any, budget: Budget) -> Any:
    """kombu's Redis channel class, with connections that ask for no more time than the budget has left.

    A Redis that answers each command just within its timeout would otherwise take many times that: connecting and
    declaring a queue are a dozen commands. Made from the transport's own classes, so Sentinel and TLS are as they were.
    """
    own = {
        name: _bounded(getattr(channel, name), budget)
        for name in ("connection_class", "connection_class_ssl")
        if getattr(channel, name, None) is not None
    }
    return type("BoundedChannel", (Answering, channel), own)


def _bounded(connection: Any, budget: Budget) -> Any:
    def send_packed_command(self: Any, command: Any, check_health: bool = True) -> None:
        # Part by part: the timeout of a socket begins anew with each, and a batch has hundreds.
        for part in [command] if isinstance(command, str) else command:
            left = budget.left()
            if left <= 0:
                self.disconnect()  # what is half written is of no use to anybody
                raise TimeoutError("the broker did not answer in time")
            if self._sock is not None:
                self._sock.settimeout(min(left, STEP))
            connection.send_packed_command(self, [part], check_health=check_health)
            check_health = False  # a question in the middle of a command

    def read_response(self: Any, *args: Any, **kwargs: Any) -> Any:
        # A batch is written at once and answered one by one.
        left = budget.left()
        if left <= 0:
            self.disconnect()
            raise TimeoutError("the broker did not answer in time")
        if self._sock is not None:
            self._sock.settimeout(min(left, STEP))
        return connection.read_response(self, *args, **kwargs)

    own = {"send_packed_command": send_packed_command, "read_response": read_response}
    return type(connection.__name__, (connection,), own)


class Answering:
    """Mixed into kombu's Redis channel class: knows what became of each command of the last publish batch.

    kombu's own batch says only that one of them failed, and then all would be in doubt.
    """

    _pipeline: Any = None
    answers: tuple[Any, ...] = ()  #: in the order of the commands, an exception for one that was refused
    weight = 0  #: characters of the messages that wait in the present batch

    def create_publish_batch(self, max_size: int) -> Any:
        """kombu's batch, whose commands harm each other no more."""
        batch = super().create_publish_batch(max_size)  # type: ignore[misc]
        pipeline = self._pipeline = batch.pipeline
        self.answers, self.weight = (), 0
        add, execute = batch.add, pipeline.execute

        def weighed(name: str, *args: Any) -> None:
            self.weight += sum(len(arg) for arg in args if isinstance(arg, str))
            add(name, *args)

        def answered() -> Any:
            self.answers = ()
            found = execute(raise_on_error=False)
            self.answers = tuple(found)
            return found

        batch.add, pipeline.execute = weighed, answered
        return batch

    @property
    def buffered(self) -> int:
        """Commands that wait in the present batch."""
        return 0 if self._pipeline is None else len(self._pipeline)
