"""Waking beats over pub/sub."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from typing import Any, Final

from redis.client import PubSub
from redis.exceptions import RedisError

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.coordination.redis.keys import key
from celery_parrot.coordination.redis.link import Link, Target
from celery_parrot.errors import Unreachable
from celery_parrot.model.fire import Namespace

#: How long a wait goes without looking whether it was closed, in seconds.
_SLICE: Final = 0.25


class RedisWake:
    """A :class:`~celery_parrot.protocols.WakeChannel` on the channel ``wake`` of a registered name.

    The subscription stays open between two waits, so a wake-up in the meantime is kept by the socket. A wait that
    had to subscribe anew answers true: what was said while nobody listened is not known.
    """

    def __init__(
        self,
        target: Target | Link,
        namespace: Namespace,
        *,
        options: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        self._link = target if isinstance(target, Link) else Link(target, options, self._clock)
        self._channel = key(namespace, "wake")
        self._pubsub: PubSub | None = None
        self._pid = os.getpid()
        self._closed = threading.Event()

    def __repr__(self) -> str:
        return f"RedisWake({self._link.name!r}, {self._channel!r})"

    def wait(self, seconds: float) -> bool:
        """Block for at most ``seconds``; true if woken. For one thread at a time."""
        if self._pid != os.getpid():
            self._pid, self._pubsub = os.getpid(), None  # the parent's, not ours to read or to close
        deadline = self._clock.monotonic() + seconds
        try:
            if self._pubsub is None:
                self._subscribe()
                return True
            return self._listen(self._pubsub, deadline)
        except (Unreachable, RedisError, OSError, ValueError):  # ValueError: the socket was closed under select
            self._drop()
            self._clock.wait(self._closed, max(deadline - self._clock.monotonic(), 0.0))
            return False

    def wake(self) -> None:
        """Wake every beat of this registered name, at best effort."""
        with contextlib.suppress(Unreachable):
            self._link.do(lambda client: client.publish(self._channel, b"1"))

    def close(self) -> None:
        """Stop listening; a wait in another thread ends soon."""
        self._closed.set()
        if self._pid == os.getpid():
            self._drop()
        self._link.close()

    # --- inside ---

    def _subscribe(self) -> None:
        def subscribe(client: Any) -> PubSub:
            pubsub: PubSub = client.pubsub(ignore_subscribe_messages=True)
            try:
                pubsub.subscribe(self._channel)
                pubsub.get_message(timeout=2.0)  # the server has it: from here on nothing is missed
            except BaseException:
                pubsub.close()
                raise
            return pubsub

        self._pubsub = self._link.do(subscribe)

    def _listen(self, pubsub: PubSub, deadline: float) -> bool:
        while not self._closed.is_set():
            left = deadline - self._clock.monotonic()
            if pubsub.get_message(timeout=max(min(left, _SLICE), 0.0)) is not None:
                while pubsub.get_message(timeout=0.0) is not None:
                    pass  # many wake-ups are one
                return True
            if left <= 0:
                return False
        return False

    def _drop(self) -> None:
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            with contextlib.suppress(RedisError, OSError):
                pubsub.close()
