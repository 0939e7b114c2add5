"""Limits as values, and the line of those that wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from celery_parrot.model.fire import Fire

IN_FLIGHT_SKIP_OUTPUT_KEY: Final = "in_flight_skip"
"""Key in the output of a fire skipped because its kind was busy: ``{"in_flight_skip": true, "held_by": fire id}``."""

SLOTS: Final = "slots"
"""Name of the limit that bounds everything of one scheduler; judged last."""


class Busy(StrEnum):
    """What a fire does that meets a limit without room."""

    SKIP = "skip"  # ends at once as success with the in-flight-skip output
    OVERLAP = "overlap"  # ends at once as skipped, reason "overlap"
    WAIT = "wait"  # joins the line


@dataclass(frozen=True, slots=True)
class Limit:
    """A named capacity that a fire must hold while in flight, e.g. ``kind:agent``, ``group:gpu``, ``slots``.

    :ivar capacity: how many fires may hold it at once. What the latest request says counts for all, those that wait
        included: if that is more than was known, the line is walked before the request is judged.
    :ivar buffer: with ``WAIT``, how many fires may be in line for this limit, beyond those that hold it; one more
        ends as skipped, reason ``overlap``. Holders and waiters count together: with capacity 1 and buffer 1 two
        fires may be in flight, whatever else they wait for. None: no bound.
    """

    name: str
    capacity: int = 1
    busy: Busy = Busy.WAIT
    buffer: int | None = None


@dataclass(frozen=True, slots=True)
class Waiting:
    """A fire in line, with everything it asked for.

    :ivar since: when it joined the line. ``until``: its wait deadline, None if it has none.
    """

    fire: Fire
    limits: tuple[Limit, ...]
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A fire that holds a limit. ``since``: when it got it."""

    fire: Fire
    since: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """One limit that somebody holds or waits for.

    :ivar capacity: as the latest request said.
    :ivar holders: oldest first. ``waiting``: the line behind it, first comes first.
    """

    name: str
    capacity: int
    holders: tuple[Holder, ...] = ()
    waiting: tuple[Waiting, ...] = ()
