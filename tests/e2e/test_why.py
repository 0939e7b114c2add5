"""``celery -A app parrot why``, ``run-now`` and ``groups release`` as subprocesses, beside a real beat and worker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_cli import Shop
from tests.support.procs import ROOT, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.waiting import wait_until

APP = """
import os
from pathlib import Path
from celery import Celery
from celery_parrot import Parrot
from tests.support.waiting import wait_until

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.timezone = "Europe/Madrid"
app.conf.task_default_queue = "stock"
app.conf.beat_schedule = {
    "sync-stock": {"task": "shop.sync", "schedule": 1.0, "options": {"queue": "stock"}},
    "nightly": {"task": "shop.sync", "schedule_type": "daily", "schedule_config": {"hour": 3}},
    "hold": {"task": "shop.hold", "schedule": 1e6, "exclusion_group": "gpu", "options": {"queue": "stock"}},
}
parrot = Parrot(app)

@app.task(name="shop.sync")
def sync():
    return "42 rows"

@app.task(name="shop.hold")
def hold():
    wait_until(Path(__file__).with_name("go").exists, "the test to let go", 60)
"""


@pytest.fixture
def make_shop(tmp_path: Path) -> Callable[[str], Shop]:
    def make(broker: str) -> Shop:
        (tmp_path / "shop.py").write_text(APP)
        return Shop(tmp_path, broker)

    return make


def test_a_person_asks_why(make_shop: Callable[[str], Shop], private_redis: PrivateRedis, procs: Procs) -> None:
    """What ran, what is paused, and what cannot be answered, in one sentence."""
    shop = make_shop(private_redis.url())
    env = {"BROKER": shop.broker, "PYTHONPATH": os.pathsep.join([str(ROOT), str(shop.directory)])}
    procs.beat("shop", env=env)
    worker = procs.worker("shop", "--queues", "stock", env=env)
    fire = worker.wait_for_log(r"Task shop\.sync\[([0-9a-f-]{36})\] succeeded", 40)[1]

    def succeeded() -> Any:
        story = shop.json("why", "sync-stock", "--fire", fire)
        return story if story["verdict"] == "success" else None  # the worker's word, then the coordinator's

    story = wait_until(succeeded, "the outcome to be known", 20)
    assert story.keys() >= {"schedule", "due_at", "verdict", "steps", "next", "previous"}
    assert [step["what"] for step in story["steps"]] == ["schedule", "claimed", "sent", "started", "outcome"]
    told = shop.ask("why", "sync-stock", "--fire", fire).stdout.splitlines()
    assert told[0] == story["sentence"]
    assert told[0].startswith("sync-stock, due ")
    assert told[0].endswith(" Europe/Madrid, succeeded.")
    assert told[3].startswith("  It was sent to queue stock at ")
    assert told[5].endswith("Result: 42 rows.")

    assert shop.json("pause", "nightly", "--note", "stocktaking", "--by", "ann")["state"] == "paused"
    told = shop.ask("why", "nightly", "--at", "tomorrow 03:00").stdout.splitlines()
    assert told[0].startswith("nightly is due ")
    assert told[0].endswith(", but it is paused.")
    assert "with the note 'ann: stocktaking'" in told[2]

    asked = shop.ask("why", "nightly", "--at", "3 o'clock")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "must be an instant such as 2026-03-02T03:00" in asked.stderr.splitlines()[-1]

    held = shop.json("run-now", "hold")["fire_id"]

    def holder() -> Any:
        groups = shop.json("groups")
        return [one for group in groups for one in group["holders"] if one["state"] == "running"]

    (running,) = wait_until(holder, "the group to be held", 30)
    assert (running["fire_id"], running["name"]) == (held, "hold")
    again = shop.ask("run-now", "hold")
    assert (again.returncode, again.stdout) == (1, "")
    assert f"'hold' is running already: fire {held}" in again.stderr.splitlines()[-1]
    assert shop.json("groups", "release", "gpu", "--yes")["fire_id"] == held
    assert shop.json("why", "hold", "--fire", held)["verdict"] == "abandoned"
    assert shop.json("groups") == []
    (shop.directory / "go").touch()
