"""Short ways to what these tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_parrot.coordination.redis import RedisCoordinator
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Namespace
from celery_parrot.testing.conformance import TIMING, Scene
from tests.support.waiting import monotonic, wait_until

NAME = Namespace("main")


class NoBackend:
    """A scene asks for one; these tests let real time pass."""

    def client(self, name: str = "") -> Any:
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        raise NotImplementedError

    def flush(self) -> None:
        raise NotImplementedError

    def change_server(self) -> None:
        raise NotImplementedError


def scene_of(coordinator: RedisCoordinator) -> Scene:
    return Scene(coordinator, NoBackend())


def connect(url: str, namespace: Namespace = NAME, **options: Any) -> RedisCoordinator:
    return RedisCoordinator(url, namespace, TIMING, options=options)


def fails_within(seconds: float, call: Callable[[], object]) -> Unreachable:
    """``call`` raises Unreachable, and in time."""
    start = monotonic()
    with pytest.raises(Unreachable) as caught:
        call()
    taken = monotonic() - start
    assert taken < seconds, f"it took {taken:.2f} s to notice"
    return caught.value


def answers_again(call: Callable[[], object], seconds: float = 5.0) -> None:
    """``call`` works again soon: reconnecting backs off to at most a second."""

    def works() -> bool:
        call()
        return True

    wait_until(works, "the coordinator to answer again", seconds)
