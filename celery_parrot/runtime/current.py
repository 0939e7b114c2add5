"""What a task can learn about the fire it runs for: :func:`current_fire`."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from celery_parrot.protocols import Progress
from celery_parrot.runtime.results import cut

NOTE_LIMIT: Final = 200
"""Longest note of :meth:`CurrentFire.progress` that is kept, in characters, the marker of the cut included."""


def _never() -> bool:
    return False


def _untold(sign: Progress) -> None:
    """Of a fire that was not opened: nobody counts its silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentFire:
    """The fire whose task is running here; attributes are named as in the message's ``parrot`` header.

    :ivar scheduler: the registered name of the scheduler (``parrot_name``).
    :ivar fire_id: the id that history, log records and the task id of the first attempt share.
    :ivar due_at: the instant the schedule named, UTC. Identity, not lateness: the task may run later.
    :ivar origin: ``schedule``, ``catch_up``, ``run_now`` or ``backfill``.
    :ivar attempt: 1 for the first; retries, redeliveries after a death and recoveries add one.
    :ivar deadline: until when the task had to be started, or None.
    """

    scheduler: str
    schedule_id: str
    name: str
    fire_id: str
    due_at: datetime
    origin: str
    kind: str
    attempt: int
    deadline: datetime | None = None
    _lost: Callable[[], bool] = field(default=_never, repr=False, compare=False)
    _progress: Callable[[Progress], None] = field(default=_untold, repr=False, compare=False)

    @property
    def lost(self) -> bool:
        """True once this run may no longer be the only one: its lease was not renewed in time, or it has ended or
        been taken over. A long task should stop when it sees this; its result will not count."""
        return self._lost()

    def progress(self, note: str = "", fraction: float | None = None) -> None:
        """Say that the task gets on. Nothing else counts as a sign of that: a fire of a declared kind that gives none
        for its ``reap_after`` seconds is ended as ``abandoned``, reason ``silent``, however alive its worker is.

        Costs next to nothing and never waits: call it from every round of a loop, and from any thread that has this
        object. It is told beside the task, at once or with later ones of the same second, the newest only; while the
        coordinator is out of reach the newest is kept. Without effect where the fire is over, or :attr:`lost`.

        :param note: what the task is at, for people; its first 200 characters are kept.
        :param fraction: how much is done, 0 to 1, if the task knows.
        :raises ValueError: ``fraction`` is neither None nor a number from 0 to 1.
        """
        if fraction is not None:
            fraction = _share(fraction)
        self._progress(Progress(cut(str(note), NOTE_LIMIT), fraction))


_current: ContextVar[CurrentFire | None] = ContextVar("celery_parrot_current_fire", default=None)


def current_fire() -> CurrentFire | None:
    """The fire that the calling task runs for, or None where no fire runs: outside a task, in a task that was sent
    by hand, in a process without ``Parrot(app)``.

    Valid in the thread, greenlet or coroutine of the task body; a thread that the body starts sees it only if the
    body hands it over (``contextvars.copy_context()``).
    """
    return _current.get()


def _share(fraction: object) -> float:
    try:
        share = math.nan if isinstance(fraction, str) else float(fraction)  # type: ignore[arg-type]  # anything passed
    except (TypeError, ValueError, OverflowError):
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"fraction must be a number from 0 to 1, or None; got {fraction!r}")
    return share


def enter(fire: CurrentFire) -> None:
    """From here on this context runs ``fire``."""
    _current.set(fire)


def leave() -> None:
    """This context runs no fire any more."""
    _current.set(None)
