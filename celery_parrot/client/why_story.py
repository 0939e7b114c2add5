"""What became of one due time, told in sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery_parrot.errors import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One sentence of a story.

    :ivar what: which part of the story it is: ``schedule due claimed waited sent started outcome note now``.
    :ivar at: when it happened, UTC; None for what is no event.
    """

    what: str
    text: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What became of one due time of a schedule, and why. ``str()`` of it is the whole text.

    :ivar schedule: the schedule's name.
    :ivar due_at: the due time that it is about, UTC; where nothing was due, the instant that was asked for.
    :ivar verdict: one word: the status of a fire (``success error abandoned missed running …``, ``in_flight_skip``),
        or why there is none: ``deleted paused disabled broken completed unrouted no_beat unreachable not_due future
        jitter undecided before_created forgotten unrecorded``.
    :ivar sentence: the same, for a person. ``steps``: how it came to that, in order.
    :ivar previous: the due time before, UTC, and ``next``: the one after; None: there is none.
    :ivar fire_id: of the fire, if there was one.
    :ivar closing: the sentence about ``previous`` and ``next``.
    """

    schedule: str
    due_at: datetime | None
    verdict: str
    sentence: str
    steps: tuple[Step, ...]
    previous: datetime | None = None
    next: datetime | None = None
    fire_id: str | None = None
    closing: str = ""

    def __str__(self) -> str:
        lines = [self.sentence, *(f"  {step.text}" for step in self.steps), self.closing]
        return "\n".join(printable(line) for line in lines).rstrip()

    def to_json(self) -> Mapping[str, Any]:
        """As JSON has it: instants in ISO 8601."""
        return {
            "schedule": self.schedule,
            "due_at": _iso(self.due_at),
            "verdict": self.verdict,
            "sentence": self.sentence,
            "steps": [{"at": _iso(step.at), "what": step.what, "text": step.text} for step in self.steps],
            "previous": _iso(self.previous),
            "next": _iso(self.next),
            "fire_id": self.fire_id,
        }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
