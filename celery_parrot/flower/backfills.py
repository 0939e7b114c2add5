"""Backfills that somebody asked for over HTTP: jobs of this process, a few at once, known for an hour after their end.

They end with the process. What was asked for by then goes on, and asking again goes on where it stopped.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from celery_parrot.client import Backfill
from celery_parrot.clock import Clock, new_id
from celery_parrot.errors import ParrotError
from celery_parrot.model.plain import plain
from celery_parrot.model.secrets import mask

logger = logging.getLogger("celery_parrot")

AT_ONCE: Final = 4
KEPT: Final = 3600.0
"""Seconds for which one that has ended is known."""

Fill = Callable[[Callable[[Backfill], None], threading.Event], Backfill]
"""Backfill, telling how far it has come, until the event is set."""


class JobState(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


class TooMany(ParrotError):
    """There are as many backfills under way as there may be."""


@dataclass(slots=True, kw_only=True)
class Job:
    """Changed by its own thread only, but for ``stop``. :ivar total: how many due times it is to fire."""

    id: str
    asked_by: str
    asked_at: datetime
    progress: Backfill
    total: int = 0
    state: JobState = JobState.RUNNING
    error: str = ""
    ended: float | None = None
    stop: threading.Event = field(default_factory=threading.Event)

    def to_json(self) -> dict[str, Any]:
        """As the API answers: how many, not which, for they may be 100,000."""
        progress = self.progress
        stopping = self.state is JobState.RUNNING and self.stop.is_set()
        return {
            "id": self.id,
            "state": str(JobState.STOPPING if stopping else self.state),
            "asked_by": self.asked_by,
            "asked_at": self.asked_at.isoformat(),
            "error": self.error,
            "name": progress.name,
            "schedule_id": progress.schedule_id,
            "start": plain(progress.start),
            "end": plain(progress.end),
            "total": self.total,
            "fired": progress.fired,
            "asked": progress.asked,
            "ended": progress.ended,
            "active": list(progress.active),
            "outcomes": dict(progress.outcomes),
            "left_out": progress.left_out,
        }


class Backfills:
    """Thread-safe. :param at_once: so many run at the same time."""

    def __init__(self, clock: Clock, *, at_once: int = AT_ONCE) -> None:
        self._clock, self._at_once = clock, at_once
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, planned: Backfill, fill: Fill, actor: str = "") -> Job:
        """Begin one in a thread of its own. Raises TooMany.

        :param planned: what a dry run said.
        """
        job = Job(
            id=new_id(), asked_by=actor, asked_at=self._clock.now(), progress=planned, total=len(planned.due_times)
        )  # fmt: skip
        with self._lock:
            self._forget()
            running = [one for one in self._jobs.values() if one.ended is None]
            if len(running) >= self._at_once:
                names = ", ".join(repr(one.progress.name) for one in running)
                raise TooMany(f"{len(running)} backfills are under way ({names}), and no more run at once")
            self._jobs[job.id] = job
        # A daemon: Flower stops when it is told to, however long its backfills would take.
        threading.Thread(target=self._run, args=(job, fill), name=f"parrot-backfill-{job.id[:8]}", daemon=True).start()
        return job

    def get(self, job_id: str) -> Job | None:
        """One that runs, or ended within the last hour."""
        with self._lock:
            self._forget()
            return self._jobs.get(job_id)

    def all(self) -> list[Job]:
        """All that are known, newest first."""
        with self._lock:
            self._forget()
            return list(reversed(self._jobs.values()))

    def close(self) -> None:
        """Have all stop; does not wait."""
        with self._lock:
            for job in self._jobs.values():
                job.stop.set()

    def _run(self, job: Job, fill: Fill) -> None:
        def progress(state: Backfill) -> None:
            job.progress, job.total = state, len(state.due_times)

        try:
            progress(fill(progress, job.stop))
            unfinished = job.progress.ended < job.total
            job.state = JobState.CANCELLED if unfinished else JobState.DONE
        except ParrotError as error:
            job.error, job.state = mask(str(error)), JobState.FAILED
        except Exception:
            logger.exception("the backfill of %r failed", job.progress.name)
            job.error, job.state = "something failed here; the log of Flower says what", JobState.FAILED
        finally:
            job.progress = replace(job.progress, due_times=())  # megabytes, for an hour
            job.ended = self._clock.monotonic()

    def _forget(self) -> None:
        now = self._clock.monotonic()
        for job in list(self._jobs.values()):
            if job.ended is not None and now - job.ended > KEPT:
                del self._jobs[job.id]
