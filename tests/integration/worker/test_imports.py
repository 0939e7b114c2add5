"""What a worker's main process has imported before its pool is forked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from celery_parrot.stores.sql import upgrade

_PROGRAM = """
import json, sys
from celery import Celery, signals
from celery.worker import WorkController
import celery_parrot
from celery_parrot.clock import SystemClock
from celery_parrot.runtime.wiring import connect

app = Celery(broker="memory://")
app.conf.update(json.loads(sys.argv[1]))
parrot = celery_parrot.Parrot(app)
app.finalize()
signals.worker_init.send(sender=WorkController(app=app, pool="solo"))
before = set(sys.modules)
coordinator = connect(parrot.settings, SystemClock())
coordinator.attach()
coordinator.claims([])
coordinator.close()
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def _imported_late(**conf: str) -> list[str]:
    """What the first call of a coordinator imports in a worker that has started."""
    result = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(conf)], capture_output=True, text=True, check=True, timeout=60
    )
    found: list[str] = json.loads(result.stdout.splitlines()[-1])
    return found


def test_a_process_that_replaces_another_has_nothing_left_to_import(redis_url: str) -> None:
    """A thread of the main process that still imported when it was forked would leave it a module locked for ever."""
    assert _imported_late(parrot_redis_url=redis_url) == []


@pytest.mark.parametrize("server", ["postgresql_url", "mysql_url", ""])
def test_nor_where_a_database_coordinates(server: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(server) if server else f"sqlite:///{tmp_path / 'beats.db'}"
    upgrade(url)
    assert _imported_late(parrot_coordination="db", parrot_database_url=url) == []
