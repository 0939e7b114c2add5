"""Limits as values, and the line of those that wait for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from celery_parrot.model.fire import Fire

IN_FLIGHT_SKIP_OUTPUT_KEY: Final = "in_flight_skip"
"""Key in the output of a fire skipped because a limit was busy: ``{"in_flight_skip": true, "held_by": fire id}``."""

SLOTS: Final = "slots"
"""Name of the limit that bounds everything of one scheduler; judged last."""


class Busy(StrEnum):
    SKIP = "skip"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Limit:
    """A named capacity that a fire must hold while in flight, e.g. ``kind:agent``, ``group:gpu``, ``slots``."""

    name: str
    capacity: int = 1
    busy: Busy = Busy.WAIT


@dataclass(frozen=True, slots=True)
class Waiting:
    """A fire in line, with everything it asked for."""

    fire: Fire
    limits: tuple[Limit, ...]
