"""Leases of the fires that run in this process: renewed, with the signs of progress that their tasks give."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_parrot.clock import Clock
from celery_parrot.dispatch.asking import RETRY_EVERY, Asking
from celery_parrot.errors import Unreachable
from celery_parrot.protocols import Delivery, Lease, Progress, Running, StartReply

PROGRESS_EVERY = 1.0  # seconds between two calls that are made only to tell of progress


@dataclass(slots=True)
class _Run:
    """A fire that runs here.

    :ivar began: when its Start was asked for; ``confirmed``: when its lease was last asked for and granted. Monotonic
        seconds.
    :ivar sign: the newest sign of progress that the coordinator does not know yet.
    """

    running: Running
    began: float
    confirmed: float
    refused: bool = False
    ending: bool = False
    sign: Progress | None = None

    @property
    def lease(self) -> Lease:
        return Lease(self.running.delivery.key, self.running.delivery.token, self.sign)


class Leases:
    """What runs here, by token. Thread-safe; nothing is held locked while the coordinator is asked.

    :param wake: called when :meth:`keep` has something to do before its time.
    """

    def __init__(self, clock: Clock, lease: float, wake: Callable[[], None]) -> None:
        self._clock = clock
        self._lease = lease
        self._every = min(RETRY_EVERY, lease / 3)
        self._wake = wake
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._renew_at = 0.0
        self._signs_at: float | None = None  # when signs of progress are told; None: there are none
        self._told_at = -PROGRESS_EVERY

    def add(self, delivery: Delivery, reply: StartReply, asked: float) -> None:
        """This delivery runs from now on; its Start was asked for at ``asked``, monotonic seconds."""
        # The coordinator's own clock where it said something; ours is only a stand-in.
        until = reply.lease_until
        started = self._clock.now() if until is None else until - timedelta(seconds=self._lease)
        running = Running(delivery=delivery, started_at=started, attempt=reply.attempt, holds=reply.holds)
        with self._lock:
            if not self._runs:
                self._renew_at, self._signs_at = asked + self._lease / 3, None
            self._runs[delivery.token] = _Run(running, asked, asked)

    def ending(self, token: str) -> None:
        """Its outcome is on its way: a refused renewal is no news any more."""
        with self._lock:
            if token in self._runs:
                self._runs[token].ending = True

    def pop(self, token: str) -> Running | None:
        """Keep it no longer."""
        with self._lock:
            run = self._runs.pop(token, None)
            return run.running if run is not None else None

    @property
    def running(self) -> tuple[Running, ...]:
        with self._lock:
            return tuple(run.running for run in self._runs.values())

    def lost(self, token: str) -> bool:
        """Whether this run may have a successor."""
        with self._lock:
            run = self._runs.get(token)
            return run is None or run.refused or self._clock.monotonic() - run.confirmed > self._lease

    def now(self, token: str) -> datetime | None:
        """The coordinator's clock now, as told at the start of this run; None if it does not run here."""
        with self._lock:
            run = self._runs.get(token)
            if run is None:
                return None
            return run.running.started_at + timedelta(seconds=self._clock.monotonic() - run.began)

    def progress(self, token: str, sign: Progress) -> None:
        """Note a sign of progress; :meth:`keep` tells of it soon, the newest only. Nothing for what does not run."""
        with self._lock:
            run = self._runs.get(token)
            if run is None or run.refused or run.ending:
                return
            run.sign = sign
            first = self._signs_at is None
            if first:
                self._signs_at = max(self._clock.monotonic(), self._told_at + PROGRESS_EVERY)
        if first:
            self._wake()

    def due(self) -> float | None:
        """When :meth:`keep` has something to do, monotonic seconds."""
        with self._lock:
            if not self._runs:
                return None
            return self._renew_at if self._signs_at is None else min(self._renew_at, self._signs_at)

    def keep(self, asking: Asking) -> None:
        """Renew all leases when it is time for that, in between those that have a sign of progress to tell."""
        asked = self._clock.monotonic()
        with self._lock:
            all_of_them = asked >= self._renew_at
            if not all_of_them and (self._signs_at is None or asked < self._signs_at):
                return
            runs = [run for run in self._runs.values() if not run.refused and (all_of_them or run.sign is not None)]
            leases = [run.lease for run in runs]
            self._signs_at, self._told_at = None, asked
        failed = False
        try:
            if runs:
                self._renewed(asking, runs, leases, asking.ask(lambda to: to.renew_leases(leases)), asked)
        except Unreachable as exc:
            failed = True
            asking.tell(asking.describe.unreachable("renew leases", exc))
        with self._lock:
            if all_of_them:
                self._renew_at = asked + (self._every if failed else self._lease / 3)
            if failed and any(run.sign is not None for run in self._runs.values()):
                self._signs_at = asked + self._every

    def _renewed(
        self, asking: Asking, runs: Sequence[_Run], leases: Sequence[Lease], answers: Sequence[bool], asked: float
    ) -> None:
        refused = []
        with self._lock:
            for run, lease, granted in zip(runs, leases, answers, strict=True):
                if granted:
                    run.confirmed = asked
                    if run.sign is lease.progress:  # else a newer one came meanwhile
                        run.sign = None
                elif not run.ending and lease.token in self._runs:
                    # One that ends meanwhile was refused because its outcome arrived first.
                    run.refused, run.sign = True, None
                    refused.append(run.running)
        for running in refused:
            asking.tell(asking.describe.lease_lost(running))
