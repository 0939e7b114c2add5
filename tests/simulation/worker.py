"""A worker process: the real :class:`Lifecycle`, its keeper, and slots that take messages and run bodies."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, cast

from celery_parrot.dispatch.lifecycle import Lifecycle, WorkerCoordinator
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Namespace, Status
from celery_parrot.protocols import Delivery, EventSink, Lease, Outcome, StartVerdict
from tests.simulation.broker import Broker, Parcel
from tests.simulation.history import Execution
from tests.simulation.wire import Wire
from tests.simulation.world import Mutex, Process, Signal

SLOTS = 3


@dataclass(frozen=True, slots=True)
class Body:
    """What a task does: the same for the same fire, retry and seed."""

    seconds: float
    ends: str  # "succeeds", "fails", "retries"
    countdown: float = 0.0

    @classmethod
    def of(cls, seed: int, parcel: Parcel) -> Body:
        chance = random.Random(f"{seed} {parcel.key.text} {parcel.retries}")
        seconds = chance.uniform(0.0, 0.4) if chance.random() < 0.9 else chance.uniform(4.0, 22.0)
        drawn = chance.random()
        if drawn < 0.12 and parcel.retries < 3:
            return cls(seconds, "retries", chance.choice((0.0, 0.0, 0.5, 4.0)))
        return cls(seconds, "fails" if drawn < 0.22 else "succeeds")


class Worker:
    """Starts its greenlets in ``process``."""

    def __init__(
        self, process: Process, wire: Wire, broker: Broker, namespace: Namespace, events: EventSink, seed: int
    ) -> None:
        self._process, self._broker, self._seed = process, broker, seed
        self._history = broker.net.history
        coordinator = cast(WorkerCoordinator, wire)
        self.lifecycle = Lifecycle(coordinator, process, wire.timing.lease, namespace=namespace, events=events)
        # A greenlet that waits for a real lock would stop the whole simulation.
        anything: Any = self.lifecycle
        anything._outcomes._sending = Mutex(process)
        self._wake = anything.wake = Signal(process)
        self._deliveries = 0
        process.spawn(self._keep)
        for _ in range(SLOTS):
            process.spawn(self._slot)

    def _keep(self) -> None:
        while True:
            pause = self.lifecycle.keep()
            if not self._wake.is_set():
                self._wake.wait(pause)
            self._wake.clear()

    def _slot(self) -> None:
        while True:
            parcel = self._broker.get(self._process)
            if self._broker.late:
                self._handle(parcel)
                self._broker.ack(parcel)
            else:
                # Until it is opened, the message dies with this process.
                self._broker.ack(parcel, early=True)
                try:
                    self._handle(parcel)
                finally:
                    self._broker.opened(parcel, swallowed=True)

    def _handle(self, parcel: Parcel) -> None:
        self._deliveries += 1
        token = f"{self._process.name}#{self._deliveries}"
        delivery = Delivery(
            key=parcel.key,
            name=parcel.name,
            kind=parcel.kind,
            token=token,
            worker=self._process.name,
            origin=parcel.origin,
            attempt=parcel.attempt,
            retries=parcel.retries,
            put_back=parcel.put_back,
            deadline=parcel.deadline,
            limits=parcel.limits,
        )
        try:
            reply = self.lifecycle.open(delivery)
        except Unreachable:
            self._again(parcel, 1.0)
            self._broker.opened(parcel)
            return
        if reply.verdict is StartVerdict.PUT_BACK:
            self._history.fire(parcel.key).put_back += 1
            self._again(replace(parcel, put_back=True), reply.retry_after)
        elif reply.verdict is StartVerdict.QUIET:
            self._again(parcel, reply.retry_after)
        self._broker.opened(parcel)
        if reply.verdict is StartVerdict.RUN:
            self._run(parcel, Lease(delivery.key, token))

    def _again(self, parcel: Parcel, countdown: float) -> None:
        self._process.sleep(self._broker.net.latency())
        self._broker.put(parcel, countdown)
        self._process.sleep(self._broker.net.latency())

    def _run(self, parcel: Parcel, lease: Lease) -> None:
        process, world = self._process, self._process.world
        body = Body.of(self._seed, parcel)
        execution = Execution(world.seconds, process.name, lease.token, parcel.retries)
        self._history.fire(parcel.key).executions.append(execution)
        if world.lines is not None:
            world.say(process.name, f"runs {parcel.key.text} retry {parcel.retries} for {body.seconds:.3f} s")
        process.sleep(body.seconds)
        execution.ended = world.seconds
        if body.ends == "retries":
            self._again(replace(parcel, retries=parcel.retries + 1, put_back=False, deadline=None), body.countdown)
            retry_at = world.instant() + timedelta(seconds=body.countdown)
            self.lifecycle.close(Outcome(lease=lease, status=Status.SENT, retry_at=retry_at))
            return
        status, error = (Status.SUCCESS, None) if body.ends == "succeeds" else (Status.ERROR, "ValueError: no")
        self.lifecycle.close(Outcome(lease=lease, status=status, error=error))
