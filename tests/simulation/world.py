"""Virtual time, and processes made of greenlets that run one step at a time in the order a seed decides."""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from greenlet import getcurrent, greenlet

BASE = datetime(2026, 1, 1, tzinfo=UTC)
_SECOND = 1_000_000


class Killed(BaseException):
    """Ends a greenlet of a process that is no more. Not an Exception: no code under test may survive it."""


class World:
    """One clock (microseconds since :data:`BASE`), one queue of coming steps, one source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0
        self.steps = 0
        self.lines: list[str] | None = None
        self._queue: list[tuple[int, float, int, Callable[[], object]]] = []
        self._pushed = 0
        self.hub = getcurrent()

    @property
    def seconds(self) -> float:
        return self.now / _SECOND

    def instant(self) -> datetime:
        """The true time; also the coordinator's clock."""
        return BASE + timedelta(microseconds=self.now)

    def later(self, seconds: float, call: Callable[[], object]) -> None:
        """Have the hub make a call; those of one instant come in an order the seed decides."""
        self._pushed += 1
        heapq.heappush(self._queue, (self.now + round(seconds * _SECOND), self.random.random(), self._pushed, call))

    def at_once(self, call: Callable[[], object]) -> None:
        """Have the hub make a call before anything else happens."""
        self._pushed += 1
        heapq.heappush(self._queue, (self.now, -1.0, self._pushed, call))

    def run(self, until: float, idle: Callable[[], bool] | None = None) -> None:
        """Step until the clock is at ``until`` seconds; or, asked once a second, ``idle`` says that nothing is left."""
        end, look = round(until * _SECOND), self.now
        while self._queue and self._queue[0][0] <= end:
            self.now, _, _, call = heapq.heappop(self._queue)
            self.steps += 1
            call()
            if idle is not None and self.now >= look:
                if idle():
                    return
                look = self.now + _SECOND
        self.now = end

    def say(self, who: str, text: str) -> None:
        """One line of the trace, if one is wanted. Callers build ``text`` only where :attr:`lines` is not None."""
        if self.lines is not None:
            self.lines.append(f"{self.seconds:10.6f}  {who:<5} {text}")


class Thread:
    """One greenlet of a process. It runs until it parks; only the hub resumes it."""

    def __init__(self, process: Process, body: Callable[[], object]) -> None:
        self._process, self._ticket = process, 0
        self.greenlet: Any = greenlet(self._guard(body), parent=process.world.hub)

    def _guard(self, body: Callable[[], object]) -> Callable[[bool], None]:
        def run(_: bool) -> None:
            try:
                body()
            except Killed:
                return

        return run

    def start(self) -> None:
        ticket = self._ticket
        self._process.world.later(0.0, lambda: self._resume(ticket, False))

    def park(self, seconds: float | None) -> bool:
        """Let others go on for ``seconds`` (None: until woken). True if woken."""
        self._ticket += 1
        ticket = self._ticket
        if seconds is not None:
            self._process.world.later(seconds, lambda: self._resume(ticket, False))
        return bool(self._process.world.hub.switch())

    def wake(self) -> None:
        ticket = self._ticket
        self._process.world.later(0.0, lambda: self._resume(ticket, True))

    def _resume(self, ticket: int, woken: bool) -> None:
        process = self._process
        if ticket != self._ticket or not process.alive:
            return
        if process.world.now < process.frozen_until:
            wait = (process.frozen_until - process.world.now) / _SECOND
            process.world.later(wait, lambda: self._resume(ticket, woken))
            return
        self._ticket += 1
        self.greenlet.switch(woken)

    def end(self) -> None:
        """From the hub: unwind."""
        if self.greenlet:
            self.greenlet.throw(Killed)


class Process:
    """One operating system process: its greenlets live and die together. Its monotonic clock has its own zero, its
    wall clock may be wrong. It is a :class:`~celery_parrot.clock.Clock`."""

    def __init__(self, world: World, name: str, *, offset: float = 0.0) -> None:
        self.world, self.name, self.offset = world, name, offset
        self.alive = True
        self.frozen_until = 0
        self.cut_until = 0
        self.threads: list[Thread] = []
        self.on_death: Callable[[], object] = lambda: None
        self._zero = world.random.uniform(0.0, 10_000.0)

    def spawn(self, body: Callable[[], object]) -> Thread:
        thread = Thread(self, body)
        self.threads.append(thread)
        thread.start()
        return thread

    def current(self) -> Thread:
        here = getcurrent()
        return next(thread for thread in self.threads if thread.greenlet is here)

    def park(self, seconds: float | None) -> bool:
        """Give the turn away; see :meth:`Thread.park`."""
        if not self.alive:
            raise Killed
        return self.current().park(seconds)

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after ``seconds``."""
        self.frozen_until = max(self.frozen_until, self.world.now + round(seconds * _SECOND))

    def kill(self) -> None:
        """SIGKILL. Raises :exc:`Killed` in the caller if that is one of this process's greenlets."""
        if not self.alive:
            return
        self.alive = False
        self.on_death()
        self.world.at_once(self._unwind)
        if any(thread.greenlet is getcurrent() for thread in self.threads):
            raise Killed

    def _unwind(self) -> None:
        for thread in self.threads:
            thread.end()

    # -- Clock --

    def now(self) -> datetime:
        return self.world.instant() + timedelta(seconds=self.offset)

    def monotonic(self) -> float:
        return self._zero + self.world.now / _SECOND

    def sleep(self, seconds: float) -> None:
        self.park(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        raise NotImplementedError("greenlets wait on a Signal")


class Signal:
    """What :class:`threading.Event` is to threads, for the greenlets of one process."""

    def __init__(self, process: Process) -> None:
        self._process, self._set = process, False
        self._waiting: list[Thread] = []

    def set(self) -> None:
        self._set = True
        for thread in self._waiting:
            thread.wake()
        self._waiting.clear()

    def clear(self) -> None:
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float | None = None) -> bool:
        if not self._set:
            self._waiting.append(self._process.current())
            self._process.park(timeout)
        return self._set


class Mutex:
    """What :class:`threading.Lock` is to threads, where its holder gives the turn away."""

    def __init__(self, process: Process) -> None:
        self._process, self._held = process, False
        self._waiting: list[Thread] = []

    def __enter__(self) -> None:
        while self._held:
            self._waiting.append(self._process.current())
            self._process.park(None)
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        if self._process.alive and self._waiting:
            self._waiting.pop(0).wake()
