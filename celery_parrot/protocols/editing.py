"""Changing definitions. Run state is never written here, and definitions are never written elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol, runtime_checkable

from celery_parrot.model.fire import FireRecord
from celery_parrot.model.schedule import Schedule
from celery_parrot.model.state import RunState


class State(StrEnum):
    """What a schedule is doing. ``broken``: cannot be read or computed; ``completed``: nothing more will come."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"
    COMPLETED = "completed"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A definition as a store has it, with what happened to it.

    :ivar schedule: None if it cannot be read; ``broken_reason`` then says why, ``raw`` what is there (cut).
    :ivar held: ``person`` (paused), ``failures`` (disabled) or None. ``note``: why, by whom.
    """

    schedule_id: str
    name: str
    schedule: Schedule | None
    run_state: RunState
    state: State
    held: str | None = None
    note: str | None = None
    broken_reason: str | None = None
    raw: str = ""
    updated_at: datetime | None = None


class Written(StrEnum):
    """What became of one write."""

    DONE = "done"
    EXISTS = "exists"  # the name (or id) is taken
    CONFLICT = "conflict"  # the version given is not the current one
    GONE = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A new definition for an existing schedule. ``version`` is the one it was made from; None: whatever it is."""

    schedule: Schedule
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """:ivar after: the cursor of the next page, empty at the end."""

    items: tuple[Stored, ...]
    after: str = ""


@runtime_checkable
class Inspecting(Protocol):
    """Capability of a schedule store: show what it has, also what it cannot read or compute."""

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """Each by name or id."""
        ...


class DefinitionStore(Protocol):
    """The editable side of a schedule store. Each call is atomic and wakes the beats."""

    name: str

    def insert(self, schedules: Sequence[Schedule]) -> Sequence[Written]:
        """Add each; its mark is now (one-shots: just before their instant, at most now)."""
        ...

    def replace(self, changes: Sequence[Change]) -> Sequence[tuple[Written, int]]:
        """Replace each definition; the version it has now. Only a change of *when* or ``enabled`` moves the mark
        (to now): undecided due times before it become ``missed(superseded)``."""
        ...

    def delete(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """Remove each. Its history stays until retention."""
        ...

    def hold(self, schedule_ids: Sequence[str], by: str, note: str, version: int | None = None) -> Sequence[Written]:
        """Pause (``by="person"``) or disable (``by="failures"``). Moves no mark."""
        ...

    def release(self, schedule_ids: Sequence[str], version: int | None = None) -> Sequence[Written]:
        """Resume: clears the failure count; what became due meanwhile is one ``skipped(paused)`` range, and the
        mark moves to now."""
        ...

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """Each by name or id."""
        ...

    def find(
        self,
        *,
        kind: str | None = None,
        state: State | None = None,
        text: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Page:
        """By name, ascending; ``text`` is part of a name or target. Broken ones included."""
        ...

    def names_with(self, text: str, limit: int) -> Sequence[str]:
        """Some names that contain ``text``, in any case and order. Cheaper than to find their schedules."""
        ...

    def fires(self, schedule_id: str, *, limit: int = 100, before: datetime | None = None) -> Sequence[FireRecord]:
        """History, newest first, of a schedule that may be deleted already."""
        ...
