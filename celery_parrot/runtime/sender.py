"""Sends fires as ``apply_async`` would: one reused producer, confirmed, never retried here, never for long."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from amqp.exceptions import IrrecoverableChannelError, MessageNacked
from celery import Celery
from celery.app.task import Task
from kombu.exceptions import EncodeError, OperationalError

from celery_parrot.clock import Clock
from celery_parrot.model.secrets import mask
from celery_parrot.protocols import Message, SendResult, SendStatus
from celery_parrot.runtime.bounded import Answering
from celery_parrot.runtime.broker import Broker, BrokerDown
from celery_parrot.runtime.templates import Templates, listened

logger = logging.getLogger("celery_parrot")

_NOT_OURS = frozenset({"task_id", "producer", "publisher", "connection", "retry", "retry_policy", "headers"})
"""Options that a schedule cannot set: the fire decides them."""

_TOGETHER = 100
"""Messages of one batch: all of them are in doubt if the broker is lost before it has answered."""

_HEAVY = 2**18
"""Characters of messages with which a batch is full: more might never get through within the time a publish may take,
and what did get through would be sent again with each try."""

_SENT = SendResult(SendStatus.SENT)
_NOT_TRIED = SendResult(SendStatus.NOT_TRIED)


class _Nothing(Exception):
    """Nothing of a batch is to be sent."""


class CelerySender:
    """A :class:`~celery_parrot.protocols.Sender` on a Celery app.

    Everything that Celery does to a task on its way happens: the task's own options, routing, ``before_task_publish``
    and ``after_task_publish``, ``task-sent`` events, stamping, relative ``expires`` and ``countdown`` from now.
    Two things differ. The publish is not retried here (the outbox does that, with the same task id). And the result
    backend is not told to expect a result: nobody here waits for one, and a backend out of reach would hold the beat.

    Where the transport offers it, messages go out in batches, unless somebody is to hear of each one's publication.

    A message that the broker refuses for what it is (its queue exists with other arguments, it is too large) is
    ``BROKEN``; one that a full queue rejects is ``FAILED`` and does not stop the others, since the broker is well.
    """

    def __init__(self, app: Celery, clock: Clock) -> None:
        self._app, self._clock = app, clock
        self._broker = Broker(app, clock)
        self._templates = Templates(app, self._through)

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        """See the protocol. ``until`` is compared before each message is begun, or each batch."""
        results: list[SendResult] = []
        self._broker.check()
        while len(results) < len(messages) and self._clock.monotonic() < until:
            some, go_on = self._next(messages[len(results) : len(results) + _TOGETHER])
            results += some
            if not go_on:
                break
        return results + [_NOT_TRIED] * (len(messages) - len(results))

    def close(self) -> None:
        """Let go of the connection, without waiting for the broker."""
        self._broker.close()

    def _next(self, messages: Sequence[Message]) -> tuple[list[SendResult], bool]:
        """The results of the first of these, or of as many as make one batch, and whether to go on."""
        try:
            producer = self._broker.producer()
        except BrokerDown as exc:
            return [SendResult(SendStatus.FAILED, str(exc))], False
        except Exception as exc:
            return [self._failed(exc)], False
        if self._batches(producer):
            return self._send_batch(messages, producer)
        result, go_on = self._send(messages[0], producer)
        return [result], go_on

    def _batches(self, producer: Any) -> bool:
        """An event or signal that says "published" must not come before it is true."""
        return (
            getattr(producer, "supports_batch_publish", False)
            and isinstance(producer.channel, Answering)
            and not self._app.conf.task_send_sent_event
            and not listened()
        )

    # --- one message ---

    def _send(self, message: Message, producer: Any) -> tuple[SendResult, bool]:
        """The result, and whether to go on with the next message."""
        before = self._broker.published
        try:
            self._way()(message, producer)
        except Exception as exc:
            if self._broker.published > before:
                # The message is with the broker; what failed came after it (the task-sent event).
                self._failed(exc)
                return _SENT, True
            return self._fault(message, exc)
        self._broker.worked()
        return _SENT, True

    # --- many at once ---

    def _send_batch(self, messages: Sequence[Message], producer: Any) -> tuple[list[SendResult], bool]:
        """Buffered one by one, where each may turn out to be broken; then sent at once and answered one by one."""
        channel = producer.channel
        results: list[SendResult] = []
        commands: list[int] = []  # of each message that was buffered, the number of its first command; -1: it has none
        publish = self._way()
        try:
            with producer.batch(max_size=sys.maxsize) as batch:
                for message in messages:
                    first = channel.buffered
                    try:
                        publish(message, producer)
                    except Exception as exc:
                        result, go_on = self._fault(message, exc)
                        results.append(result)
                        commands.append(-1)
                        if not go_on:
                            raise _Nothing from exc  # discards what is buffered
                    else:
                        results.append(_SENT)
                        commands.append(first if channel.buffered > first else -1)
                    if channel.weight >= _HEAVY:
                        break
                batch.flush()
        except _Nothing:
            return [_NOT_TRIED if result is _SENT else result for result in results], False
        except Exception as exc:
            doubtful = self._failed(exc.__cause__ or exc)
            return [doubtful if result is _SENT else result for result in results], False
        return self._answered(results, commands, channel.answers)

    def _answered(
        self, results: list[SendResult], commands: Sequence[int], answers: Sequence[Any]
    ) -> tuple[list[SendResult], bool]:
        refused: SendResult | None = None
        for number, first in enumerate(commands):
            if first >= 0 and isinstance(error := answers[first], Exception):
                refused = results[number] = SendResult(SendStatus.FAILED, _text(error))
        if refused is not None:
            self._broker.failed(refused.error)
            return results, False
        self._broker.worked()
        return results, True

    def _way(self) -> Callable[[Message, Any], None]:
        return self._templates.publish if self._templates.usable() else self._through

    def _through(self, message: Message, producer: Any) -> None:
        """All the way through Celery."""
        task = self._app.tasks.get(message.task)
        options = {key: value for key, value in message.options.items() if key not in _NOT_OURS}
        headers = dict(message.headers)
        if self._app.conf.task_protocol == 2:
            headers["ignore_result"] = _ignore_result(task, options)
        # Told to ignore the result, Celery leaves the backend alone; the header keeps what the task is to do.
        options |= {"ignore_result": True, "headers": headers}
        options |= {"task_id": message.task_id, "producer": producer, "retry": False, "add_to_parent": False}
        args: Any = list(message.args)  # a list, as Celery's own beat sends: tasks see it in their reprs
        kwargs = dict(message.kwargs)
        if task is not None:
            task.apply_async(args, kwargs, **options)
        else:
            self._app.send_task(message.task, args, kwargs, **options)

    # --- what went wrong ---

    def _fault(self, message: Message, exc: Exception) -> tuple[SendResult, bool]:
        if isinstance(exc, MessageNacked) or isinstance(exc.__cause__, MessageNacked):
            return SendResult(SendStatus.FAILED, "the queue rejected the message (full?)"), True
        if isinstance(exc, IrrecoverableChannelError):
            # The broker closed the channel over this one message. Others may go, on a new connection, at once.
            self._failed(exc)
            self._broker.retry_now()
            return SendResult(SendStatus.BROKEN, _text(exc)), True
        if isinstance(exc, self._broker_faults()):
            return self._failed(exc), False
        return SendResult(SendStatus.BROKEN, _without_arguments(exc)), True

    def _failed(self, exc: BaseException) -> SendResult:
        error = _text(exc)
        self._broker.failed(error)
        return SendResult(SendStatus.FAILED, error)

    def _broker_faults(self) -> tuple[type[BaseException], ...]:
        connection = self._broker.connection
        return (OperationalError, OSError, *connection.connection_errors, *connection.channel_errors)


def _ignore_result(task: Task[Any, Any] | None, options: Mapping[str, Any]) -> Any:
    if "ignore_result" in options:
        return options["ignore_result"]
    return None if task is None else task.ignore_result


def _text(exc: BaseException) -> str:
    return mask(f"{type(exc).__name__}: {exc}")


def _without_arguments(exc: Exception) -> str:
    """What is wrong with a message, without what is in it: serialisers quote the value they choke on."""
    if isinstance(exc, EncodeError):
        cause = exc.__cause__ or exc.__context__ or exc
        return f"arguments cannot be serialised ({type(cause).__name__})"
    if isinstance(exc, TypeError | LookupError):
        return _text(exc)
    return type(exc).__name__
