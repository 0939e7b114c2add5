"""From a schedule and one of its fires to the task message that runs it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

from celery_parrot.dispatch.deadlines import TaskOptions, deadline_of, none_known, time_limits
from celery_parrot.dispatch.limits import Bounds, limits_of
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.model.fire import FireKey, Namespace, Origin
from celery_parrot.model.schedule import TASK_KIND, Kind, Schedule
from celery_parrot.protocols import Limit, Message

HEADER = "parrot"
"""The message header that says which fire a message belongs to."""

CELERYS_HEADERS = frozenset({"task", "id"})
"""Headers by which a worker knows what to run. Celery lets those of a message's options win over its own."""

Evaluate = Callable[[tuple[Any, ...], Mapping[str, Any]], tuple[tuple[Any, ...], Mapping[str, Any]]]


def as_they_are(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Arguments without lazy parts."""
    return args, kwargs


class Router:
    """Knows which kinds this beat may send, and what a fire of each looks like on the wire.

    :param kinds: the declared kinds by name. ``task`` is always routed; an entry for it sets its queue.
    :param evaluate: turns lazy arguments into values at the moment of sending.
    :param bounds: what holds for fires of every kind.
    :param of_task: what tasks say of themselves.
    :param allowed: what schedules may call; default: every task.
    """

    def __init__(
        self,
        namespace: Namespace,
        kinds: Mapping[str, Kind],
        evaluate: Evaluate = as_they_are,
        bounds: Bounds | None = None,
        of_task: TaskOptions = none_known,
        allowed: AllowedTasks = EVERY_TASK,
    ) -> None:
        self._namespace = namespace
        self._kinds = {TASK_KIND: Kind(name=TASK_KIND, declared=False), **kinds}
        self._evaluate = evaluate
        self._of_task = of_task
        self._allowed = allowed
        self.bounds = bounds or Bounds()
        self.routed = frozenset(self._kinds)

    @property
    def namespace(self) -> Namespace:
        return self._namespace

    def kind(self, name: str) -> Kind | None:
        """The kind of this name, or None where it is not routed. Exact: no wildcard, no default."""
        return self._kinds.get(name)

    @property
    def kinds(self) -> Collection[Kind]:
        """All that are routed here."""
        return self._kinds.values()

    def limits(self, schedule: Schedule) -> tuple[Limit, ...]:
        """What a fire of this schedule must hold to be sent, as things are defined now."""
        return limits_of(schedule, self._kinds[schedule.kind], self.bounds)

    def patience(self, schedule: Schedule) -> float:
        """Seconds from its commit for which a fire of this schedule may stand in line."""
        return self.bounds.patience(self._kinds[schedule.kind])

    def deadline(self, schedule: Schedule, now: datetime, *, holds: bool = False) -> datetime | None:
        """Until when a message sent now must have been started; None: whenever. See :mod:`.deadlines`."""
        kind = self._kinds[schedule.kind]
        of_task = self._of_task(kind.task or schedule.target)
        return deadline_of(schedule.options, of_task, kind, self.bounds, now, holds=holds)

    def message(
        self,
        schedule: Schedule,
        key: FireKey,
        *,
        origin: Origin,
        attempt: int = 1,
        deadline: datetime | None = None,
        override: str = "",
        limits: bool = False,
    ) -> Message:
        """The message of one attempt of one fire. Raises what a lazy argument raises, and InvalidSchedule for what it
        may not call.

        :param override: JSON text of ``args`` and ``kwargs`` in place of the schedule's.
        :param limits: the fire holds limits. Its message says so: if all is forgotten, it must ask for them again.

        A fire of kind ``task`` calls ``target`` with the schedule's own arguments; any other kind's task is called
        as ``task(target, method_name=…, prompt=…, target_id=…, tenant=…, **kwargs)``, omitting what is None.
        """
        self._allowed.check(schedule)
        kind = self._kinds[schedule.kind]
        given = json.loads(override) if override else {}
        args, kwargs = self._evaluate(
            tuple(given["args"]) if "args" in given else schedule.args, given.get("kwargs", schedule.kwargs)
        )
        task = schedule.target
        if kind.task is not None:
            task, args = kind.task, (schedule.target, *args)
            kwargs = {**_present(schedule), **kwargs}
        return Message(
            task=task,
            task_id=self._namespace.task_id(key, attempt),
            args=args,
            kwargs=kwargs,
            options=self._options(schedule, kind, task),
            headers=self._headers(schedule, key, origin, attempt, deadline, _held(limits, override)),
        )

    def _options(self, schedule: Schedule, kind: Kind, task: str) -> dict[str, Any]:
        options = _options(schedule, kind)
        return {**options, **time_limits(options, self._of_task(task), kind, self.bounds)}

    def _headers(
        self,
        schedule: Schedule,
        key: FireKey,
        origin: Origin,
        attempt: int,
        deadline: datetime | None,
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        identity = {
            "scheduler": self._namespace.name,
            "schedule_id": key.schedule_id,
            "name": schedule.name,
            "fire_id": self._namespace.fire_id(key),
            "due_at": key.due_at.isoformat(),
            "origin": str(origin),
            "kind": schedule.kind,
            "attempt": attempt,
            "deadline": None if deadline is None else deadline.astimezone(UTC).isoformat(),
            **more,
        }
        if key.nonce:
            identity["nonce"] = key.nonce
        own = {HEADER: identity, "periodic_task_name": schedule.name, "celery_beat_task": True}
        given = schedule.options.get("headers") or {}
        return {**{name: value for name, value in given.items() if name not in CELERYS_HEADERS}, **own}


def _held(limits: bool, override: str) -> Mapping[str, Any]:
    if not limits:
        return {}
    return {"limits": True, "override": override} if override else {"limits": True}


def _present(schedule: Schedule) -> dict[str, Any]:
    fields = {
        "method_name": schedule.method_name,
        "prompt": schedule.prompt,
        "target_id": schedule.target_id,
        "tenant": schedule.tenant,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _options(schedule: Schedule, kind: Kind) -> dict[str, Any]:
    """The schedule's own options first, then the kind's; headers travel apart."""
    defaults = {
        "queue": kind.queue,
        "priority": kind.priority,
        "time_limit": kind.time_limit,
        "soft_time_limit": kind.soft_time_limit,
    }
    own = {name: value for name, value in schedule.options.items() if name != "headers"}
    if own.keys() & {"exchange", "routing_key"}:
        defaults.pop("queue")
    return {**{name: value for name, value in defaults.items() if value is not None}, **own}
