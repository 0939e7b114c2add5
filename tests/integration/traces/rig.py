"""The rig of the scripted interleavings on real servers: one clock for beats, workers and the server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.coordination.redis.scripts import Script
from celery_parrot.testing import FakeClock
from celery_parrot.testing.conformance import TIMING
from tests.conformance.test_redis_coordinator import RedisBackend
from tests.integration.coordination_sql.backend import Engines
from tests.integration.stores_sql.database import SqlDatabase
from tests.simulation.rig import NAMESPACE, START, Rig


class ServerRig(Rig):
    """As :class:`Rig`, with its coordinator on a server.

    :param clock: what everybody goes by, the server included.
    :param client: makes one more client of the server.
    """

    def __init__(self, clock: FakeClock, client: Callable[[], Any]) -> None:
        self._client = client
        super().__init__(clock)

    def connect(self) -> MemoryCoordinator:
        # A trace asks nothing of it that is not in the protocols, or it fails here.
        return cast(MemoryCoordinator, self._client())


class _AgingClock(FakeClock):
    """What expires in Redis grows older as this clock moves."""

    def __init__(self, ages: RedisBackend) -> None:
        super().__init__(START)
        self._ages = ages

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._ages.advance(seconds)


class _Told(RedisCoordinator):
    """Its scripts take the time from the test's clock instead of the server's, so that a busy machine ages nobody."""

    told: FakeClock

    def _run(self, what: Script, known: str, payload: Mapping[str, Any]) -> Any:
        self.clock_offset = self.told.now().timestamp()
        return super()._run(_without_clock(what), known, payload)


@cache
def _without_clock(what: Script) -> Script:
    """The script on a server whose clock says 1970, so that the offset is the time."""
    text = what.text.replace("redis.call('TIME')", "{0, 0}")
    assert text != what.text
    return Script(what.name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def on_redis(url: str, client: Any) -> tuple[ServerRig, Callable[[], None]]:
    """On that server, and what closes its connections."""
    clock = _AgingClock(RedisBackend(url, client))
    clients: list[RedisCoordinator] = []

    def connect() -> RedisCoordinator:
        made = _Told(url, NAMESPACE, TIMING)
        made.told = clock
        clients.append(made)
        return made

    def close() -> None:
        for made in clients:
            made.close()

    return ServerRig(clock, connect), close


def on_sql(database: SqlDatabase, engines: Engines) -> ServerRig:
    """In that database, emptied."""
    clock = FakeClock(START)
    backend = engines.backend(database)

    def connect() -> Any:
        made: Any = backend.client(NAMESPACE.name)
        made.stands_at = clock
        return made

    return ServerRig(clock, connect)
