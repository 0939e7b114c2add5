"""Schedules that stand beside their task: what ``@parrot.schedule(…)`` and ``parrot.scan(…)`` collect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from inspect import getattr_static, ismethod
from typing import Any, TypeVar

from celery import Celery

from celery_parrot.errors import ParrotError
from celery_parrot.runtime.entries import Source
from celery_parrot.runtime.entry_fields import KEYS

F = TypeVar("F", bound=Callable[..., Any])

WHERE = "@parrot.schedule"
_OWN = KEYS - {"task", "app"}


@dataclass(frozen=True, slots=True)
class _Mark:
    """:ivar method: it stands in a class, and has to wait for the object that it is called on."""

    target: Any
    entry: Mapping[str, Any]
    method: bool = False


@dataclass(slots=True)
class Decorated:
    """The decorated functions and tasks of one app, in the order they were decorated."""

    marks: list[_Mark] = field(default_factory=list)
    _scanned: dict[str, object] = field(default_factory=dict)  # prefix of task names → the object
    _bound: set[int] = field(default_factory=set)  # ids of methods that some object was scanned for

    def decorator(self, when: object, fields: Mapping[str, Any]) -> Callable[[F], F]:
        """See :meth:`celery_parrot.Parrot.schedule`. What is decorated is returned as it is, so that decorators
        stack, above or below ``@app.task``."""
        entry = entry_of(when, fields)

        def decorate(target: F) -> F:
            self.marks.append(_Mark(target, entry, _in_a_class(target)))
            return target

        return decorate

    def scan(self, app: Celery, obj: object, prefix: str | None) -> tuple[str, ...]:
        """See :meth:`celery_parrot.Parrot.scan`."""
        owner = obj if isinstance(obj, type) else type(obj)
        base = prefix or f"{owner.__module__}.{owner.__qualname__}"
        if self._scanned.get(base, obj) is not obj:
            raise ParrotError(f"{base} is scanned already; give this object a prefix of its own")
        if base in self._scanned:
            return ()
        found: list[str] = []
        for attribute in dir(owner):
            marks = self._marks_of(getattr_static(owner, attribute, None))
            if not marks:
                continue
            name = f"{base}.{attribute}"
            task = app.task(shared=False, name=name)(_callable(obj, attribute))
            self._bound.update(id(mark.target) for mark in marks)
            for mark in marks:
                entry = dict(mark.entry)
                if prefix is not None and entry.get("name") is not None:
                    entry["name"] = f"{prefix}.{entry['name']}"
                self.marks.append(_Mark(task, entry))
            found.append(name)
        if not found:
            raise ParrotError(f"{owner.__qualname__} has no method with @parrot.schedule")
        self._scanned[base] = obj
        return tuple(found)

    def adopt(self, app: Celery) -> None:
        """Make a task of every decorated function that is none yet. Called when the app is finalised, in beats and
        workers alike, so that both know it."""
        for mark in self.marks:
            if not mark.method and not _is_task(mark.target) and _task_of(app, mark.target) is None:
                app.task(shared=False)(mark.target)  # of this app only, whatever others there are

    def sources(self, app: Celery) -> Iterable[Source]:
        """One a decorator. Without a ``name`` the first of a task has the task's name, the next ``name#2``, …"""
        unnamed: dict[str, int] = {}
        for mark in self.marks:
            if id(mark.target) in self._bound:
                continue  # its task has marks of its own
            task = mark.target if _is_task(mark.target) else _task_of(app, mark.target)
            if task is None and mark.method:
                continue
            task_name = str(task.name) if task is not None else getattr(mark.target, "__qualname__", "?")
            name = mark.entry.get("name")
            if name is None:
                unnamed[task_name] = unnamed.get(task_name, 0) + 1
                name = task_name if unnamed[task_name] == 1 else f"{task_name}#{unnamed[task_name]}"
            entry = {key: value for key, value in mark.entry.items() if key != "name"}
            if "target" not in entry:
                entry["task"] = task_name
            yield Source(str(name), entry, WHERE)

    def unbound(self, app: Celery) -> Iterable[str]:
        """A sentence for each decorated method that no object was scanned for."""
        for mark in self.marks:
            if mark.method and id(mark.target) not in self._bound and _task_of(app, mark.target) is None:
                yield (
                    f"{mark.target.__qualname__} has @parrot.schedule and is a method: it runs once an object was "
                    "handed to parrot.scan(…)"
                )

    def _marks_of(self, attribute: object) -> list[_Mark]:
        """The marks of what stands in a class under one name, whichever decorators are around it."""
        chain = [attribute, *_layers(getattr(attribute, "__func__", attribute))]
        return [mark for mark in self.marks if mark.method and any(mark.target is each for each in chain)]


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


def _in_a_class(target: object) -> bool:
    """By where it was written: a function's class is not there yet while it is decorated."""
    function = getattr(target, "__func__", target)
    name = getattr(function, "__qualname__", "")
    return not _is_task(target) and "." in name.rpartition("<locals>.")[2]


def _callable(obj: object, attribute: str) -> Callable[..., Any]:
    found = getattr(obj, attribute)
    if isinstance(obj, type) and not ismethod(found) and not isinstance(getattr_static(obj, attribute), staticmethod):
        raise ParrotError(f"{obj.__qualname__}.{attribute} needs an object: parrot.scan({obj.__qualname__}(…))")
    bound: Callable[..., Any] = found
    return bound


def _layers(function: object) -> Iterable[object]:
    """A function, what it wraps, what that wraps, …"""
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


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
