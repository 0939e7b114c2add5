"""A database that hangs must not hold the beat: it is asked in a thread of its own, and waited for only so long."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from celery_parrot.clock import Clock
from celery_parrot.errors import StoreUnreachable, Unreachable
from celery_parrot.model.fire import Fire
from celery_parrot.model.plan import Verdict
from celery_parrot.protocols import Advance, Carried, Due, Mark, Parcel, Registration, RowStore, ScheduleStore, Stored

T = TypeVar("T")

PATIENCE: Final = 2.0
"""Seconds one call is waited for: less than the silence after which other beats take this one for dead."""

_RETRY: Final = 1.0
_CHECK_AGAIN: Final = 5.0


class Aside:
    """Runs calls one after the other in a thread.

    A call that is not back in time goes on there, and its answer is lost. After that, and after a call that found the
    backend out of reach, every other call fails at once until ``probe`` has got through, which is tried from the
    thread once a second. So an outage costs one wait, not one a tick.

    :param name: of the store, for errors.
    """

    def __init__(self, name: str, probe: Callable[[], object], clock: Clock, *, patience: float = PATIENCE) -> None:
        self._name, self._probe, self._clock, self._patience = name, probe, clock, patience
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._away = ""
        self._closed = threading.Event()

    def __call__(self, work: Callable[[], T]) -> T:
        """``work()``. Raises StoreUnreachable if the backend is out of reach, or too slow."""
        if self._away:
            raise StoreUnreachable(self._name, self._away)
        job = _Job(work)
        self._put(job)
        if not self._clock.wait(job.done, self._patience):
            self._away = f"did not answer within {self._patience:g} s"
            self._put(None)
            raise StoreUnreachable(self._name, self._away)
        if isinstance(job.error, Unreachable):
            self._away = str(job.error)
            self._put(None)
            raise StoreUnreachable(self._name, self._away) from job.error
        if job.error is not None:
            raise job.error
        return job.result  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the thread once its present call is back."""
        self._closed.set()
        self._jobs.put(None)

    def _put(self, job: _Job | None) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"parrot-{self._name}", daemon=True)
            self._thread.start()
        self._jobs.put(job)

    def _run(self) -> None:
        while not self._closed.is_set():
            job = self._jobs.get()
            if job is not None:
                job.run()
                continue
            while not self._closed.is_set():
                try:
                    self._probe()
                except Exception as exc:
                    self._away = str(exc) or type(exc).__name__
                    self._clock.wait(self._closed, _RETRY)
                else:
                    break
            self._away = ""


class _Job:
    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self.done = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self._work()
        except Exception as exc:
            self.error = exc
        self.done.set()


class Rows(ScheduleStore, RowStore):
    """What a beat needs of the db store, asked aside. Its tables are looked at before it is first scanned.

    :param real: the store. Its methods may run in another thread, one at a time.
    :param problems: why the tables cannot be used, one sentence each; empty if they can. Asked again every few
        seconds until then, so that a beat may start before the migrations are applied.
    """

    def __init__(
        self,
        real: Any,
        problems: Callable[[], Sequence[str]],
        clock: Clock,
        *,
        aside: Callable[[Callable[[], Any]], Any] | None = None,
    ) -> None:
        self.name: str = real.name
        self._real, self._problems, self._clock = real, problems, clock
        self._ask = aside or Aside(self.name, real.now, clock)
        self._ready = False
        self._look_again = clock.monotonic()
        self._lacking = ""

    # --- ScheduleStore ---

    def due(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        if not self._ready:
            self._look()
        return self._ask(lambda: self._real.due(before, kinds, limit))  # type: ignore[no-any-return]

    def due_elsewhere(self, before: datetime, kinds: Iterable[str], limit: int) -> Sequence[Due]:
        return self._ask(lambda: self._real.due_elsewhere(before, kinds, limit)) if self._ready else ()

    def next_due(self, kinds: Iterable[str]) -> datetime | None:
        return self._ask(lambda: self._real.next_due(kinds)) if self._ready else None

    def definitions(self, schedule_ids: Sequence[str]) -> Mapping[str, Due]:
        return self._ask(lambda: self._real.definitions(schedule_ids))  # type: ignore[no-any-return]

    def registrations(self) -> Sequence[Registration]:
        return self._real.registrations()  # type: ignore[no-any-return]

    def learn(self, marks: Iterable[Mark]) -> None:
        self._real.learn(marks)

    def forget_marks(self) -> None:
        self._real.forget_marks()

    def remembered(self) -> tuple[Sequence[Registration], Sequence[Mark]]:
        return self._real.remembered()  # type: ignore[no-any-return]

    # --- RowStore ---

    def advance(self, moves: Sequence[Advance], beat: str) -> Sequence[tuple[Verdict, datetime | None]]:
        return self._ask(lambda: self._real.advance(moves, beat))  # type: ignore[no-any-return]

    def prove(self, fires: Sequence[Fire]) -> Sequence[bool]:
        return self._ask(lambda: self._real.prove(fires))  # type: ignore[no-any-return]

    def record(self, items: Sequence[Carried]) -> None:
        self._ask(lambda: self._real.record(items))

    def owed(self, *, limit: int = 100) -> Sequence[Parcel]:
        """See :class:`~celery_parrot.protocols.Owing`."""
        return self._ask(lambda: self._real.owed(limit=limit)) if self._ready else ()

    def settled(self, ids: Sequence[str]) -> None:
        """See :class:`~celery_parrot.protocols.Owing`."""
        self._ask(lambda: self._real.settled(ids))

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        self._ask(lambda: self._real.lock_unavailable(schedule_ids))

    def prune(self, *, limit: int = 1000) -> int:
        return self._ask(lambda: self._real.prune(limit=limit)) if self._ready else 0

    # --- besides ---

    def get(self, names_or_ids: Sequence[str]) -> Sequence[Stored | None]:
        """As :meth:`~celery_parrot.protocols.DefinitionStore.get`."""
        return self._ask(lambda: self._real.get(names_or_ids))  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let go of thread and connections."""
        if isinstance(self._ask, Aside):
            self._ask.close()
        self._real.close()

    def _look(self) -> None:
        if self._lacking and self._clock.monotonic() < self._look_again:
            raise StoreUnreachable(self.name, self._lacking)
        self._look_again = self._clock.monotonic() + _CHECK_AGAIN
        found = self._ask(self._problems)
        self._lacking = f"{found[0]} (celery -A YOUR_APP parrot db upgrade)" if found else ""
        if found:
            raise StoreUnreachable(self.name, self._lacking)
        self._ready = True
