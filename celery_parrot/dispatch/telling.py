"""Says what happened to a fire, in a beat's words."""

from __future__ import annotations

from celery_parrot.model.events import Event
from celery_parrot.model.fire import Fire, FireKey, Namespace
from celery_parrot.protocols import EventSink


class Teller:
    """Makes events of fires. They carry identities and reasons, never arguments."""

    def __init__(self, namespace: Namespace, emit: EventSink) -> None:
        self._namespace, self._events = namespace, emit

    def fire_id(self, key: FireKey) -> str:
        """As events name it."""
        return self._namespace.fire_id(key)

    def tell(self, name: str, level: int, text: str, fire: Fire, **more: object) -> None:
        """``text`` goes on where ``NAME due WHEN:`` ends."""
        fields = {
            "schedule": fire.name,
            "schedule_id": fire.key.schedule_id,
            "kind": fire.kind,
            "fire_id": self.fire_id(fire.key),
            "due_at": fire.key.due_at.isoformat(),
            "origin": str(fire.origin),
            **more,
        }
        self._events.emit(Event(name, level, f"{fire.name} due {fire.key.due_at.isoformat()}: {text}", fields))
