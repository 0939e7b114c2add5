"""What leaves a beat: messages, events, wake-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from celery_parrot.model.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One task message to send. Arguments are evaluated; nothing here is logged.

    :ivar options: ``apply_async`` options less headers and task id.
    :ivar headers: what goes into the message's headers besides Celery's own.
    """

    task: str
    task_id: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)


class SendStatus(StrEnum):
    SENT = "sent"
    FAILED = "failed"  # refused or doubtful: may or may not have reached the broker; the broker is at fault
    BROKEN = "broken"  # this message can never be sent (e.g. not serialisable); others can
    NOT_TRIED = "not_tried"


@dataclass(frozen=True, slots=True)
class SendResult:
    status: SendStatus
    error: str = ""


class Sender(Protocol):
    """Hands messages to the broker."""

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        """Send in order, one result each. Begins no message after ``until`` (this process's monotonic clock) and
        none after the first ``FAILED``: the rest is ``NOT_TRIED``. Messages that go out together may all be
        ``FAILED``: each may have got through. Bounded: a single publish, or one of several together, takes under 3 s.
        Raises nothing but programming errors."""
        ...

    def close(self) -> None: ...


class EventSink(Protocol):
    """Takes what happened. Never raises, never blocks."""

    def emit(self, event: Event) -> None: ...


class WakeChannel(Protocol):
    """Wakes beats before their sleep is over."""

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken. Loses no wake-up between two calls. Never raises for an
        unreachable backend: it then just sleeps."""
        ...

    def wake(self) -> None:
        """Wake every beat of this registered name, at best effort."""
        ...

    def close(self) -> None: ...
