"""Which Celery tasks schedules may call (``parrot_allowed_tasks``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.schedule import TASK_KIND, Schedule

LINKS: Final = ("link", "link_error", "chain", "chord")
"""Options of a message that make the worker call further tasks."""

REASON: Final = "task not allowed"
"""Of a fire that a worker refused."""

_FIX: Final = "is not in parrot_allowed_tasks: name a task that is, or add this one to the setting of every process"


@dataclass(frozen=True, slots=True)
class AllowedTasks:
    """:ivar patterns: names, and patterns as of a shell (``reports.*``); None: every task is allowed."""

    patterns: tuple[str, ...] | None = None

    def allows(self, task: str) -> bool:
        """Whether schedules may call the task of this name."""
        return self.patterns is None or any(fnmatchcase(task, pattern) for pattern in self.patterns)

    def check(self, schedule: Schedule) -> None:
        """Whether all that its fires would call is allowed. The task of a declared kind stands in configuration and is
        trusted; what follows it is not.

        :raises InvalidSchedule: naming the field and the task.
        """
        if self.patterns is None:
            return
        if schedule.kind == TASK_KIND and not self.allows(schedule.target):
            raise InvalidSchedule("target", schedule.target, _FIX)
        for name in LINKS:
            self.check_tasks(f"options.{name}", schedule.options.get(name))

    def check_callbacks(self, schedule: Schedule) -> None:
        """Whether those of its callbacks that call a task call an allowed one. Raises InvalidSchedule."""
        for field in ("callbacks", "failure_callbacks", "missed_callbacks"):
            for index, spec in enumerate(getattr(schedule, field)):
                if spec.get("type") == "task" and not self.allows(str(spec.get("task"))):
                    raise InvalidSchedule(f"{field}[{index}].task", spec.get("task"), _FIX)

    def check_tasks(self, field: str, signatures: object) -> None:
        """Whether every task that is named anywhere in these signatures is allowed. Raises InvalidSchedule."""
        if self.patterns is None:
            return
        for task in _tasks_in(signatures):
            if not isinstance(task, str) or not self.allows(task):
                raise InvalidSchedule(field, task, _FIX)


def _tasks_in(value: object) -> Iterator[Any]:
    """What would be called, however deep: a chain holds signatures in its arguments, and each signature may have
    followers of its own. Where Celery expects a signature, it takes a text for the name of a task."""
    todo = [(value, True)]
    while todo:
        one, is_name = todo.pop()
        if isinstance(one, str | bytes):
            if is_name:
                yield one
        elif isinstance(one, Mapping):
            if "task" in one and not isinstance(one["task"], Mapping):
                yield one["task"]
            todo.extend((inner, False) for inner in one.values())
            options = one.get("options")
            if isinstance(options, Mapping):
                todo.extend((options.get(name), True) for name in LINKS)
        elif isinstance(one, Sequence):
            todo.extend((inner, is_name) for inner in one)


EVERY_TASK: Final = AllowedTasks()

__all__ = ["EVERY_TASK", "LINKS", "REASON", "AllowedTasks"]
