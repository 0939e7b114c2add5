"""``parrot.schedules``: create, read, change, pause schedules, whatever store they live in."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from celery_parrot.client.applying import Step, carried_out
from celery_parrot.client.catalogue import CODE, Catalogue
from celery_parrot.client.code import CodeDefinitions
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.demands import Demanding
from celery_parrot.client.overview import Overview
from celery_parrot.client.paging import page_of
from celery_parrot.client.rules import Rules
from celery_parrot.client.view import SchedulePage, ScheduleView, trigger_from, view_of
from celery_parrot.clock import Clock, new_id
from celery_parrot.errors import Conflict, InvalidSchedule, ScheduleExists, ScheduleNotFound
from celery_parrot.model.allowed import EVERY_TASK
from celery_parrot.model.fire import FireRecord
from celery_parrot.model.schedule import Schedule
from celery_parrot.planning import trigger_of
from celery_parrot.protocols import Change, DefinitionStore, State, Stored, Written
from celery_parrot.triggers import Trigger

logger = logging.getLogger("celery_parrot")

_TRIES: Final = 5
_SAID_MOST: Final = 10
_CALL: Final = frozenset({"kind", "target", "options"})


class Schedules(Demanding, Overview):
    """Every verb takes a schedule by name or id. Usable in any process, and from several threads.

    :param code: the schedules of this process's code.
    :param stores: the editable stores by name, by precedence; the first takes new schedules unless they say otherwise.
    :param why_none: said where a new schedule has nowhere to go.
    :param coordination: where the beats agree.
    """

    def __init__(
        self,
        *,
        code: CodeDefinitions,
        stores: Mapping[str, DefinitionStore],
        rules: Rules,
        clock: Clock,
        why_none: str = "there is no store for it",
        warn: Callable[[str], None] = logger.warning,
        close: Callable[[], None] = lambda: None,
        coordination: Coordination | None = None,
    ) -> None:
        self._code, self._rules, self._clock, self._warn, self._close = code, rules, clock, warn, close
        self._catalogue = Catalogue(code, dict(stores), why_none)
        self._all = self._catalogue.all
        self._agreed = coordination

    def close(self) -> None:
        """Let go of the connections. They come back when needed."""
        self._close()

    @property
    def stores(self) -> tuple[str, ...]:
        """The names of the stores there are, ``code`` first."""
        return tuple(self._all)

    @property
    def in_code(self) -> list[str]:
        """The names of the code's schedules, without asking anybody."""
        return self._code.names()

    # --- create ---

    def create(self, **fields: Any) -> ScheduleView:
        """Save a new schedule. Its first due time is the first after now.

        :param fields: ``name``, ``target``, ``schedule_type`` and ``schedule_config`` at least; see
            ``docs/schedules.md`` for all. ``schedule_id``, a UUID, where another system has given it one.
        :raises InvalidSchedule: naming the field at fault. :raises ScheduleExists: if any store has that name.
        """
        return self.create_many([fields])[0]

    def create_many(self, many: Iterable[Mapping[str, Any]]) -> tuple[ScheduleView, ...]:
        """Save several; all are checked before the first is written.

        :raises ScheduleExists: as :meth:`create`. Where another program took a name after the check, the others are
            written all the same.
        """
        now = self._clock.now()
        made = [self._new(fields, now) for fields in many]
        names = [schedule.name for schedule in made]
        for name, count in Counter(names).items():
            if count > 1:
                raise InvalidSchedule("name", name, f"is given to {count} schedules")
        self._catalogue.must_be_free(names)
        taken = self._catalogue.insert(made)
        if taken:
            raise ScheduleExists(taken[0].name, taken[0].store)
        self._say([sentence for schedule in made for sentence in self._rules.odd(schedule)])
        found = self._catalogue.views(made)
        return tuple(found[name] for name in names)

    def check(self, **fields: Any) -> Schedule:
        """The schedule that :meth:`create` would save. Nothing is saved, and nobody is asked whether its name is free.

        :raises InvalidSchedule: as :meth:`create`.
        """
        return self._new(fields, self._clock.now())

    def trigger_for(self, *, schedule_id: str = "", **fields: Any) -> Trigger:
        """When a schedule with these fields would be due. Nothing is saved; of the fields, only those that say when
        are needed.

        :param schedule_id: of the schedule that is to be changed: some due times follow from it.
        :raises InvalidSchedule: as :meth:`create`.
        """
        given = {"name": "preview", "target": "preview", **fields}
        now = self._clock.now()
        rules = replace(self._rules, allowed=EVERY_TASK)  # it says when, whatever it would call
        schedule = rules.new(given, CODE, schedule_id or new_id(), now)
        return trigger_of(replace(schedule, created_at=now))

    # --- read ---

    def get(self, name: str) -> ScheduleView:
        """One schedule. Raises ScheduleNotFound with the closest names."""
        store, stored = self._catalogue.locate(name)
        return view_of(stored, store)

    def get_many(self, names: Iterable[str]) -> dict[str, ScheduleView]:
        """Those of these names and ids that there are, by what was asked for; the others are left out."""
        return self._catalogue.named(list(names))

    def find(
        self,
        *,
        kind: str | None = None,
        state: State | str | None = None,
        store: str | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> SchedulePage:
        """Schedules by name, at most ``limit``; the stores look for them, nothing else is loaded.

        :param text: part of the name or target, in any case. :param after: the previous page's ``after``.
        """
        wanted = None if state is None else _state(state)
        if store is not None and store not in self._all:
            raise InvalidSchedule("store", store, f"is none of {', '.join(self._all)}")
        pages = {
            name: one.find(kind=kind, state=wanted, text=text, after=after, limit=limit)
            for name, one in self._all.items()
            if store in (None, name)
        }
        return page_of(pages, limit)

    def next(self, name: str, count: int = 5) -> list[datetime]:
        """The coming due times, UTC, at most ``count``; of a paused schedule, those it would have.

        :raises InvalidSchedule: for a schedule that is broken.
        """
        store, stored = self._catalogue.locate(name)
        trigger = self._trigger(store, stored)
        schedule = stored.schedule
        if schedule is not None and schedule.policy.max_fires is not None:
            count = min(count, schedule.policy.max_fires - stored.run_state.auto_count)
        found: list[datetime] = []
        due_at = trigger.next_after(max(self._clock.now(), stored.run_state.last_due or self._clock.now()))
        while due_at is not None and len(found) < count:
            found.append(due_at)
            due_at = trigger.next_after(due_at)
        return found

    def trigger(self, name: str) -> Trigger:
        """When it is due. Raises as :meth:`next`. For a schedule of the code nobody is asked."""
        if name in self.in_code:
            return self._code.trigger(name)
        return self._trigger(*self._catalogue.locate(name))

    def trigger_of(self, view: ScheduleView) -> Trigger:
        """When a schedule that :meth:`get` or :meth:`find` gave is due; nobody is asked. Raises InvalidSchedule for one
        that is broken."""
        return self._code.trigger(view.name) if view.store == CODE else trigger_from(view)

    def describe(self, view: ScheduleView) -> str | None:
        """When it is due, as a sentence; None for one that is broken."""
        try:
            return self.trigger_of(view).describe()
        except InvalidSchedule:
            return None

    def fires(self, name: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """What became of its due times, newest first, strictly before ``before``. Of a deleted schedule by its id, as
        long as history is kept."""
        try:
            store, stored = self._catalogue.locate(name)
        except ScheduleNotFound:
            for candidate in self._all.values():
                if found := candidate.fires(name, limit=limit, before=before):
                    return found
            raise
        return self._all[store].fires(stored.schedule_id, limit=limit, before=before)

    # --- change ---

    def update(self, name: str, /, version: int | None = None, **fields: Any) -> ScheduleView:
        """Change these fields and no others; ``name`` may be one. A change of *when* or ``enabled`` starts its due
        times anew from now.

        :param version: the version that you read; if it is another now, nothing is written. Without it, your fields
            are put on top of whatever is there.
        :raises Conflict: :raises ScheduleNotFound: :raises InvalidSchedule: :raises ScheduleExists:
        """
        for _ in range(_TRIES):
            store, stored = self._catalogue.locate(name)
            current = stored.schedule.version if stored.schedule is not None else None
            if version is not None and current is not None and version != current:
                raise Conflict(stored.name, version, current)
            schedule = self._rules.changed(stored.schedule, stored.name, fields, store, stored.schedule_id)
            if store != CODE:
                schedule = self._rules.checked(schedule, self._clock.now())
            if schedule.name != stored.name:
                self._catalogue.must_be_free([schedule.name])
            # Without a version given, the one just read: another's change in between must not be undone by ours.
            based_on = version if version is not None else current
            ((written, now_at),) = self._all[store].replace([Change(schedule=schedule, version=based_on)])
            if written is Written.DONE:
                if _CALL & fields.keys():
                    self._say(self._rules.odd(schedule))
                return self._catalogue.again(store, stored.schedule_id)
            if written is Written.EXISTS:
                raise ScheduleExists(schedule.name, store)
            if written is Written.CONFLICT and version is not None:
                raise Conflict(stored.name, version, now_at)
        raise Conflict(name, current or 0)

    def delete(self, name: str, version: int | None = None) -> None:
        """Remove it. What it sent goes on, and its history stays until retention."""
        store, stored = self._catalogue.locate(name)
        self._done(self._all[store].delete([stored.schedule_id], version), stored, version)

    def pause(self, name: str, note: str = "", actor: str = "", version: int | None = None) -> ScheduleView:
        """Stop it until :meth:`resume`. Schedules of the code too; that outlives restarts and deployments.

        :param note: why. :param actor: who does this; both are shown wherever the schedule is.
        """
        store, stored = self._catalogue.locate(name)
        text = f"{actor}: {note}" if actor and note else note or actor
        self._done(self._all[store].hold([stored.schedule_id], "person", text, version), stored, version)
        return self._catalogue.again(store, stored.schedule_id)

    def resume(self, name: str, version: int | None = None) -> ScheduleView:
        """Let it run again, from now on: what became due meanwhile is one ``skipped(paused)`` entry. Also of one that
        failures disabled; the failure count starts anew."""
        store, stored = self._catalogue.locate(name)
        self._done(self._all[store].release([stored.schedule_id], version), stored, version)
        return self._catalogue.again(store, stored.schedule_id)

    def carry_out(self, step: Step) -> Step:
        """Do what a step of :meth:`compare` says, unless somebody changed that schedule meanwhile; the step as it came
        out: ``refused`` with its ``error`` where it could not be done. Raises Unreachable."""
        return carried_out(self, step)

    # --- inside ---

    def _new(self, fields: Mapping[str, Any], now: datetime) -> Schedule:
        given = dict(fields)
        schedule_id = given.pop("schedule_id", None) or new_id()
        try:
            schedule_id = str(uuid.UUID(str(schedule_id)))
        except ValueError:
            raise InvalidSchedule("schedule_id", schedule_id, "must be a UUID") from None
        return self._rules.new(given, self._catalogue.store_for(given.get("store")), schedule_id, now)

    def _trigger(self, store: str, stored: Stored) -> Trigger:
        if store == CODE:
            return self._code.trigger(stored.schedule_id)
        if stored.schedule is None:
            raise InvalidSchedule("definition", stored.name, f"is broken: {stored.broken_reason}")
        try:
            return trigger_of(stored.schedule)
        except InvalidSchedule as exc:
            raise InvalidSchedule("definition", stored.name, f"is broken: {exc}") from None

    def _say(self, sentences: Sequence[str]) -> None:
        for sentence in sentences[:_SAID_MOST]:
            self._warn(sentence)
        if len(sentences) > _SAID_MOST:
            self._warn(f"and {len(sentences) - _SAID_MOST} more like these")

    @staticmethod
    def _done(written: Sequence[Written], stored: Stored, version: int | None) -> None:
        (what,) = written
        if what is Written.CONFLICT:
            current = stored.schedule.version if stored.schedule is not None else None
            raise Conflict(stored.name, version or 0, current)
        if what is not Written.DONE:
            raise ScheduleNotFound(stored.name)


def _state(value: State | str) -> State:
    try:
        return State(value)
    except ValueError:
        raise InvalidSchedule("state", value, f"must be one of {', '.join(State)}") from None
