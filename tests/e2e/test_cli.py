"""The verbs of ``celery -A app parrot`` as subprocesses, against a server and a beat of the test's own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.procs import ROOT, Procs
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port
from tests.support.waiting import monotonic, wait_until

APP = """
import os
from celery import Celery
from celery.schedules import crontab
from celery_parrot.runtime.parrot import Parrot

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.timezone = "Europe/Madrid"
app.conf.beat_schedule = {
    "sync-stock": {"task": "shop.sync", "schedule": 1.0},
    "open-shop": {"task": "shop.open", "schedule": crontab(hour="9", minute="30")},
    "switched-off": {"task": "shop.open", "schedule_type": "daily", "schedule_config": {"hour": 3}, "enabled": False},
    "long-over": {"task": "shop.open", "schedule_type": "once", "schedule_config": {"run_date": "2020-01-01T00:00:00"}},
    "wrong": {"task": "shop.open", "schedule_type": "cron", "schedule_config": {"expr": "0 25 * * *"}},
}
parrot = Parrot(app)

@app.task(name="shop.sync")
def sync(): ...

@parrot.schedule("weekly", day_of_week="mon", name="report")
@app.task(name="shop.report")
def report(): ...
"""


@dataclass(frozen=True)
class Shop:
    """An app in a directory, and a way to ask it."""

    directory: Path
    broker: str

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``celery -A shop parrot ARGUMENTS``."""
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(self.directory)]),
            "BROKER": self.broker,
            "COLUMNS": "100",
        }
        return subprocess.run(
            [sys.executable, "-m", "celery", "-A", "shop", "parrot", *arguments],
            env=env, cwd=self.directory, capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip

    def json(self, *arguments: str) -> Any:
        """The answer with ``--json``."""
        result = self.ask(*arguments, "--json")
        assert result.returncode == 0, result.stdout + result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def make_shop(tmp_path: Path) -> Callable[[str], Shop]:
    def make(broker: str) -> Shop:
        (tmp_path / "shop.py").write_text(APP)
        return Shop(tmp_path, broker)

    return make


@pytest.fixture
def shop(make_shop: Callable[[str], Shop], private_redis: PrivateRedis) -> Shop:
    """On a server of its own."""
    return make_shop(private_redis.url())


@pytest.fixture
def nowhere(make_shop: Callable[[str], Shop]) -> Shop:
    """Nobody listens there."""
    return make_shop(f"redis://127.0.0.1:{free_port()}/0")


def beat_of(shop: Shop, procs: Procs) -> None:
    """Start a beat and wait until it has sent something."""
    env = {"BROKER": shop.broker, "PYTHONPATH": os.pathsep.join([str(ROOT), str(shop.directory)])}
    procs.beat("shop", env=env)
    wait_until(lambda: [f for f in shop.json("fires", "sync-stock") if f["status"] == "sent"], "a fire", 30)


def rows(result: subprocess.CompletedProcess[str]) -> Sequence[str]:
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def test_what_a_running_beat_shows(shop: Shop, procs: Procs) -> None:
    """Every verb, in both forms."""
    beat_of(shop, procs)

    (beat,) = shop.json("beats")
    assert (beat["pid"], beat["state"]) == (procs["beat-1"].pid, "alive")
    assert rows(shop.ask("beats"))[1].startswith("alive")

    health = shop.json("health")
    assert (health["healthy"], health["beats_alive"]) == (True, 1)
    assert rows(shop.ask("health"))[0].startswith("ok: 1 beat is alive, Redis at redis://127.0.0.1:")

    fires = shop.json("fires", "sync-stock", "--limit", "2")
    assert len(fires) <= 2
    assert {"schedule_id", "due_at", "fire_id", "origin", "status", "attempt", "sent_at"} <= fires[0].keys()
    assert fires[0]["schedule_id"] == "sync-stock"
    assert rows(shop.ask("fires", "sync-stock"))[0].split()[:4] == ["due", "(Europe/Madrid)", "status", "late"]
    assert rows(shop.ask("fires", "report")) == ["report has no fires yet."]

    states = {each["name"]: each["state"] for each in shop.json("list")}
    assert states == {
        "sync-stock": "active",
        "open-shop": "active",
        "switched-off": "paused",
        "long-over": "completed",
        "wrong": "broken",
        "report": "active",
        "celery.backend_cleanup": "active",  # Celery's own, where the backend does not clean up by itself
    }
    fired = r"sync-stock +Every second +task +active +.* ago +in "
    wait_until(lambda: re.search(fired, shop.ask("list").stdout), "a fire to be listed")
    listed = {line.split()[0]: line for line in rows(shop.ask("list"))}
    assert re.search(r"open-shop +At 09:30 +task +active +in ", listed["open-shop"])
    assert "hour = '25'" in listed["wrong"] or "25" in listed["wrong"]
    assert len(listed) == 8

    (stock,) = [each for each in shop.json("list", "--kind", "task") if each["name"] == "sync-stock"]
    assert stock["run_state"]["run_count"] >= 1
    assert stock["run_state"]["last_due"] is not None
    assert stock["schedule_config"] == {"seconds": 1.0}
    assert shop.json("list", "--kind", "nothing") == []


def test_a_beat_that_is_gone_is_seen(shop: Shop, procs: Procs) -> None:
    """By the probe, in a sentence."""
    before = shop.ask("health")
    assert (before.returncode, before.stdout) == (1, "not healthy: no beat of scheduler_manager is alive\n")
    assert "No beat of scheduler_manager is known" in rows(shop.ask("beats"))[0]
    beat_of(shop, procs)
    procs["beat-1"].kill()
    wait_until(lambda: shop.ask("health").returncode == 1, "the beat to be missed", 15)
    answer = json.loads(shop.ask("health", "--json").stdout)
    assert (answer["healthy"], answer["beats_alive"], answer["beats_silent"]) == (False, 0, 1)
    assert rows(shop.ask("beats"))[1].startswith("silent")


def test_next_and_preview_need_no_server(nowhere: Shop) -> None:
    """They are computed here, in the app's time zone."""
    assert [each["local"][11:19] for each in nowhere.json("next", "open-shop", "--count", "3")] == ["09:30:00"] * 3
    assert rows(nowhere.ask("next", "open-shop"))[0].startswith("At 09:30 (Europe/Madrid")
    assert rows(nowhere.ask("next", "long-over"))[-1] == "long-over will not be due again."
    moved = nowhere.ask("preview", "cron", "30 2 * * *", "--from", "2026-03-28", "--count", "2")
    assert "2026-03-29 03:00:00 +02:00" in moved.stdout
    assert "moved: 02:30 does not exist that day" in moved.stdout
    (once,) = nowhere.json("preview", "daily", '{"hour": 9}', "--tz", "Asia/Tokyo", "--count", "1")
    assert once["local"].endswith("T09:00:00+09:00")
    fixed = nowhere.ask("preview", "daily", "9:00", "--tz", "UTC+05:45", "--count", "1")
    assert "09:00:00 +05:45" in rows(fixed)[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("next", "sync-stok"), "There is no schedule 'sync-stok'. Did you mean sync-stock?"),
        (("next", "wrong"), "wrong is broken"),
        (("preview", "crom", "x"), "There is no schedule type 'crom'. Did you mean cron?"),
        (("preview", "cron", "0 25 * * *"), "hour"),
        (("preview", "daily", "9:30", "--tz", "Europe/Madird"), "no such time zone"),
        (("helth",), "There is no command 'helth'. Did you mean health?"),
        (("fires", "sync-stock"), "cannot be reached"),
        (("beats",), "cannot be reached"),
        (("list",), "cannot be reached"),
    ],
)
def test_failures_are_one_sentence(nowhere: Shop, arguments: tuple[str, ...], says: str) -> None:
    """On stderr, with an exit code, without a traceback."""
    result = nowhere.ask(*arguments)
    assert result.returncode in (1, 2)
    assert result.stdout == ""
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert says in last
    assert "Traceback" not in result.stderr


