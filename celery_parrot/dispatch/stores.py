"""All stores of one beat as one. A store that fails is reported and left out; the others go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from celery_parrot.clock import Clock
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.protocols import Due, EventSink, Inspecting, Mark, Registration, ScheduleStore

T = TypeVar("T")


class Stores:
    """Asks each store in turn; a schedule lives in exactly one of them."""

    def __init__(self, stores: Sequence[ScheduleStore], emit: EventSink, clock: Clock) -> None:
        self._stores = tuple(stores)
        self._events, self._clock = emit, clock
        self._failing: dict[str, float] = {}

    @property
    def failing(self) -> Mapping[str, float]:
        """For how many seconds each store that could not be asked last time has failed, by its name."""
        now = self._clock.monotonic()
        return {name: now - since for name, since in self._failing.items()}

    def shares(self, name: str) -> bool:
        """Whether the definitions of this store are the same for every beat, and it answered when last asked."""
        return name != "code" and name not in self._failing and any(store.name == name for store in self._stores)

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """What is due in any store, at most ``limit`` of each, earliest first within each."""
        return self._gather(lambda store: store.due(before, kinds, limit), recovers=True)

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> list[Due]:
        """What is due of kinds that are not routed here."""
        return self._gather(lambda store: store.due_elsewhere(before, kinds, limit))

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """The earliest coming sending instant in any store."""
        instants = self._gather(lambda store: [at] if (at := store.next_due(kinds)) is not None else [])
        return min(instants, default=None)

    def definitions(self, schedule_ids: Iterable[str]) -> dict[str, Due]:
        """The current definition of each schedule that some store knows."""
        wanted = list(schedule_ids)
        pairs = self._gather(lambda store: list(store.definitions(wanted).items()))
        return dict(pairs)

    def broken(self, schedule_ids: Iterable[str]) -> set[str]:
        """Those that some store has although :meth:`definitions` leaves them out: they cannot be read or computed."""
        wanted = list(schedule_ids)

        def ask(store: ScheduleStore) -> list[str]:
            if not wanted or not isinstance(store, Inspecting):
                return []
            return [id_ for id_, stored in zip(wanted, store.get(wanted), strict=True) if stored is not None]

        return set(self._gather(ask))

    def registrations(self) -> list[Registration]:
        """Schedules whose mark is not known yet."""
        return self._gather(lambda store: store.registrations())

    def learn(self, marks: Iterable[Mark]) -> None:
        """Hand marks to the stores; each takes those of its own schedules."""
        told = list(marks)
        for store in self._stores:
            store.learn(told)

    def forget_marks(self) -> None:
        """Have every mark asked for again."""
        for store in self._stores:
            store.forget_marks()

    def remembered(self) -> tuple[list[Registration], list[Mark]]:
        """All that the stores remember of marks, for a coordinator that forgot."""
        registrations: list[Registration] = []
        marks: list[Mark] = []
        for store in self._stores:
            some_registrations, some_marks = store.remembered()
            registrations.extend(some_registrations)
            marks.extend(some_marks)
        return registrations, marks

    def _gather(self, ask: Callable[[ScheduleStore], Sequence[T]], *, recovers: bool = False) -> list[T]:
        """:param recovers: an answer shows that the store is back. Not every question reaches its backend."""
        found: list[T] = []
        for store in self._stores:
            try:
                found.extend(ask(store))
            except Exception as exc:  # one store's fault never stops the others
                self.failed(store.name, exc)
            else:
                if recovers:
                    self._recovered(store.name)
        return found

    def failed(self, name: str, exc: Exception) -> None:
        """Note that a store cannot be asked; says so once."""
        if name not in self._failing:
            text = f"store {name} cannot be asked, its schedules wait: {type(exc).__name__}: {exc}"
            self._events.emit(Event(events.STORE_FAILED, logging.ERROR, text, {"store": name}))
            self._failing[name] = self._clock.monotonic()

    def _recovered(self, name: str) -> None:
        if self._failing.pop(name, None) is not None:
            self._events.emit(Event(events.STORE_FAILED, logging.INFO, f"store {name} is back", {"store": name}))
