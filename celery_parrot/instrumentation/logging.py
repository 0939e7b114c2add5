"""Events as log records of the logger ``celery_parrot``."""

from __future__ import annotations

import contextlib
import logging

from celery_parrot.errors import printable
from celery_parrot.model.events import Event

LOGGER = "celery_parrot"


class LogEvents:
    """An :class:`~celery_parrot.protocols.EventSink` that writes one log record an event.

    The message is the event's sentence. For machines the record carries ``event`` (the event's name) and ``parrot``
    (its fields, a dictionary) as attributes. Arguments of tasks are in neither.

    :param logger: name of the logger.
    """

    def __init__(self, logger: str = LOGGER) -> None:
        self._logger = logging.getLogger(logger)

    def emit(self, event: Event) -> None:
        """Log it. A handler or formatter that raises stops nothing."""
        if not self._logger.isEnabledFor(event.level):
            return
        with contextlib.suppress(Exception):
            extra = {"event": event.name, "parrot": dict(event.fields)}
            self._logger.log(event.level, "%s", printable(event.text), extra=extra)
