"""Where definitions live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols.outbox import Mark, Registration
from celery_parrot.triggers.base import Trigger


@dataclass(frozen=True, slots=True)
class Due:
    """A schedule as a store hands it to the planner.

    :ivar mark: the latest decided due time as the store knows it; the commit compares.
    :ivar held: why it must not fire now (``person``, ``failures``), as last told; the commit judges again.
    """

    schedule: Schedule
    trigger: Trigger
    mark: datetime
    held: str | None = None


class ScheduleStore(Protocol):
    """Where definitions live. What happened to them is the coordinator's."""

    name: str

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """Enabled schedules of exactly these kinds with an undecided due time whose sending instant (jitter
        included) is at or before ``before``, earliest first. Costs by what is due. No kinds: nothing."""
        ...

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        """As :meth:`due`, for schedules of any kind *but* these. Asked once a minute."""
        ...

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        """The earliest coming sending instant of these kinds, or None."""
        ...

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        """The current definition of each that exists here, paused ones included."""
        ...

    def registrations(self) -> Sequence[Registration]:
        """Schedules whose mark this store does not know (yet, or any more)."""
        ...

    def learn(self, marks: Iterable[Mark]) -> None:
        """Take over marks that the coordinator told. A mark for an unknown schedule is ignored."""
        ...

    def forget_marks(self) -> None:
        """Ask for every mark again: :meth:`registrations` then returns all, with the marks known so far as
        ``initial``. Until told again, nothing of this store is due."""
        ...

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        """Registrations and marks as known, for a coordinator that forgot."""
        ...
