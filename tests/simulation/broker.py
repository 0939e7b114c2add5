"""A broker of lists: delivers in order, takes back what a dead worker had not acknowledged; and a beat's way to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from celery_parrot.dispatch.routing import HEADER
from celery_parrot.model.fire import FireKey, Origin
from celery_parrot.protocols import Message, SendResult, SendStatus
from tests.simulation.faults import Fault
from tests.simulation.history import Publish
from tests.simulation.wire import Net
from tests.simulation.world import Process, Thread

UNSENDABLE = "unsendable"
"""Name of the task whose messages cannot be serialised."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One message in the broker."""

    key: FireKey
    name: str
    kind: str
    task_id: str
    origin: Origin
    attempt: int = 1
    retries: int = 0
    put_back: bool = False
    deadline: datetime | None = None
    limits: bool = False
    tag: int = 0

    @classmethod
    def of(cls, message: Message) -> Parcel:
        header = message.headers[HEADER]
        key = FireKey(header["schedule_id"], datetime.fromisoformat(header["due_at"]), header.get("nonce", ""))
        origin = Origin(header["origin"])
        deadline = datetime.fromisoformat(header["deadline"]) if header.get("deadline") else None
        more = {"deadline": deadline, "limits": header.get("limits", False)}
        return cls(key, header["name"], header["kind"], message.task_id, origin, header["attempt"], **more)


class Broker:
    """:ivar late: acknowledged after the body, redelivered at once when the worker dies; else before it."""

    def __init__(self, net: Net, *, late: bool) -> None:
        self.net, self.late = net, late
        self.out_until = 0
        self._ready: deque[Parcel] = deque()
        self._hungry: deque[tuple[Process, Thread]] = deque()
        self._unacked: dict[int, tuple[Parcel, Process]] = {}
        self._coming: dict[int, Parcel] = {}
        self._in_hand: dict[int, Parcel] = {}
        self._tags = 0
        self.sending: dict[FireKey, int] = {}

    @property
    def empty(self) -> bool:
        return not (self._ready or self._unacked or self._coming)

    @property
    def keys(self) -> frozenset[FireKey]:
        """The fires with a message here, on its way here, or in a worker that has not opened it yet."""
        held = [*self._in_hand.values(), *(parcel for parcel, _ in self._unacked.values())]
        on_its_way = [key for key, count in self.sending.items() if count]
        return frozenset([*(parcel.key for parcel in (*self._ready, *self._coming.values(), *held)), *on_its_way])

    def put(self, parcel: Parcel, countdown: float = 0.0) -> None:
        self._put(parcel, countdown)
        if self.net.weather.twice(self.net.world.random):
            self._put(parcel, countdown + self.net.world.random.choice((0.0, 0.3, 3.0, 20.0)))

    def _put(self, parcel: Parcel, countdown: float) -> None:
        self._tags += 1
        tag = self._tags
        self._coming[tag] = replace(parcel, tag=tag)
        self.net.world.later(countdown, lambda: self._arrive(tag))

    def _arrive(self, tag: int) -> None:
        self._ready.append(self._coming.pop(tag))
        self._feed()

    def _feed(self) -> None:
        while self._hungry and not self._hungry[0][0].alive:
            self._hungry.popleft()
        if self._hungry:
            self._hungry.popleft()[1].wake()

    def get(self, process: Process) -> Parcel:
        """The next message; blocks while there is none. Acknowledged at once unless :attr:`late`."""
        while not self._ready:
            self._hungry.append((process, process.current()))
            process.park(None)
        parcel = self._ready.popleft()
        self._unacked[parcel.tag] = (parcel, process)
        if self._ready:
            self._feed()
        return parcel

    def ack(self, parcel: Parcel, *, early: bool = False) -> None:
        self._unacked.pop(parcel.tag, None)
        if early:
            self._in_hand[parcel.tag] = parcel

    def opened(self, parcel: Parcel, *, swallowed: bool = False) -> None:
        """A message acknowledged early is no longer needed, or gone with its worker."""
        if self._in_hand.pop(parcel.tag, None) is not None and swallowed:
            self.net.history.fire(parcel.key).swallowed += 1

    def died(self, process: Process) -> None:
        """A consumer's connection is gone: what it had not acknowledged is first in line again."""
        for tag, (parcel, holder) in sorted(self._unacked.items(), reverse=True):
            if holder is process:
                del self._unacked[tag]
                self._ready.appendleft(parcel)
        for _ in self._ready:
            self._feed()


