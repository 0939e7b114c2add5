"""Which tasks schedules may call: ``parrot_allowed_tasks``."""

from __future__ import annotations

from typing import Final

from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.runtime.conf_source import Source, refuse

KEY: Final = "parrot_allowed_tasks"

_CELERYS_OWN: Final = ("celery.backend_cleanup",)
"""What Celery's beat schedules by itself; it deletes old results."""


def read_allowed(source: Source) -> AllowedTasks:
    """The allowed tasks; every one where the setting is absent, none where it is an empty list. Raises
    ConfigurationError."""
    value = source.raw(KEY)
    if value is None:
        return EVERY_TASK
    entries = value.split(",") if isinstance(value, str) else value
    fix = "List names and patterns, such as ['shop.tasks.send_report', 'reports.*']."
    if not isinstance(entries, list | tuple | set | frozenset) or not all(isinstance(one, str) for one in entries):
        refuse(KEY, value, "must be a list of texts", fix)
    names = [one.strip() for one in entries]
    if not all(names) or any(any(character.isspace() for character in name) for name in names):
        refuse(KEY, value, "holds what is no name of a task: an empty one, or one with spaces", fix)
    return AllowedTasks((*dict.fromkeys(sorted(names)), *_CELERYS_OWN))
