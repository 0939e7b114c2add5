"""Fires that a person asks for: run-now, and the base of ``parrot.schedules`` that has it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Event
from typing import Any, Final, TypeVar

from celery_parrot.client.backfill import Backfill, Backfilling, Progress
from celery_parrot.client.catalogue import Catalogue
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.rules import MOST_CHARACTERS, Rules
from celery_parrot.clock import Clock, new_id
from celery_parrot.errors import (
    AlreadyRunning,
    Conflict,
    InvalidSchedule,
    MemoryLost,
    ParrotError,
    Unreachable,
)
from celery_parrot.model.fire import FireKey, Origin
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Demand, DemandReply, Demands, DemandVerdict, State, Stored
from celery_parrot.triggers import Trigger

_LONGEST_KEY: Final = 255

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A fire that was asked for, on its way.

    :ivar due_at: the instant of the request, by the coordinator's clock, UTC.
    :ivar again: it had been asked for before with the same key; nothing new was done.
    """

    fire_id: str
    schedule_id: str
    name: str
    due_at: datetime
    again: bool = False


class Demanding:
    """Base of :class:`~celery_parrot.client.Schedules`, which sets these."""

    _catalogue: Catalogue
    _rules: Rules
    _clock: Clock
    _agreed: Coordination | None
    trigger: Callable[[str], Trigger]

    def run_now(
        self,
        name: str,
        *,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        key: str | None = None,
        version: int | None = None,
    ) -> Asked:
        """Have it run once, now, whatever its due times; paused, disabled and completed ones too. Moves no due time and
        counts for no ``max_fires``. What it must hold to run (its group, slots, …) it waits for as any fire.

        :param args: in place of the schedule's. ``kwargs``: likewise. Either alone leaves the other the schedule's.
        :param key: an idempotency key: asked again with it, the same fire is answered, whatever became of it, as long
            as its history is kept.
        :param version: refuse if the definition has another by now.
        :raises AlreadyRunning: while one that was asked for before is on its way. :raises ScheduleNotFound:
        :raises InvalidSchedule: for arguments that are none, or a schedule that is broken. :raises Conflict:
        :raises Unreachable: if the coordinator cannot be asked; with a ``key`` it is safe to ask again.
        """
        store, stored = self._catalogue.locate(name)
        schedule = self._runnable(stored)
        if version is not None and version != schedule.version:
            raise Conflict(stored.name, version, schedule.version)
        agreed, demands = self._asked_of()
        fire = FireKey(schedule.schedule_id, _again(agreed, agreed.now), _nonce(key))
        demand = Demand(
            key=fire,
            name=schedule.name,
            kind=schedule.kind,
            origin=Origin.RUN_NOW,
            store=store,
            recover=schedule.policy.recover,
            tells=tuple(sorted(schedule.tells)),
            guard=agreed.guard,
            override=self._override(schedule, store, args, kwargs),
        )
        (reply,) = _again(agreed, lambda: demands.demand([demand]))  # the same fire: asking twice is harmless
        return self._told(agreed, schedule, reply)

    def backfill(
        self,
        name: str,
        start: datetime | str,
        end: datetime | str | None = None,
        *,
        dry_run: bool = False,
        max_active: int = 1,
        reverse: bool = False,
        force: bool = False,
        progress: Progress | None = None,
        stop: Event | None = None,
    ) -> Backfill:
        """Fire each due time from ``start`` to ``end``, both included, that has not fired: those that were missed or
        skipped, and those that nobody ever decided. Jitter is left out; paused schedules are filled, too. Returns when
        all have ended, or it is stopped, which Ctrl-C does, too: what was asked for goes on, and asking again goes on
        where it stopped.

        :param start: an instant, or ISO 8601; a naive one is in the schedule's zone. ``end``: likewise; a day alone
            means all of it. Left out, or later than the latest due time that is decided: that one. What comes after is
            the schedule's own.
        :param dry_run: only find out which would fire.
        :param max_active: at most so many of them are on their way at once.
        :param reverse: the latest first.
        :param force: also what is older than the history that is kept, of which nobody knows whether it has fired.
        :param progress: called with how far it has come, whenever that changes. :param stop: once it is set, no more
            are asked for, and how far it has come is returned.
        :raises InvalidSchedule: for a stretch that is none, is too long, or older than the history.
        :raises ScheduleNotFound: :raises Unreachable: if the coordinator stays out of reach.
        """
        store, stored = self._catalogue.locate(name)
        schedule = self._runnable(stored)
        agreed, demands = self._asked_of()
        return Backfilling(
            store=self._catalogue.all[store],
            schedule=schedule,
            trigger=self.trigger(stored.name),
            coordinator=agreed.coordinator,
            demands=demands,
            clock=self._clock,
            namespace=agreed.namespace,
        ).run(
            start,
            end,
            mark=stored.run_state.last_due,
            dry_run=dry_run,
            max_active=max_active,
            reverse=reverse,
            force=force,
            progress=progress or (lambda _: None),
            stop=stop or Event(),
        )

    # --- inside ---

    def _runnable(self, stored: Stored) -> Schedule:
        """Its definition. Raises InvalidSchedule for one that no beat could send."""
        if stored.schedule is not None:
            self._rules.allowed.check(stored.schedule)
        if stored.schedule is None or stored.state is State.BROKEN:
            raise InvalidSchedule("definition", stored.name, f"is broken: {stored.broken_reason}")
        return stored.schedule

    def _asked_of(self) -> tuple[Coordination, Demands]:
        if self._agreed is None:
            raise ParrotError("this client was made without a coordinator")
        coordinator = self._agreed.coordinator
        if not isinstance(coordinator, Demands):
            raise ParrotError("this coordinator takes no fires that a person asks for")
        return self._agreed, coordinator

    def _override(
        self, schedule: Schedule, store: str, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
    ) -> Mapping[str, Any] | None:
        given = {name: value for name, value in (("args", args), ("kwargs", kwargs)) if value is not None}
        if not given:
            return None
        self._rules.changed(schedule, schedule.name, given, store, schedule.schedule_id)
        for name, value in given.items():
            try:
                size = len(json.dumps(value, allow_nan=False))
            except (TypeError, ValueError, RecursionError) as exc:
                raise InvalidSchedule(name, "…", f"is not JSON: {exc}") from None
            if size > MOST_CHARACTERS:
                raise InvalidSchedule(name, "…", f"has {size} characters; at most {MOST_CHARACTERS} are sent")
        return {name: list(value) if name == "args" else dict(value) for name, value in given.items()}

    @staticmethod
    def _told(agreed: Coordination, schedule: Schedule, reply: DemandReply) -> Asked:
        if reply.verdict is DemandVerdict.RUNNING:
            raise AlreadyRunning(schedule.name, reply.held_by, reply.since)
        if reply.verdict is not DemandVerdict.ASKED or reply.key is None:
            lease = agreed.coordinator.timing.lease
            raise Unreachable(
                f"{agreed.where} has just lost its memory and takes nothing before beats and workers have told what "
                f"they know: ask again in {lease:g} s"
            )
        return Asked(
            fire_id=agreed.namespace.fire_id(reply.key),
            schedule_id=reply.key.schedule_id,
            name=schedule.name,
            due_at=reply.key.due_at,
            again=reply.again,
        )


def _nonce(key: str | None) -> str:
    if key is None:
        return new_id()
    if not 0 < len(key) <= _LONGEST_KEY:
        raise InvalidSchedule("key", key, f"must be a text of 1 to {_LONGEST_KEY} characters")
    return "k" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:40]


def _again(agreed: Coordination, call: Callable[[], T]) -> T:
    """Once more if it forgot, or if the answer was lost."""
    try:
        return call()
    except MemoryLost:
        agreed.coordinator.attach()
        return call()
    except Unreachable:
        return call()
