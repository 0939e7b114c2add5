"""Which tasks fires may run here: the last door before a body, whoever wrote the message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celery_parrot.errors import InvalidSchedule
from celery_parrot.model.allowed import EVERY_TASK, LINKS, AllowedTasks
from celery_parrot.model.schedule import Kind

_FOLLOWERS = {"link": "callbacks", "link_error": "errbacks"}


@dataclass(frozen=True, slots=True)
class Permits:
    """:ivar allowed: what schedules may call. ``kinds``: the task of each declared kind, which is trusted."""

    allowed: AllowedTasks = EVERY_TASK
    kinds: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, allowed: AllowedTasks, kinds: Mapping[str, Kind]) -> Permits:
        """Those of the settings."""
        return cls(allowed, {name: kind.task for name, kind in kinds.items() if kind.task is not None})

    def refusal(self, task: str, kind: object, request: Any) -> str:
        """Why a fire of this kind may not run this task, or be followed by what its message names; empty if it may."""
        if self.allowed.patterns is None:
            return ""
        trusted = isinstance(kind, str) and self.kinds.get(kind) == task
        if not trusted and not self.allowed.allows(task):
            return f"{task!r} is not in parrot_allowed_tasks of this worker"
        try:
            for name in LINKS:
                self.allowed.check_tasks(name, getattr(request, _FOLLOWERS.get(name, name), None))
        except InvalidSchedule as exc:
            return f"{exc.value!r}, which is to follow {task!r}, is not in parrot_allowed_tasks of this worker"
        return ""
