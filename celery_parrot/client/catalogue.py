"""All stores of one client as one: a name is looked for in each, by precedence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from celery_parrot.client.closest import closest_names
from celery_parrot.client.code import CodeDefinitions
from celery_parrot.client.view import ScheduleView, view_of
from celery_parrot.errors import InvalidSchedule, ParrotError, ScheduleExists, ScheduleNotFound
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import DefinitionStore, Stored, Written

CODE: Final = CodeDefinitions.name
_AT_ONCE: Final = 500
"""Schedules in one call of a store."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Catalogue:
    """:ivar editable: the stores that take new schedules, by name; the first unless somebody says otherwise.
    :ivar why_none: said where a new schedule has nowhere to go.
    """

    code: CodeDefinitions
    editable: Mapping[str, DefinitionStore]
    why_none: str

    @property
    def all(self) -> dict[str, DefinitionStore]:
        """Every store by name, by precedence."""
        return {CODE: self.code, **self.editable}

    def locate(self, name: str) -> tuple[str, Stored]:
        """The store and what it has under this name or id. Raises ScheduleNotFound with the closest names."""
        for store, one in self.all.items():
            (stored,) = one.get([name])
            if stored is not None:
                return store, stored
        raise ScheduleNotFound(name, closest_names(name, self.all.values()))

    def again(self, store: str, schedule_id: str) -> ScheduleView:
        """It, as it is after a change."""
        (stored,) = self.all[store].get([schedule_id])
        if stored is None:
            raise ScheduleNotFound(schedule_id)
        return view_of(stored, store)

    def named(self, names: Sequence[str]) -> dict[str, ScheduleView]:
        """What the stores have under these names and ids, by what was asked for."""
        found: dict[str, ScheduleView] = {}
        for store, one in self.all.items():
            for name, stored in _got(one, names):
                if stored is not None:
                    found.setdefault(name, view_of(stored, store))
        return found

    def must_be_free(self, names: Sequence[str]) -> None:
        """Raises ScheduleExists for the first name that some store has."""
        for store, one in self.all.items():
            for name, stored in _got(one, names):
                if stored is not None:
                    raise ScheduleExists(name, store)

    def store_for(self, wanted: object) -> str:
        """The store of a new schedule. Raises InvalidSchedule for one that cannot take it, ParrotError if none can."""
        if wanted is None:
            for name in self.editable:
                return name
            raise ParrotError(self.why_none)
        if wanted == CODE:
            raise InvalidSchedule("store", wanted, "schedules of the code are written in the code")
        if wanted not in self.editable:
            known = ", ".join(self.editable) or f"none ({self.why_none})"
            raise InvalidSchedule("store", wanted, f"is not attached here; there is {known}")
        return str(wanted)

    def insert(self, made: Sequence[Schedule]) -> list[Schedule]:
        """Write each into its store. Those whose name was taken meanwhile."""
        taken: list[Schedule] = []
        for store, one in self.editable.items():
            for batch in _batches([schedule for schedule in made if schedule.store == store]):
                written = one.insert(batch)
                taken += [each for each, what in zip(batch, written, strict=True) if what is not Written.DONE]
        return taken

    def views(self, made: Sequence[Schedule]) -> dict[str, ScheduleView]:
        """What was just written, by name, as the stores have it: ids and stamps are theirs."""
        found: dict[str, ScheduleView] = {}
        for store, one in self.editable.items():
            names = [schedule.name for schedule in made if schedule.store == store]
            for name, stored in _got(one, names):
                if stored is None:
                    raise ScheduleNotFound(name)  # deleted again already
                found[name] = view_of(stored, store)
        return found


def _batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[first : first + _AT_ONCE] for first in range(0, len(items), _AT_ONCE))


def _got(store: DefinitionStore, names: Sequence[str]) -> Iterable[tuple[str, Stored | None]]:
    for batch in _batches(names):
        yield from zip(batch, store.get(batch), strict=True)
