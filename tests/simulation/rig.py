"""What scripted interleavings need: one clock, one coordinator, beats stepped by hand, workers, a wire that breaks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, cast

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.dispatch.lifecycle import Lifecycle, WorkerCoordinator
from celery_parrot.dispatch.limits import Bounds
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.dispatch.ticker import TickSettings
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import FireKey, FireRecord, Namespace, Origin, Status
from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.protocols import Coordinator, Delivery, FinishReply, Lease, Message, Outcome, StartReply
from celery_parrot.stores.memory import CodeStore, Definition, fingerprint
from celery_parrot.testing import FakeClock, ManualBeat, RecordingEvents, RecordingSender
from celery_parrot.triggers import build

START = datetime(2026, 1, 1, 10, tzinfo=UTC)
NAMESPACE = Namespace("traces")


class Died(BaseException):
    """The process was killed here. What it would have done next never happens."""


class Wire:
    """A coordinator that breaks where a script says: ``wire.lose_reply("confirm")``, ``wire.out = True``."""

    def __init__(self, client: MemoryCoordinator) -> None:
        self.client = client
        self.timing = client.timing
        self.out = False
        self.calls: list[str] = []
        self._before: dict[str, deque[Callable[[], object]]] = {}
        self._after: dict[str, deque[Callable[[], object]]] = {}

    def __getattr__(self, name: str) -> Callable[..., Any]:
        carry = getattr(self.client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls.append(name)
            _run_next(self._before, name)
            if self.out:
                raise Unreachable("out")
            answer = carry(*args, **kwargs)
            _run_next(self._after, name)
            return answer

        return call

    def before(self, name: str, do: Callable[[], object]) -> None:
        """Once, before the next call of this name reaches the coordinator."""
        self._before.setdefault(name, deque()).append(do)

    def after(self, name: str, do: Callable[[], object]) -> None:
        """Once, when the next call of this name was carried out, before its answer arrives."""
        self._after.setdefault(name, deque()).append(do)

    def lose_reply(self, name: str) -> None:
        """Carried out, but the caller is not told."""
        self.after(name, _unreachable)

    def refuse(self, name: str) -> None:
        """Not carried out."""
        self.before(name, _unreachable)


def _run_next(actions: dict[str, deque[Callable[[], object]]], name: str) -> None:
    if actions.get(name):
        actions[name].popleft()()


def _unreachable() -> None:
    raise Unreachable("the connection broke")


def die() -> None:
    """An action for :meth:`Wire.before` and :meth:`Wire.after`."""
    raise Died


class Rig:
    """A clock that stands at 10:00 UTC, and everything that meets at one coordinator."""

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock(START)
        self.coordinator = self.connect()
        self.coordinator.attach()

    def connect(self) -> MemoryCoordinator:
        """The coordinator, as a new process sees it."""
        return MemoryCoordinator(NAMESPACE, server=self._server)

    @cached_property
    def _server(self) -> MemoryServer:
        return MemoryServer(self.clock)

    def at(self, seconds: float) -> datetime:
        """The instant so many seconds after 10:00."""
        return START + timedelta(seconds=seconds)

    def key(self, seconds: float, name: str = "s") -> FireKey:
        return FireKey(name, self.at(seconds))

    def beat(
        self, owner: str, *definitions: Definition, offset: float = 0.0, bounds: Bounds | None = None
    ) -> ManualBeat:
        """A beat with a wire of its own (:func:`wire_of`)."""
        clock = FakeClock(source=self.clock, offset=offset)
        wire = cast(Coordinator, Wire(self.connect()))
        store = CodeStore(definitions)
        settings = TickSettings(reap_interval=5.0)
        return ManualBeat(
            wire, [store], clock=clock, namespace=NAMESPACE, owner=owner, settings=settings, bounds=bounds
        )

    def worker(self, kind: type[Lifecycle] = Lifecycle) -> tuple[Lifecycle, Wire]:
        """A worker's lifecycle and its wire."""
        wire = Wire(self.connect())
        clock = FakeClock(source=self.clock)
        lifecycle = kind(cast(WorkerCoordinator, wire), clock, wire.timing.lease, namespace=NAMESPACE)
        return lifecycle, wire

    def start(self, delivery: Delivery) -> StartReply:
        (reply,) = self.coordinator.start([delivery])
        return reply

    def finish(self, delivery: Delivery, status: Status = Status.SUCCESS) -> FinishReply:
        (reply,) = self.coordinator.finish([ended(delivery, status)])
        return reply

    def record(self, key: FireKey) -> FireRecord:
        """The history entry of one fire."""
        return next(record for record in self.coordinator.fires(key.schedule_id) if record.key == key)

    def status(self, key: FireKey) -> Status:
        (claim,) = self.coordinator.claims([key])
        assert claim is not None
        return claim.status

    def keep_touched(self, seconds: float, *beats: ManualBeat, step: float = 0.5) -> None:
        """Let time pass with some beat talking to the coordinator all along."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            for beat in beats:
                beat.tick()
            if not beats:
                self.coordinator.beats()


def wire_of(beat: ManualBeat) -> Wire:
    wire: Any = beat.ticker._coordinator
    assert isinstance(wire, Wire)
    return wire


def every(
    seconds: float, name: str = "s", *, offset: float = 0.0, args: Sequence[Any] = (), **policy: Any
) -> Definition:
    """A code schedule, due ``offset`` seconds after each multiple of ``seconds``."""
    config = {"seconds": seconds, "offset": offset}
    schedule = Schedule(
        schedule_id=name,
        name=name,
        target="tasks.work",
        schedule_type="interval",
        schedule_config=config,
        args=tuple(args),
        policy=Policy(**policy),
    )
    when = fingerprint("interval", config, timezone="UTC")
    return Definition(schedule=schedule, trigger=build("interval", config), when=when)


def sent(*beats: ManualBeat) -> list[FireKey]:
    """The fires whose messages reached the broker, in the order of the beats."""
    return [key_of(message) for beat in beats for message in beat.sent]


def key_of(message: Message) -> FireKey:
    header = message.headers[HEADER]
    return FireKey(header["schedule_id"], datetime.fromisoformat(header["due_at"]))


def delivery_of(key: FireKey, token: str, **more: Any) -> Delivery:
    """One delivery of a fire's message, to the worker that its token names."""
    worker = token.partition("#")[0]
    return Delivery(
        key=key, name=key.schedule_id, kind="task", token=token, worker=worker, origin=Origin.SCHEDULE, **more
    )


def ended(delivery: Delivery, status: Status = Status.SUCCESS) -> Outcome:
    return Outcome(lease=Lease(delivery.key, delivery.token), status=status)


def broker(beat: ManualBeat, down: str = "") -> None:
    """Take a beat's broker down with this error, or bring it back."""
    assert isinstance(beat.sender, RecordingSender)
    beat.sender.down = down


def told(beat: ManualBeat, name: str) -> list[str]:
    """The texts of one event that a beat emitted."""
    assert isinstance(beat.events, RecordingEvents)
    return [event.text for event in beat.events.named(name)]