class BrokerSender:
    """A :class:`~celery_parrot.protocols.Sender`: one publish a step."""

    def __init__(self, broker: Broker, process: Process) -> None:
        self._broker, self._process = broker, process

    def send(self, messages: Sequence[Message], until: float) -> Sequence[SendResult]:
        results: list[SendResult] = []
        for message in messages:
            failed = bool(results) and results[-1].status in (SendStatus.FAILED, SendStatus.NOT_TRIED)
            if failed or self._process.monotonic() > until:
                results.append(SendResult(SendStatus.NOT_TRIED))
            elif message.task == UNSENDABLE:
                results.append(SendResult(SendStatus.BROKEN, "not serialisable"))
            elif HEADER not in message.headers:  # it tells somebody of a fire
                results.append(SendResult(SendStatus.SENT))
            else:
                results.append(self._publish(Parcel.of(message)))
        return results

    def _publish(self, parcel: Parcel) -> SendResult:
        net, process = self._broker.net, self._process
        begun = net.world.seconds
        net.witness.publishing(process.name, parcel.key)
        self._broker.sending[parcel.key] = self._broker.sending.get(parcel.key, 0) + 1
        try:
            return self._deliver(parcel, begun)
        finally:
            self._broker.sending[parcel.key] -= 1

    def _deliver(self, parcel: Parcel, begun: float) -> SendResult:
        net, process, world = self._broker.net, self._process, self._broker.net.world
        fault = net.weather.on_publish(world.random)
        slow = world.random.uniform(0.5, 2.9) if fault is Fault.SLOW else 0.0
        if slow:
            net.trouble(process, slow)
        process.sleep(net.latency() + slow)
        if fault is Fault.CRASH_BEFORE:
            world.say(process.name, "crashes before a publish")
            process.kill()
        if world.now < self._broker.out_until:
            self._note(parcel, begun, delivered=False)
            process.sleep(world.random.choice((0.001, 1.0, 2.9)))
            return SendResult(SendStatus.FAILED, "connection refused")
        if fault is Fault.REFUSED:
            self._note(parcel, begun, delivered=False, fails=True)
            return SendResult(SendStatus.FAILED, "refused")
        if fault is Fault.STRAY:
            self._broker.put(parcel, world.random.uniform(0.0, 3.0))
            self._note(parcel, begun, delivered=False, fails=True)
            return SendResult(SendStatus.FAILED, "no confirm in time")
        self._broker.put(parcel)
        self._note(parcel, begun, delivered=True, fails=fault is Fault.DOUBTFUL)
        if fault is Fault.CRASH_AFTER:
            world.say(process.name, "crashes after a publish")
            process.kill()
        process.sleep(net.latency())
        return (
            SendResult(SendStatus.FAILED, "connection lost") if fault is Fault.DOUBTFUL else SendResult(SendStatus.SENT)
        )

    def _note(self, parcel: Parcel, begun: float, *, delivered: bool, fails: bool = False) -> None:
        net, now = self._broker.net, self._broker.net.world.seconds
        log = net.history.fire(parcel.key)
        log.published.append(Publish(begun, self._process.name, parcel.task_id, delivered))
        if fails or not delivered:
            net.history.broker_troubles.append((begun, now + 6.0))  # it is tried again after a pause
        if net.world.lines is not None:
            net.world.say(self._process.name, f"publishes {parcel.key.text}{'' if delivered else ': fails'}")

    def close(self) -> None:
        """Nothing to close."""
