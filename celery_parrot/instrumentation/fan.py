"""One event to several places."""

from __future__ import annotations

import contextlib
from typing import Protocol, runtime_checkable

from celery_parrot.model.events import Event
from celery_parrot.protocols import EventSink


@runtime_checkable
class Buffering(Protocol):
    """A sink that hands on later."""

    def flush(self, seconds: float) -> bool:
        """Hand on what is kept, for at most ``seconds``; true if nothing is left. Never raises."""
        ...


class Fan:
    """An :class:`~celery_parrot.protocols.EventSink` that passes on to others. One that fails harms no other."""

    def __init__(self, *sinks: EventSink) -> None:
        self._sinks = sinks

    def emit(self, event: Event) -> None:
        """Pass it on."""
        for sink in self._sinks:
            with contextlib.suppress(Exception):
                sink.emit(event)

    def flush(self, seconds: float) -> bool:
        """See :class:`Buffering`."""
        done = [flush(sink, seconds) for sink in self._sinks]  # each, also after one that has not done
        return all(done)


def flush(sink: object, seconds: float) -> bool:
    """Have a sink hand on what it keeps, if it keeps anything."""
    return sink.flush(seconds) if isinstance(sink, Buffering) else True
