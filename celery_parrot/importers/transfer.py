"""What becomes of each entry of a source: judged by the client's rules, shown, and only then written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from celery_parrot.client import Schedules
from celery_parrot.client.view import ScheduleView
from celery_parrot.errors import InvalidSchedule, ParrotError, ScheduleExists
from celery_parrot.importers.items import Found, Item
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import trigger_of

CODE: Final = "code"
ACTOR: Final = "import"
_SHOWN: Final = 3
_AT_ONCE: Final = 200
_DROPPABLE: Final = ("overlap", "send_result", "callbacks")
"""What a schedule is better imported without than not at all, where this release refuses to keep it."""
_NOT_COMPARED: Final = frozenset({"name", "store", "enabled"})
_BEGINNING: Final = datetime.min.replace(tzinfo=UTC)

Carry = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], None]


class Action(StrEnum):
    """What becomes of an entry."""

    CREATE = "create"
    EXISTS = "exists"  # and is left as it is
    UPDATE = "update"
    OVER = "over"  # nothing of it is still to come
    CANNOT = "cannot"  # has no counterpart here
    FAILED = "failed"  # refused while it was written


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One entry and what becomes of it.

    :ivar next: its coming due times here. :ivar differs: the fields in which an existing one is otherwise.
    :ivar version: of the existing one.
    """

    item: Item
    action: Action
    name: str
    store: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    next: tuple[datetime, ...] = ()
    notes: tuple[str, ...] = ()
    reason: str = ""
    fix: str = ""
    differs: tuple[str, ...] = ()
    version: int | None = None


def plan(
    found: Found, client: Schedules, now: datetime, *, store: str | None = None, prefix: str = "", update: bool = False
) -> list[Step]:
    """What an import would do, in the order of the source. Nothing is written.

    :param store: where new schedules go; None: the client's first. :param prefix: put before every name.
    :param update: whether existing ones take the source's fields.
    """
    names = [prefix + str((item.fields or {}).get("name", item.source_name)) for item in found.items]
    there = client.get_many({*names, *(item.schedule_id for item in found.items if item.schedule_id)})
    steps: list[Step] = []
    taken: set[str] = set()
    for item, name in zip(found.items, names, strict=True):
        step = _judged(item, name, client, now, item.store or store)
        existing = there.get(name) or there.get(item.schedule_id or "")
        if step.action is Action.CREATE and existing is not None:
            step = _beside(step, existing, update)
        elif step.action is Action.CREATE and name in taken:
            step = replace(step, action=Action.CANNOT, reason="the source has two of this name", fix="Rename one there")
        taken.add(name)
        steps.append(step)
    return steps


def carry_out(steps: Sequence[Step], client: Schedules, carry: Carry | None = None) -> list[Step]:
    """Do it: each step as it came out. One that is refused does not stop the others.

    :param carry: writes the run state that entries bring along, where the store is SQL.
    :raises Unreachable: if a store cannot be asked; run it again later, what is there is not made twice.
    """
    done = list(steps)
    wanted = [index for index, step in enumerate(done) if step.action is Action.CREATE]
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        for index, step in zip(some, _created([done[index] for index in some], client, carry), strict=True):
            done[index] = step
    for index, step in enumerate(done):
        if step.action is Action.UPDATE:
            done[index] = _updated(step, client)
    return done


# --- judging -------------------------------------------------------------------------------------------------------


def _judged(item: Item, name: str, client: Schedules, now: datetime, store: str | None) -> Step:
    if item.fields is None:
        return Step(item=item, action=Action.CANNOT, name=name, reason=item.reason, fix=item.fix)
    fields: dict[str, Any] = {**item.fields, "name": name, "enabled": item.paused is None}
    if store is not None:
        fields["store"] = store
    if item.schedule_id is not None:
        fields["schedule_id"] = item.schedule_id
    try:
        schedule, fields, notes = _checked(fields, client)
    except InvalidSchedule as error:
        fix = "Correct it in the source, or create it by hand: parrot create"
        return Step(item=item, action=Action.CANNOT, name=name, reason=str(error), fix=fix)
    upcoming = _next(schedule, now)
    made = Step(
        item=item, action=Action.CREATE, name=name, store=schedule.store, fields=fields, next=upcoming,
        notes=(*item.notes, *notes),
    )  # fmt: skip
    if upcoming:
        return made
    last = trigger_of(replace(schedule, created_at=now)).latest_at(now)
    reason = "nothing more will come" if last is None else f"it was due for the last time at {last.isoformat()}"
    return replace(made, action=Action.OVER, reason=f"{reason}; it is not run after the event", fix="")


