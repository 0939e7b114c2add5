"""The connection: made late, made anew after a fork, quick to fail, and the one place that translates errors."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import redis
from redis.exceptions import NoScriptError, RedisClusterException, RedisError, ResponseError

from celery_parrot.clock import Clock, SystemClock
from celery_parrot.coordination.redis.clients import DEFAULTS, no_retry
from celery_parrot.coordination.redis.scripts import Script
from celery_parrot.errors import Unreachable
from celery_parrot.model.secrets import mask

Target = str | Callable[[], "redis.Redis"]

#: Longest pause between two tries to reach a server that is away, in seconds; the first is a twentieth of it.
_LONGEST_PAUSE: Final = 1.0
_FIRST_PAUSE: Final = 0.05


def _about_data(exc: ResponseError) -> bool:
    """The server is well, and every other call may go on: only what this one asked for cannot be read."""
    return "WRONGTYPE" in str(exc)


class Link:
    """One server as one process sees it. Thread-safe, and usable on both sides of a fork.

    A failed call is never repeated here: its answer may be lost although it was carried out, so it surfaces as
    :exc:`~celery_parrot.errors.Unreachable` and the caller decides. While the server is away, calls fail at once
    for up to a second between two tries.

    :param target: a Redis URL (``redis://``, ``rediss://``, ``unix://``, also with ``valkey``), or a function that
        makes a client (:mod:`~celery_parrot.coordination.redis.clients` has two). The function is called again after
        a fork, so it must not hand out one client twice; the client it makes should not retry
        (``retry=Retry(NoBackoff(), 0)``) and must not decode answers.
    :param options: keyword arguments for the client made from a URL, e.g. ``ssl_ca_certs``.
    """

    def __init__(self, target: Target, options: Mapping[str, Any] | None = None, clock: Clock | None = None) -> None:
        self._target = target
        self._options = dict(options or {})
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._client: redis.Redis | None = None
        self._inherited: list[redis.Redis] = []
        self._pid = os.getpid()
        self._pause = 0.0
        self._away_until = 0.0
        self._last_error = ""

    def __repr__(self) -> str:
        return f"Link({self.name!r})"

    @property
    def name(self) -> str:
        """What it talks to, without credentials."""
        if isinstance(self._target, str):
            return mask(self._target)
        return str(getattr(self._target, "name", "redis"))

    def run(self, script: Script, keys: Sequence[str], args: Sequence[bytes | str]) -> Any:
        """Run a script; load it on the way if the server does not have it.

        :raises Unreachable: if the server could not be asked, or its answer was lost."""

        def call(client: Any) -> Any:
            try:
                return client.execute_command("EVALSHA", script.sha, len(keys), *keys, *args)
            except NoScriptError:  # started, flushed or failed over since: nothing was carried out
                return client.execute_command("EVAL", script.text, len(keys), *keys, *args)

        return self.do(call)

    def do(self, call: Callable[[redis.Redis], Any]) -> Any:
        """Call ``call`` with the client. The only place where this package meets the errors of the client library.

        :raises Unreachable: if the server could not be asked, or its answer was lost."""
        self._after_fork()
        away = self._away_until - self._clock.monotonic()
        if away > 0:
            raise Unreachable(f"{self.name}: {self._last_error}; next try in {away:.1f} s")
        try:
            answer = call(self.client())
        except ResponseError as exc:
            if not _about_data(exc):
                self._failed(exc)
                raise Unreachable(f"{self.name}: {self._last_error}") from exc
            raise Unreachable(f"{self.name}: {type(exc).__name__}: {exc}") from exc
        except (RedisError, RedisClusterException, OSError) as exc:
            self._failed(exc)
            raise Unreachable(f"{self.name}: {self._last_error}") from exc
        self._pause = 0.0
        return answer

    def client(self) -> redis.Redis:
        """This process's client. Connects when first used."""
        self._after_fork()
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._after_fork()
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    # --- inside ---

    def _make(self) -> redis.Redis:
        if not isinstance(self._target, str):
            return self._target()
        url = re.sub(r"^valkey(s?)://", r"redis\1://", self._target)
        options = {**DEFAULTS, "retry": no_retry(), **self._options}
        if url.startswith("unix://"):
            del options["socket_keepalive"]  # no option of such a socket
        client: redis.Redis = redis.Redis.from_url(url, **options)
        return client

    def _failed(self, exc: Exception) -> None:
        self._last_error = f"{type(exc).__name__}: {exc}"
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._away_until = self._clock.monotonic() + self._pause

    def _after_fork(self) -> None:
        """A client made before a fork shares its sockets with the parent: never use it, nor close it."""
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._lock = threading.Lock()  # the parent's may have been held
        if self._client is not None:
            self._inherited.append(self._client)
        self._client = None
        self._pause = self._away_until = 0.0
