"""Code schedules: from ``beat_schedule`` and the decorator to definitions. One bad entry never stops the others."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab

from celery_parrot.errors import ConfigurationError, InvalidSchedule
from celery_parrot.model.schedule import TASK_KIND, Schedule
from celery_parrot.runtime.conf_source import closest
from celery_parrot.runtime.config import DEFAULT_GRACE, Settings
from celery_parrot.runtime.delivery import callbacks_of
from celery_parrot.runtime.entry_fields import KEYS, policy_of, refuse_unknown, text_of, told
from celery_parrot.runtime.entry_when import When, bind, when_of
from celery_parrot.runtime.stopping import contained
from celery_parrot.stores.memory import Definition, fingerprint

logger = logging.getLogger("celery_parrot")

CLEANUP = "celery.backend_cleanup"


@dataclass(frozen=True, slots=True)
class Source:
    """One schedule as somebody wrote it.

    :ivar where: for messages, e.g. ``beat_schedule``.
    :ivar entry: Celery's dictionary with our own keys besides, or a ``ScheduleEntry``.
    """

    name: str
    entry: object
    where: str = "beat_schedule"


@dataclass(frozen=True, slots=True)
class Collected:
    """:ivar definitions: one a name, broken ones included.
    :ivar warnings: what is odd but works, one sentence each.
    """

    definitions: tuple[Definition, ...] = ()
    warnings: tuple[str, ...] = field(default=())

    def graces(self) -> Mapping[str, float | None]:
        """``misfire_grace`` of each that can run, by name."""
        return {
            found.schedule.name: found.schedule.policy.misfire_grace
            for found in self.definitions
            if found.trigger is not None
        }


def sources(app: Celery, decorated: Iterable[Source] = ()) -> tuple[Source, ...]:
    """Everything that ``app`` schedules in code: ``beat_schedule`` (where ``add_periodic_task`` puts its own),
    ``decorated``, and Celery's default entries under Celery's conditions."""
    found = [Source(str(name), entry) for name, entry in (app.conf.beat_schedule or {}).items()]
    found.extend(decorated)
    if all(source.name != CLEANUP for source in found) and _needs_cleanup(app):
        entry = {"task": CLEANUP, "schedule": crontab("0", "4", "*"), "options": {"expires": 12 * 3600}}
        found.append(Source(CLEANUP, entry, "Celery's default entries"))
    return tuple(found)


def collect(app: Celery, found: Iterable[Source], settings: Settings, *, started: datetime) -> Collected:
    """A definition for each source.

    An entry that cannot be read becomes a broken definition with its reason. A name that is used twice keeps the first.

    :param started: when this process started; what one-shot schedules without an instant of their own count from.
    :raises ConfigurationError: for a limit on an entry that no coordinator would keep: it is not accepted silently.
    """
    definitions: dict[str, Definition] = {}
    warnings: list[str] = []
    for source in found:
        if source.name in definitions:
            warnings.append(f"{source.where}: the name {source.name!r} is taken already; this one is left out")
            continue
        try:
            definition, odd = _definition(app, source, settings, started)
            warnings.extend(odd)
        except ConfigurationError:
            raise
        except InvalidSchedule as exc:
            definition = _broken(source, str(exc))
        except Exception as exc:  # a schedule object is code of the user's
            definition = _broken(source, f"{type(exc).__name__}: {exc}")
        definitions[source.name] = definition
    return Collected(tuple(definitions.values()), tuple(warnings))


def evaluate(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    """Celery's lazy arguments (``BeatLazyFunc``) as values, called now."""
    return tuple(_value(arg) for arg in args), {key: _value(value) for key, value in kwargs.items()}


def _value(argument: Any) -> Any:
    return contained(argument) if isinstance(argument, BeatLazyFunc) else argument


def _needs_cleanup(app: Celery) -> bool:
    try:
        return bool(app.conf.result_expires) and not app.backend.supports_autoexpire
    except Exception as exc:  # a result backend that cannot be loaded is no reason to send nothing
        logger.warning("cannot tell whether the result backend needs %s: %s", CLEANUP, type(exc).__name__)
        return False


