"""Pausing schedules whose run state is the coordinator's and whose definition is nobody's to write: those of code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from celery_parrot.model.plan import NotFired, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """:ivar by: ``person`` (paused), ``failures`` (disabled) or None. ``note``: why. ``at``: since when.
    :ivar mark: the latest decided due time.
    """

    mark: datetime
    by: str | None = None
    note: str | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One schedule to resume.

    :ivar expected_mark: the mark that ``skipped`` was worked out from, by the schedule's own trigger.
    :ivar new_mark: until when; due times after it are ordinary ones.
    :ivar skipped: the due times between the two, as ``skipped(paused)``, one range.
    """

    schedule_id: str
    name: str
    kind: str
    expected_mark: datetime
    new_mark: datetime
    skipped: tuple[NotFired, ...] = ()


@runtime_checkable
class Holding(Protocol):
    """Capability of a coordinator. A hold outlives every process and restart; commits of a held schedule are
    ``HELD``."""

    def hold(self, schedule_ids: Sequence[str], by: str, note: str) -> Sequence[bool]:
        """Pause or disable each; false where no schedule of that id has a mark. Moves no mark; wakes
        the beats where there is a channel. What a person paused stays a person's."""
        ...

    def release(self, releases: Sequence[Release]) -> Sequence[Verdict]:
        """Resume each: ``COMMITTED`` (also if it was not held, then nothing moves), ``MOVED`` (the mark is another
        one: work it out anew) or ``UNKNOWN``. Clears the failure count; wakes the beats."""
        ...

    def holds(self, schedule_ids: Sequence[str]) -> Mapping[str, Held]:
        """Each that has a mark, held or not."""
        ...
