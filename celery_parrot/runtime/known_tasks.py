"""What the tasks that this process knows say of themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from celery import Celery

_OPTIONS: Final = ("expires", "time_limit", "soft_time_limit")


def options_of(app: Celery) -> Callable[[str], Mapping[str, Any]]:
    """By a task's name: its own options about time, which Celery sends where the message says nothing (those of
    ``task_time_limit`` and ``task_soft_time_limit`` included). Empty for a task that only workers have."""

    def of_task(name: str) -> Mapping[str, Any]:
        task = app.tasks.get(name)
        found = {option: getattr(task, option, None) for option in _OPTIONS}
        return {option: value for option, value in found.items() if value is not None}

    return of_task
