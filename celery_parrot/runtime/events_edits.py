"""Changes that people make become ``schedule-changed``: an editable store that says what was done through it."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import Change, EventSink, Stored, Written

_NAMES: Final = 1000


class Telling:
    """A :class:`~celery_parrot.protocols.DefinitionStore` around another. Everything else is the other's.

    What another program writes into the table or the hash is not told: only those who write know that they did.
    """

    def __init__(self, store: Any, sink: EventSink) -> None:
        self._store, self._sink = store, sink
        self._names: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """As the store's. What was looked up is what will be changed."""
        found: Sequence[Stored | None] = self._store.get(names_or_ids)
        for stored in found:
            if stored is not None:
                self._note(stored.schedule_id, stored.name, "" if stored.schedule is None else stored.schedule.kind)
        return found

    def insert(self, schedules: Sequence[Schedule]) -> Sequence[Written]:
        """As the store's."""
        done: Sequence[Written] = self._store.insert(schedules)
        for schedule, written in zip(schedules, done, strict=True):
            if written is Written.DONE:
                self._note(schedule.schedule_id, schedule.name, schedule.kind)
                self._say("created", schedule.schedule_id, schedule.version)
        return done

    def replace(self, changes: Sequence[Change]) -> Sequence[tuple[Written, int]]:
        """As the store's."""
        done: Sequence[tuple[Written, int]] = self._store.replace(changes)
        for change, (written, version) in zip(changes, done, strict=True):
            if written is Written.DONE:
                schedule = change.schedule
                self._note(schedule.schedule_id, schedule.name, schedule.kind)
                self._say("updated", schedule.schedule_id, version)
        return done

    def delete(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """As the store's."""
        return self._said("deleted", schedule_ids, self._store.delete(schedule_ids, version))

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None = None) -> Sequence[Written]:
        """As the store's."""
        return self._said("paused", schedule_ids, self._store.hold(schedule_ids, by, note, version))

    def release(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """As the store's."""
        return self._said("resumed", schedule_ids, self._store.release(schedule_ids, version))

    # --- inside ---

    def _said(self, change: str, schedule_ids: Sequence[str], done: Sequence[Written]) -> Sequence[Written]:
        for schedule_id, written in zip(schedule_ids, done, strict=True):
            if written is Written.DONE:
                self._say(change, schedule_id)
        return done

    def _say(self, change: str, schedule_id: str, version: int | None = None) -> None:
        name, kind = self._names.get(schedule_id, (schedule_id, ""))
        fields = {"schedule": name, "schedule_id": schedule_id, "store": self._store.name, "change": change}
        fields |= {"kind": kind} if kind else {}
        more = {} if version is None else {"version": version}
        self._sink.emit(Event(events.SCHEDULE_CHANGED, logging.INFO, f"{name}: {change}", {**fields, **more}))

    def _note(self, schedule_id: str, name: str, kind: str) -> None:
        self._names[schedule_id] = (name, kind)
        while len(self._names) > _NAMES:
            with suppress(KeyError):  # another thread's was it
                self._names.popitem(last=False)