def test_the_address_is_named_once_and_without_its_password(make_shop: Callable[[str], Shop]) -> None:
    """In the sentence, not in the cause as well."""
    shop = make_shop(f"redis://:s3cret@127.0.0.1:{free_port()}/0")
    for verb in ("beats", "list", "health"):
        result = shop.ask(verb)
        text = result.stdout + result.stderr
        assert text.count("redis://") == 1, text
        assert "s3cret" not in text


def test_an_unknown_schedule_has_no_fires(shop: Shop) -> None:
    """A typo must not look like a schedule that never ran."""
    result = shop.ask("fires", "sync-stok")
    assert result.returncode == 1
    assert "There is no schedule 'sync-stok'. Did you mean sync-stock?" in result.stderr


def test_health_does_not_wait_for_a_server_that_hangs(shop: Shop, private_redis: PrivateRedis) -> None:
    """A probe has an answer in under a second; here, next to other tests, in not much more than a verb takes that asks
    nobody."""
    overhead, took = [], []
    for _ in range(2):
        started = monotonic()
        shop.ask("preview", "interval", "1s")
        overhead.append(monotonic() - started)
        private_redis.pause()
        started = monotonic()
        result = shop.ask("health")
        took.append(monotonic() - started)
        private_redis.resume()
        assert result.returncode == 1
        assert re.fullmatch(r"not healthy: Redis at \S+ did not answer within 0\.4 s\n", result.stdout)
    assert min(took) < 2 * min(overhead) + 0.8


def test_health_says_that_nobody_listens(nowhere: Shop) -> None:
    """At once, in a sentence."""
    result = nowhere.ask("health")
    assert result.returncode == 1
    assert re.match(r"not healthy: .*refused", result.stdout)
    assert json.loads(nowhere.ask("health", "--json").stdout)["healthy"] is False


def test_bad_settings_are_named(make_shop: Callable[[str], Shop], private_redis: PrivateRedis) -> None:
    """Key, value and fix, as at the start of a beat."""
    shop = make_shop(private_redis.url())
    with (shop.directory / "shop.py").open("a") as file:
        file.write("\napp.conf.parrot_takeover_after = -1\n")
    result = shop.ask("beats")
    assert result.returncode == 1
    assert "parrot_takeover_after = -1: must be a number above 0" in result.stderr
    assert "Traceback" not in result.stderr
