"""What the coordinator has written down, read through the library's own reading methods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from celery_parrot.model.fire import Namespace
from celery_parrot.protocols import Coordinator, Timing


@contextlib.contextmanager
def open_ledger(url: str, name: str) -> Iterator[Coordinator]:
    """A coordinator connection, for reading only."""
    from celery_parrot.coordination.redis import RedisCoordinator

    with contextlib.closing(RedisCoordinator(url, Namespace(name), Timing())) as coordinator:
        yield coordinator
