"""An event sink that keeps what it is told."""

from __future__ import annotations

from celery_parrot.model.events import Event


class RecordingEvents:
    """An :class:`~celery_parrot.protocols.EventSink`. :ivar events: all of them, in order."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)

    def named(self, name: str) -> list[Event]:
        """The events of one name."""
        return [event for event in self.events if event.name == name]
