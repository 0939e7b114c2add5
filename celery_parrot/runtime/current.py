"""What a task can learn about the fire it runs for: :func:`current_fire`."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime


def _never() -> bool:
    return False


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

    @property
    def lost(self) -> bool:
        """True once this run may no longer be the only one: its lease was not renewed in time, or it has ended or
        been taken over. A long task should stop when it sees this; its result will not count."""
        return self._lost()


_current: ContextVar[CurrentFire | None] = ContextVar("celery_parrot_current_fire", default=None)


def current_fire() -> CurrentFire | None:
    """The fire that the calling task runs for, or None where no fire runs: outside a task, in a task that was sent
    by hand, in a process without ``Parrot(app)``.

    Valid in the thread, greenlet or coroutine of the task body; a thread that the body starts sees it only if the
    body hands it over (``contextvars.copy_context()``).
    """
    return _current.get()


def enter(fire: CurrentFire) -> None:
    """From here on this context runs ``fire``."""
    _current.set(fire)


def leave() -> None:
    """This context runs no fire any more."""
    _current.set(None)
