"""Limits of every coordinator, played against the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from celery_parrot.testing.conformance import Backend
from tests.conformance.limits_model import run_model
from tests.conformance.test_memory_coordinator import MemoryBackend
from tests.conformance.test_redis_coordinator import RedisBackend
from tests.integration.coordination_sql.backend import Engines
from tests.integration.stores_sql.database import SqlDatabase


def test_memory(full: bool) -> None:
    """In this process."""
    run_model(MemoryBackend, examples=2000 if full else 40)


def test_redis(redis_url: str, redis_client: Any, full: bool) -> None:
    """As scripts."""

    def make() -> Backend:
        redis_client.flushdb()
        return RedisBackend(redis_url, redis_client)

    run_model(make, examples=200 if full else 10)


def test_sql(tmp_path: Path, full: bool) -> None:
    """In a database."""
    database = SqlDatabase(f"sqlite:///{tmp_path / 'limits.sqlite3'}")
    engines = Engines()

    def make() -> Backend:
        return engines.backend(database)

    run_model(make, examples=60 if full else 4)
    engines.close()
    database.close()
