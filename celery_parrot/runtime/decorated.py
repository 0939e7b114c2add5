"""Schedules that stand beside their task: what ``@parrot.schedule(…)`` collects."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from celery import Celery

from celery_parrot.runtime.entries import Source
from celery_parrot.runtime.entry_fields import KEYS, LIMIT_KEYS, NOT_YET

F = TypeVar("F", bound=Callable[..., Any])

WHERE = "@parrot.schedule"
_OWN = (KEYS | LIMIT_KEYS | NOT_YET) - {"task", "app"}


@dataclass(frozen=True, slots=True)
class _Mark:
    target: Any
    entry: Mapping[str, Any]


@dataclass(slots=True)
class Decorated:
    """The decorated functions and tasks of one app, in the order they were decorated."""

    marks: list[_Mark] = field(default_factory=list)

    def decorator(self, when: object, fields: Mapping[str, Any]) -> Callable[[F], F]:
        """See :meth:`celery_parrot.Parrot.schedule`. What is decorated is returned as it is, so that decorators
        stack, above or below ``@app.task``."""
        entry = entry_of(when, fields)

        def decorate(target: F) -> F:
            self.marks.append(_Mark(target, entry))
            return target

        return decorate

    def adopt(self, app: Celery) -> None:
        """Make a task of every decorated function that is none yet. Called when the app is finalised, in beats and
        workers alike, so that both know it."""
        for mark in self.marks:
            if not _is_task(mark.target) and _task_of(app, mark.target) is None:
                app.task(shared=False)(mark.target)  # of this app only, whatever others there are

    def sources(self, app: Celery) -> Iterable[Source]:
        """One a decorator. Without a ``name`` the first of a task has the task's name, the next ``name#2``, …"""
        unnamed: dict[str, int] = {}
        for mark in self.marks:
            task = mark.target if _is_task(mark.target) else _task_of(app, mark.target)
            task_name = str(task.name) if task is not None else getattr(mark.target, "__qualname__", "?")
            name = mark.entry.get("name")
            if name is None:
                unnamed[task_name] = unnamed.get(task_name, 0) + 1
                name = task_name if unnamed[task_name] == 1 else f"{task_name}#{unnamed[task_name]}"
            entry = {key: value for key, value in mark.entry.items() if key != "name"}
            if "target" not in entry:
                entry["task"] = task_name
            yield Source(str(name), entry, WHERE)


def entry_of(when: object, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry as in ``beat_schedule``. What is no field of an entry belongs to the schedule's config."""
    entry = {key: value for key, value in fields.items() if key in _OWN}
    config = {key: value for key, value in fields.items() if key not in _OWN}
    if isinstance(when, str):
        entry["schedule_type"] = when
    elif when is not None:
        entry["schedule"] = when
    if config:
        entry["schedule_config"] = {**(entry.get("schedule_config") or {}), **config}
    return entry


def _is_task(target: Any) -> bool:
    # By class and without touching a lazy task: evaluating one configures the app.
    return type(target).__name__ in ("PromiseProxy", "Proxy") or hasattr(type(target), "apply_async")


def _task_of(app: Celery, function: Any) -> Any:
    """The task whose body ``function`` is, wherever in the pile of decorators ``@app.task`` stood."""
    for task in app.tasks.values():
        body = getattr(task, "__wrapped__", None)
        if body is function or getattr(body, "__func__", None) is function:
            return task
    return None