def _definition(
    app: Celery, source: Source, settings: Settings, started: datetime
) -> tuple[Definition, tuple[str, ...]]:
    fields = _fields(source.entry)
    _refuse_unwritable(source.name)
    refuse_unknown(fields)
    bind(fields.get("schedule"), app)
    kind = text_of(fields, "kind") or TASK_KIND
    zone = text_of(fields, "timezone") or app.timezone
    when = when_of(fields, source.name, zone, started)
    policy = policy_of(fields, when.zone, _default_grace(settings, kind), settings.coordination, source.name)
    enabled = fields.get("enabled", True)
    if not isinstance(enabled, bool):
        raise InvalidSchedule("enabled", enabled, "is neither true nor false")
    schedule = Schedule(
        schedule_id=source.name,
        name=source.name,
        target=_target(fields),
        schedule_type=when.schedule_type,
        schedule_config=when.config,
        kind=kind,
        method_name=text_of(fields, "method_name"),
        prompt=text_of(fields, "prompt"),
        target_id=text_of(fields, "target_id"),
        tenant=text_of(fields, "tenant"),
        args=_args(fields),
        kwargs=_mapping(fields, "kwargs"),
        options=_mapping(fields, "options"),
        timezone=when.zone,
        enabled=enabled,
        policy=policy,
        **told(fields, callbacks_of(app)),
        created_at=started,
    )
    settings.allowed_tasks.check(schedule)
    definition = Definition(
        schedule=schedule,
        trigger=when.bounded(policy.start_at, policy.end_at),
        anchored=when.anchored_within(policy.start_at, policy.end_at),
        when=_fingerprint(when, schedule),
        initial=when.initial(policy.start_at, policy.end_at),
    )
    return definition, _odd(source, schedule, settings, when)


def _refuse_unwritable(name: str) -> None:
    """Half a surrogate pair is text to Python only: no key, id or message could carry the name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidSchedule("name", name, "cannot be written as UTF-8") from None


def _fingerprint(when: When, schedule: Schedule) -> str:
    return fingerprint(
        *when.identity,
        timezone=when.zone,
        start_at=schedule.policy.start_at,
        end_at=schedule.policy.end_at,
        enabled=schedule.enabled,
    )


def _fields(entry: object) -> dict[str, Any]:
    if isinstance(entry, ScheduleEntry):
        return {key: getattr(entry, key) for key in ("task", "schedule", "args", "kwargs", "options")}
    if not isinstance(entry, Mapping):
        raise InvalidSchedule("entry", type(entry).__name__, "must be a dictionary with a task and a schedule")
    return {str(key): value for key, value in entry.items()}


def _target(fields: Mapping[str, Any]) -> str:
    task, target = fields.get("task"), fields.get("target")
    if task is not None and target is not None and task != target:
        raise InvalidSchedule("target", target, f"is given twice: task says {task!r}")
    found = target if task is None else task
    name = getattr(found, "name", found)  # a task object instead of its name
    if not isinstance(name, str) or not name:
        raise InvalidSchedule("task", found, "must be the name of a task")
    return name


def _args(fields: Mapping[str, Any]) -> tuple[Any, ...]:
    value = fields.get("args") or ()
    if not isinstance(value, list | tuple):
        raise InvalidSchedule("args", type(value).__name__, "must be a list or tuple")
    return tuple(value)


def _mapping(fields: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = fields.get(key) or {}
    if not isinstance(value, Mapping):
        raise InvalidSchedule(key, type(value).__name__, "must be a dictionary")
    return copy.copy(dict(value))


def _default_grace(settings: Settings, kind: str) -> float:
    declared = settings.kinds.get(kind)
    grace = None if declared is None else declared.misfire_grace
    return DEFAULT_GRACE if grace is None else grace


def _odd(source: Source, schedule: Schedule, settings: Settings, when: When) -> tuple[str, ...]:
    found: list[str] = []
    if schedule.kind != TASK_KIND and schedule.kind not in settings.kinds:
        found.append(
            f"{schedule.name}: kind {schedule.kind!r} is not in parrot_kinds; "
            f"this beat leaves it to beats that route it. {closest(schedule.kind, settings.kinds)}".rstrip()
        )
    if when.from_start:
        found.append(
            f"{schedule.name}: {schedule.schedule_type} without an instant of its own counts from each "
            "process's start, so beats will differ; give it one"
        )
    ignored = sorted({"task_id", "producer", "publisher", "connection", "retry"} & schedule.options.keys())
    if ignored:
        found.append(f"{schedule.name}: options {', '.join(ignored)} have no effect; the fire decides them")
    return tuple(found)


def _broken(source: Source, reason: str) -> Definition:
    """What can be shown of an entry that cannot be read."""
    entry = source.entry if isinstance(source.entry, Mapping) else vars(source.entry) if _has_vars(source) else {}
    target = entry.get("task") or entry.get("target") or "?"
    kind = entry.get("kind")
    schedule = Schedule(
        schedule_id=source.name,
        name=source.name,
        target=str(target),
        schedule_type="broken",
        schedule_config={},
        kind=kind if isinstance(kind, str) else TASK_KIND,
    )
    return Definition(schedule=schedule, broken=reason)


def _has_vars(source: Source) -> bool:
    return hasattr(source.entry, "__dict__")


__all__ = ["CLEANUP", "KEYS", "Collected", "Source", "collect", "evaluate", "sources"]
