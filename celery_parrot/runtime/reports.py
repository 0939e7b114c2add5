"""What a beat says of its schedules beyond single fires."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from celery import Celery

from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import EventSink
from celery_parrot.runtime.config import Settings

logger = logging.getLogger("celery_parrot")

Tell = Callable[[Schedule, str], None]


def broken(sink: EventSink) -> Tell:
    """Reports schedules that cannot be computed."""
    return _reporter(sink, "broken, all others run")


def clashed(sink: EventSink) -> Tell:
    """Reports schedules that give way to one of the same name."""
    return _reporter(sink, "does not run")


def _reporter(sink: EventSink, what: str) -> Tell:
    def tell(schedule: Schedule, reason: str) -> None:
        text = f"{schedule.name}: {what}: {reason}"
        fields = {"schedule": schedule.name, "store": schedule.store, "reason": reason}
        sink.emit(Event(events.SCHEDULE_BROKEN, logging.ERROR, text, fields))

    return tell


def odd(app: Celery, settings: Settings) -> Iterable[str]:
    """What is odd about an app but works, one sentence each."""
    if settings.coordination == "none":
        yield (
            "no coordinator: this beat must be the only one, and what is due while it is down is forgotten. "
            "Set parrot_redis_url for more"
        )
    if app.conf.task_always_eager:
        yield "task_always_eager is set: tasks run inside this beat, one after the other"


def warn(sentences: Iterable[str]) -> None:
    """Log each."""
    for sentence in sentences:
        logger.warning("%s", sentence)
