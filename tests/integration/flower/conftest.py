"""Flower with our pages in it, and one route more, that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from celery import Celery

from celery_parrot.coordination.redis import PERMANENT_KEYS
from celery_parrot.stores.redis import PERMANENT_KEYS as PERMANENT_IN_STORE
from tests.integration.flower.served import Served, serve


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return [*PERMANENT_KEYS, *PERMANENT_IN_STORE]


@pytest.fixture
def app() -> Celery:
    """An app without a coordinator."""
    return Celery("flowers", broker="memory://", set_as_current=False)


@pytest.fixture
def start(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """``start(basic_auth=["ann:secret"])``: Flower with these options, over ``app`` or the one given."""
    monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API", raising=False)
    with ExitStack() as stack:

        def started(of: Celery | None = None, **options: Any) -> Served:
            return stack.enter_context(serve(of or app, **options))

        yield started