def _checked(fields: dict[str, Any], client: Schedules) -> tuple[Schedule, dict[str, Any], list[str]]:
    """By the client's rules, without what this release does not keep. Raises InvalidSchedule."""
    notes: list[str] = []
    while True:
        try:
            return client.check(**fields), fields, notes
        except InvalidSchedule as error:
            dropped = error.field.partition(".")[0].partition("[")[0]
            if dropped not in _DROPPABLE or dropped not in fields:
                raise
            notes.append(f"{dropped} is not kept: {error.reason}")
            fields = {key: value for key, value in fields.items() if key != dropped}


def _next(schedule: Schedule, now: datetime) -> tuple[datetime, ...]:
    trigger = trigger_of(replace(schedule, created_at=now))
    most = min(_SHOWN, schedule.policy.max_fires or _SHOWN)
    found: list[datetime] = []
    due_at = trigger.next_after(now)
    while due_at is not None and len(found) < most:
        found.append(due_at)
        due_at = trigger.next_after(due_at)
    return tuple(found)


def _beside(step: Step, there: ScheduleView, update: bool) -> Step:
    """What becomes of an entry whose name or id is taken."""
    differs = tuple(_differing(step, there))
    told = replace(step, store=there.store, name=there.name, differs=differs, version=there.version)
    if there.store == CODE:
        return replace(told, action=Action.EXISTS, reason="it is in this app's code", fix="Change it there")
    if not differs:
        return replace(told, action=Action.EXISTS, reason="it is the same")
    if update:
        return replace(told, action=Action.UPDATE)
    return replace(
        told,
        action=Action.EXISTS,
        reason=f"it differs in {', '.join(differs)}",
        fix="Overwrite it with --update, or import under another name with --prefix",
    )


def _differing(step: Step, there: ScheduleView) -> Iterable[str]:
    for name, value in step.fields.items():
        if name in _NOT_COMPARED or name == "schedule_id":
            continue
        if _comparable(getattr(there, name, None)) != _comparable(value):
            yield name


def _comparable(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, list | tuple):
        return [_comparable(each) for each in value]
    if isinstance(value, Mapping):
        return {key: _comparable(each) for key, each in value.items()}
    return str(value) if isinstance(value, StrEnum) else value


# --- writing -------------------------------------------------------------------------------------------------------


def _created(steps: list[Step], client: Schedules, carry: Carry | None) -> list[Step]:
    try:
        made = list(client.create_many([step.fields for step in steps]))
    except (InvalidSchedule, ScheduleExists):
        # Somebody took a name since: each by itself, so that the others are made.
        if len(steps) == 1:
            raise
        return [_alone(step, client, carry) for step in steps]
    _finish(steps, made, client, carry)
    return steps


def _alone(step: Step, client: Schedules, carry: Carry | None) -> Step:
    try:
        return _created([step], client, carry)[0]
    except (InvalidSchedule, ScheduleExists) as error:
        return replace(step, action=Action.FAILED, reason=str(error), fix="Run the import again")


def _finish(steps: list[Step], made: list[ScheduleView], client: Schedules, carry: Carry | None) -> None:
    """They were created disabled, so nothing was due meanwhile; now they say why."""
    for step, view in zip(steps, made, strict=True):
        if step.item.paused is not None:
            client.pause(view.schedule_id, note=step.item.paused, actor=ACTOR)
    past = [
        (view.schedule_id, step.item.past)
        for step, view in zip(steps, made, strict=True)
        if view.store == "db" and any(value is not None for value in step.item.past.values())
    ]
    if carry is not None and past:
        carry(past)


def _updated(step: Step, client: Schedules) -> Step:
    changed = {name: step.fields[name] for name in step.differs}
    try:
        client.update(step.name, version=step.version, **changed)
    except ParrotError as error:
        return replace(step, action=Action.FAILED, reason=str(error), fix="Run the import again")
    return step
