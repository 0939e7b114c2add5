"""What the tests of the beat side share: an app's environment, and a look into its queues."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from kombu import Connection

from tests.support.procs import Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = "tests.integration.beat.app"


def env(broker: str, *, parrot: bool = False, local: bool = False, **settings: Any) -> dict[str, str]:
    """The environment of :mod:`tests.integration.beat.app`."""
    found = {"TEST_BROKER": broker, "TEST_SETTINGS": json.dumps(settings)}
    return found | ({"TEST_PARROT": "1"} if parrot else {}) | ({"TEST_LOCAL": "1"} if local else {})


class Mailbox:
    """Takes task messages from a broker's queues."""

    def __init__(self, url: str) -> None:
        self._connection = Connection(url)
        self._queues: dict[str, Any] = {}

    def take(self, queue: str, timeout: float = 15.0) -> Any:
        """The next message of ``queue``; waits for one."""
        return wait_until(lambda: self._get(queue), f"a message in {queue}", timeout)

    def several(self, queue: str, count: int, timeout: float = 15.0) -> list[Any]:
        """The next ``count`` messages of ``queue``."""
        return [self.take(queue, timeout) for _ in range(count)]

    def drain(self, queue: str) -> list[Any]:
        """All there are now."""
        found = []
        while (message := self._get(queue)) is not None:
            found.append(message)
        return found

    def _get(self, queue: str) -> Any:
        if queue not in self._queues:
            self._queues[queue] = self._connection.SimpleQueue(queue)
        simple = self._queues[queue]
        try:
            message = simple.get(block=False)
        except simple.Empty:
            return None
        message.ack()
        return message

    def close(self) -> None:
        for queue in self._queues.values():
            queue.close()
        self._connection.release()


@pytest.fixture
def mailbox() -> Iterator[Callable[[str], Mailbox]]:
    made: list[Mailbox] = []

    def make(url: str) -> Mailbox:
        made.append(Mailbox(url))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def beats(private_redis: PrivateRedis) -> Iterator[Callable[[], dict[str, dict[str, Any]]]]:
    """The ``beats`` hash: owner id to what it says of itself."""
    with private_redis.client() as client:

        def look() -> dict[str, dict[str, Any]]:
            raw: Any = client.hgetall("parrot:scheduler:scheduler_manager:beats")
            return {owner: json.loads(text) for owner, text in raw.items()}

        yield look


def keys(client: redis.Redis) -> list[str]:
    """Every key of ours."""
    found: Any = client.keys("parrot:*")
    return sorted(found)


__all__ = ["APP", "Mailbox", "Procs", "env", "keys"]
