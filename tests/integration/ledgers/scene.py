"""Whole ticks of beats over one store of a kind, stepped by hand, with a hook at every call they make."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from celery_parrot.coordination.memory import MemoryCoordinator, MemoryServer
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Namespace
from celery_parrot.model.schedule import Kind, Schedule
from celery_parrot.protocols import Message, RowStore, ScheduleStore
from celery_parrot.stores.redis import RedisStore
from celery_parrot.testing import FakeClock, ManualBeat, RecordingSender
from celery_parrot.testing.conformance.schedule_store import make
from tests.integration.stores_redis.server import StoreServer
from tests.integration.stores_sql.database import SqlDatabase

KINDS: Mapping[str, Kind] = {"agent": Kind(name="agent", task="agents.run", queue="agents")}


class Died(BaseException):
    """The process was killed here. Not an Exception: nothing in it may survive that."""


def die() -> None:
    """An action for :meth:`Hooked.after`."""
    raise Died


def lose() -> None:
    """An action for :meth:`Hooked.after`: carried out, but the caller is not told."""
    raise Unreachable("the answer was lost")


class Hooked:
    """A coordinator or store that lets a script act between its calls. ``calls``: the names of all, in order;
    ``struck``: that of the one at which :meth:`at` acted."""

    def __init__(self, real: Any, journal: list[str] | None = None) -> None:
        self._real = real
        self.struck = ""
        self.calls = journal if journal is not None else []
        self._after: dict[str, list[Callable[[], object]]] = {}
        self._at: tuple[int, bool, Callable[[], object]] | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._strike(name, before=True)
            self.calls.append(name)
            answer = found(*args, **kwargs)
            self._strike(name, before=False)
            if self._after.get(name):
                self._after[name].pop(0)()
            return answer

        return call

    def after(self, name: str, do: Callable[[], object]) -> None:
        """Once, when the next call of this name was carried out, before its answer arrives."""
        self._after.setdefault(name, []).append(do)

    def at(self, number: int, do: Callable[[], object], *, before: bool) -> None:
        """Once, before or after the call of this number (from 0) of the journal."""
        self._at = (number, before, do)

    def _strike(self, name: str, *, before: bool) -> None:
        if self._at is None:
            return
        number, wanted, do = self._at
        if wanted is before and len(self.calls) - (0 if before else 1) == number:
            self._at = None
            self.struck = name
            do()


class Scene:
    """One coordinator, one store, beats. Time is the coordinator's; that of a database stands still meanwhile, so that
    an edit by it is made "before the due time", whenever it is made in the script."""

    def __init__(self, kind: str, namespace: Namespace) -> None:
        self.kind, self.namespace = kind, namespace
        self.beats: list[ManualBeat] = []
        self.hooks: dict[str, tuple[Hooked, ...]] = {}
        self.clock = FakeClock()

    # --- what differs ---

    def coordinator(self) -> Any:
        raise NotImplementedError

    def new_store(self) -> Any:
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        """The coordinator forgets everything."""
        raise NotImplementedError

    # --- what is shared ---

    @property
    def rows(self) -> bool:
        """Whether rows decide."""
        return self.kind != "redis"

    def beat(self, owner: str = "") -> ManualBeat:
        """One more, with hooks of its own: :func:`wire_of`, :func:`store_of`."""
        calls: list[str] = []
        coordinator = self.coordinator()
        store = Hooked(self.new_store() if self.rows else RedisStore(coordinator), calls)
        sender = RecordingSender()
        way_out = Hooked(sender, calls)
        setattr(sender, "send", way_out.send)  # noqa: B010
        wire = _preparing(Hooked(coordinator, calls))
        beat = ManualBeat(
            cast(Any, wire),
            [cast(ScheduleStore, store)],
            clock=self.clock,
            namespace=self.namespace,
            kinds=KINDS,
            owner=owner or f"b{len(self.beats) + 1}",
            rows=[cast(RowStore, store)] if self.rows else [],
            sender=sender,
        )
        self.hooks[beat.owner] = (wire, store, way_out)
        self.beats.append(beat)
        return beat

    def run(self, seconds: float, *beats: ManualBeat) -> None:
        """Tick them (all) in turn, once a second."""
        for _ in range(round(seconds)):
            self.advance(1.0)
            for beat in beats or self.beats:
                settle(beat)

    def sent(self) -> list[Message]:
        """What has reached the broker."""
        return [message for beat in self.beats for message in beat.sent]

    def due_times(self) -> list[str]:
        """Of what was sent, in order."""
        return sorted(message.headers[HEADER]["due_at"] for message in self.sent())


def settle(beat: ManualBeat) -> None:
    """Tick until it would sleep."""
    while beat.tick() == 0.0:
        pass


def _preparing(wire: Hooked) -> Hooked:
    """Its capabilities are seen by name."""
    for name in ("prepare", "discard", "uncarried", "carried"):
        setattr(wire, name, wire.__getattr__(name))
    return wire


def wire_of(beat: ManualBeat) -> Hooked:
    """A beat's way to the coordinator."""
    wire: Any = beat.ticker._coordinator
    assert isinstance(wire, Hooked)
    return wire


def store_of(beat: ManualBeat) -> Hooked:
    """A beat's way to the store."""
    store: Any = beat.ticker._stores._stores[0]
    assert isinstance(store, Hooked)
    return store


class OnRedis(Scene):
    """Coordinated by a real Redis; the store is a database's, or Redis too."""

    def __init__(self, kind: str, server: StoreServer, database: SqlDatabase | None) -> None:
        super().__init__(kind, server.namespace)
        self._server, self._database = server, database
        self.store: Any = self.new_store()

    def coordinator(self) -> RedisCoordinator:
        return self._server.coordinator()

    def new_store(self) -> Any:
        return self._server.store() if self._database is None else self._database.store(history_limit=1000)

    def now(self) -> datetime:
        return self._server.now()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._server.advance(seconds)

    def flush(self) -> None:
        self._server.redis.flushdb()


class InMemory(Scene):
    """Coordinated by the in-memory coordinator: milliseconds a story."""

    def __init__(self, kind: str, database: SqlDatabase) -> None:
        super().__init__(kind, Namespace("conformance"))
        self._database = database
        self.clock = FakeClock(database.now())
        self.server = MemoryServer(self.clock)
        self.store: Any = self.new_store()

    def coordinator(self) -> MemoryCoordinator:
        return MemoryCoordinator(self.namespace, server=self.server)

    def new_store(self) -> Any:
        return self._database.store(history_limit=1000)

    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def flush(self) -> None:
        self.server.flush()


def hourly(scene: Any, name: str = "a", prompt: str = "old", *, due_in: float = 30, **changes: Any) -> Schedule:
    """Due once in half a minute and then after an hour, so that no test begins on the edge of a due time."""
    config = {"seconds": 3600, "offset": (scene.now().timestamp() + due_in) % 3600}
    given = {"kind": "agent", "prompt": prompt, "schedule_config": config, "store": scene.store.name, **changes}
    return make(name, **given)


@contextlib.contextmanager
def opened(kind: str, server: StoreServer, databases: Any) -> Iterator[OnRedis]:
    """A scene of a kind: ``redis``, or a dialect."""
    yield OnRedis(kind, server, None if kind == "redis" else databases.get(kind))
