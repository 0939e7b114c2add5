"""Limits as people see them: who holds each, and the line behind it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Final

from celery_parrot.errors import GroupNotFound, ParrotError
from celery_parrot.model.fire import Fire, Namespace, Status
from celery_parrot.protocols import Coordinator, Limits, LimitState

_GROUP: Final = "group:"
_STATES: Final = {Status.RUNNING: "running", Status.WAITING: "waiting", Status.PENDING: "waiting to be sent"}


@dataclass(frozen=True, slots=True, kw_only=True)
class InLine:
    """A fire that holds a limit or stands in line for it.

    :ivar task_id: of its newest message, under which Celery knows it; of one that is not sent yet, what it will be.
    :ivar state: ``running``, ``queued`` (holds it, no worker has started it yet), ``waiting to be sent``
        (holds it, and no beat has sent it yet) or ``waiting``.
    :ivar since: from when on it holds it, or waits, UTC. ``until``: of one that waits, when it gives up; None: never.
    """

    fire_id: str
    schedule_id: str
    name: str
    kind: str
    due_at: datetime
    state: str
    since: datetime | None = None
    until: datetime | None = None
    worker: str = ""
    attempt: int = 1
    task_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One limit that somebody holds or waits for.

    :ivar limit: its whole name: ``group:gpu``, ``kind:report``, ``schedule:ID`` or ``slots``. ``name``: of an exclusion
        group its own name, else the same.
    :ivar holders: oldest first. ``waiting``: the line, first comes first.
    """

    name: str
    limit: str
    capacity: int
    holders: tuple[InLine, ...] = ()
    waiting: tuple[InLine, ...] = ()


class Groups:
    """:param coordinator: which keeps the limits."""

    def __init__(self, coordinator: Coordinator, namespace: Namespace) -> None:
        self._coordinator, self._namespace = coordinator, namespace

    def all(self) -> tuple[Group, ...]:
        """By name. None where the coordinator keeps no limits: then nobody can hold one."""
        if not isinstance(self._coordinator, Limits):
            return ()
        return tuple(self._group(state) for state in self._coordinator.limits())

    def named(self, name: str) -> Group:
        """The group or limit of this name. Raises GroupNotFound with the closest names."""
        return self._group(self._state(name))

    def holder(self, name: str, fire_id: str | None = None) -> InLine:
        """The fire that holds it, or that of several which has this id. Raises ParrotError."""
        return self._in_line(*self._holder(self._state(name), fire_id))

    def release(self, name: str, fire_id: str | None, reason: str) -> InLine:
        """End a fire that holds it; see ``Schedules.release_group``."""
        fire, state, since = self._holder(self._state(name), fire_id)
        (ended,) = self._limits.free([fire.key], reason)
        if ended is None:
            raise ParrotError(f"the fire of {fire.name!r} that held {name!r} has ended meanwhile")
        return self._in_line(fire, state, since)

    @property
    def _limits(self) -> Limits:
        if not isinstance(self._coordinator, Limits):
            raise ParrotError("this coordinator keeps no limits, so there is nothing to release")
        return self._coordinator

    def _state(self, name: str) -> LimitState:
        states = self._limits.limits()
        for state in states:
            if name in (state.name, state.name.removeprefix(_GROUP)):
                return state
        close = get_close_matches(name, [state.name.removeprefix(_GROUP) for state in states], n=3)
        raise GroupNotFound(name, tuple(close))

    def _holder(self, state: LimitState, fire_id: str | None) -> tuple[Fire, str, datetime | None]:
        name = state.name.removeprefix(_GROUP)
        if not state.holders:
            raise ParrotError(f"nobody holds {name!r}")
        ids = {self._namespace.fire_id(one.fire.key): one for one in state.holders}
        if fire_id is None and len(ids) > 1:
            known = ", ".join(f"{id_} ({one.fire.name})" for id_, one in ids.items())
            raise ParrotError(f"{len(ids)} fires hold {name!r}; say which: {known}")
        if fire_id is not None and fire_id not in ids:
            raise ParrotError(f"fire {fire_id!r} does not hold {name!r}; there is {', '.join(ids)}")
        one = ids[fire_id] if fire_id is not None else state.holders[0]
        return one.fire, _held(one.fire), one.since

    def _group(self, state: LimitState) -> Group:
        return Group(
            name=state.name.removeprefix(_GROUP),
            limit=state.name,
            capacity=state.capacity,
            holders=tuple(self._in_line(one.fire, _held(one.fire), one.since) for one in state.holders),
            waiting=tuple(self._in_line(one.fire, "waiting", one.since, one.until) for one in state.waiting),
        )

    def _in_line(self, fire: Fire, state: str, since: datetime | None, until: datetime | None = None) -> InLine:
        return InLine(
            fire_id=self._namespace.fire_id(fire.key),
            schedule_id=fire.key.schedule_id,
            name=fire.name,
            kind=fire.kind,
            due_at=fire.key.due_at,
            state=state,
            since=since,
            until=until,
            worker=fire.worker if fire.status is Status.RUNNING else "",
            attempt=fire.attempt,
            task_id=self._namespace.task_id(fire.key, fire.sent_as),
        )


def _held(fire: Fire) -> str:
    """A waiting fire holds what it got before it met the limit that it waits for."""
    return _STATES.get(fire.status, "queued")
