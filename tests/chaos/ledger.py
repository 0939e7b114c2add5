"""What the coordinator has written down, read through the library's own reading methods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, Timing


def in_redis(url: str) -> bool:
    """Whether a coordinator's URL is that of a Redis server; else it is a database's."""
    return url.startswith(("redis://", "rediss://", "unix://"))


@contextlib.contextmanager
def open_ledger(url: str, name: str) -> Iterator[Coordinator]:
    """A coordinator connection, for reading only."""
    with contextlib.closing(_connect(url, name)) as coordinator:
        yield coordinator


def _connect(url: str, name: str) -> Coordinator:
    if in_redis(url):
        from celery_parrot.coordination.redis import RedisCoordinator

        return RedisCoordinator(url, Namespace(name), Timing())
    from celery_parrot.coordination.sql import SqlCoordinator

    return SqlCoordinator(url, Namespace(name), Timing())
