"""Flower with our pages in it, and one route more, that writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_parrot.coordination.redis import PERMANENT_KEYS
from celery_parrot.stores.redis import PERMANENT_KEYS as PERMANENT_IN_STORE
from celery_parrot.stores.sql import upgrade
from tests.integration.flower.asking import Api, api_of, shop
from tests.integration.flower.served import Served, serve


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return [*PERMANENT_KEYS, *PERMANENT_IN_STORE]


@pytest.fixture
def app() -> Celery:
    """An app without a coordinator."""
    return Celery("flowers", broker="memory://", set_as_current=False)


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("database") / "empty.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def database(_migrated: Path, tmp_path: Path) -> str:
    """The URL of a database with our tables."""
    return f"sqlite:///{shutil.copy(_migrated, tmp_path / 'shop.db')}"


@pytest.fixture
def open_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower's switch for an API without authentication is on."""
    monkeypatch.setenv("FLOWER_UNAUTHENTICATED_API", "1")


@pytest.fixture
def api(redis_url: str, database: str, open_to_all: None) -> Iterator[Api]:
    """The API over an app with schedules in code, database and Redis."""
    with api_of(shop(redis_url, database)) as found:
        yield found


@pytest.fixture
def start(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    """``start(basic_auth=["ann:secret"])``: Flower with these options, over ``app`` or the one given."""
    monkeypatch.delenv("FLOWER_UNAUTHENTICATED_API", raising=False)
    with ExitStack() as stack:

        def started(of: Celery | None = None, **options: Any) -> Served:
            return stack.enter_context(serve(of or app, **options))

        yield started
