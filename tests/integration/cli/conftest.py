"""The verbs in this process: an app on Redis and a database file, asked as the command line asks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner, Result

from celery_parrot.cli import parrot
from celery_parrot.client import Schedules
from celery_parrot.clock import SystemClock
from celery_parrot.coordination.redis import PERMANENT_KEYS
from celery_parrot.runtime.clients import of_app
from celery_parrot.stores.redis import PERMANENT_KEYS as PERMANENT_IN_STORE
from celery_parrot.stores.sql import upgrade


@dataclass
class Shop:
    """One app."""

    app: Celery

    def ask(self, *arguments: str, typed: str | None = None) -> Result:
        """``celery -A shop parrot ARGUMENTS``, with something on standard input."""
        return CliRunner().invoke(
            parrot, list(arguments), input=typed, obj=SimpleNamespace(app=self.app), catch_exceptions=False
        )

    def says(self, *arguments: str, typed: str | None = None) -> str:
        """What it prints, when it succeeds."""
        result = self.ask(*arguments, typed=typed)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str, typed: str | None = None) -> Any:
        return json.loads(self.says(*arguments, "--json", typed=typed))

    def fails(self, *arguments: str, typed: str | None = None, code: int = 1) -> str:
        """What is wrong, in one sentence."""
        result = self.ask(*arguments, typed=typed)
        assert result.exit_code == code, result.output
        *_, last = result.stderr.strip().splitlines()
        return last

    @property
    def schedules(self) -> Schedules:
        return of_app(self.app, SystemClock())


@pytest.fixture
def permanent_keys() -> Sequence[str]:
    return (*PERMANENT_KEYS, *PERMANENT_IN_STORE)


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "empty.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def shop(redis_url: str, tmp_path: Path, template: Path) -> Iterator[Shop]:
    path = tmp_path / "shop.db"
    path.write_bytes(template.read_bytes())
    app = Celery("shop", broker=redis_url, set_as_current=False)
    app.conf.update(
        timezone="Europe/Madrid",
        result_expires=None,  # no entry of Celery's own
        parrot_database_url=f"sqlite:///{path}",
        parrot_kinds={"report": {"task": "shop.report"}},
        beat_schedule={"sync-stock": {"task": "shop.sync", "schedule": 60.0}},
    )

    @app.task(name="shop.sync", shared=False)
    def sync() -> None: ...

    yield Shop(app)
    app.close()
