"""Puts the guard on every task of an app: on the class of each, before Celery builds its tracer and its strategy."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from celery import Celery
from celery.utils.imports import symbol_by_name

_MARK: Final = "__celery_parrot__"
_CELERY_REQUEST: Final = "celery.worker.request:Request"
_OUR_REQUEST: Final = "celery_parrot.runtime.worker.request:FireRequest"  # a name: clients need not import a worker

Guard = Callable[[Any, str], None]


def hook_app(app: Celery, guard: Guard) -> None:
    """Hook every task that ``app`` has, and from now on every task it gets, by whatever way it gets it."""
    registry = _registry(app)
    if not getattr(type(registry), _MARK, False):
        plain: Any = type(registry)

        def register(self: Any, name: str, task: Any) -> None:
            hook_task(task, guard)
            plain.__setitem__(self, name, task)

        # The object stays the same: Celery and others hold on to it.
        registry.__class__ = type(plain.__name__, (plain,), {"__setitem__": register, _MARK: True})
    hook_tasks(app, guard)


def hook_tasks(app: Celery, guard: Guard) -> None:
    """Hook those tasks of ``app`` that are not hooked, or no longer: ``task_annotations`` may replace a hook."""
    for task in list(_registry(app).values()):
        hook_task(task, guard)


def _registry(app: Any) -> Any:
    return app._tasks  # not ``app.tasks``, which would finalise an app that is still being made


def hook_task(task: Any, guard: Guard) -> None:
    """Call ``guard(task, task_id)`` before the ``before_start`` of this task, whoever defined that. Idempotent.

    The hook sits on the task's own class, because Celery looks there for whether there is one at all; a class that
    inherits from a hooked one and overrides ``before_start`` gets its own.
    """
    cls = task.__class__
    current = inspect.getattr_static(cls, "before_start", None)
    if current is None:  # not a task that Celery's tracer would run
        return
    if not getattr(current, _MARK, False):
        cls.before_start = _guarded(current, guard)
    _hook_request(cls)


def _guarded(current: Any, guard: Guard) -> Callable[..., Any]:
    def before_start(self: Any, task_id: str, args: Any, kwargs: Any) -> Any:
        guard(self, task_id)
        # As an attribute access would find it: a function, a static method, anything callable.
        bound = current.__get__(self, type(self)) if hasattr(current, "__get__") else current
        return bound(task_id, args, kwargs)

    setattr(before_start, _MARK, True)
    return before_start


def _hook_request(cls: Any) -> None:
    request = cls.Request
    if request in (_CELERY_REQUEST, _OUR_REQUEST):
        cls.Request = _OUR_REQUEST
        return
    from celery_parrot.runtime.worker.request import hooked_request

    cls.Request = hooked_request(symbol_by_name(request))
