"""Every verb that changes something, and those that show it, each as a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_cli import Shop
from tests.support.redis_server import PrivateRedis
from tests.support.services import free_port

APP = """
import os
from celery import Celery
from celery_parrot import Parrot

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.timezone = "Europe/Madrid"
app.conf.result_expires = None
parrot = Parrot(app)

@app.task(name="shop.sync")
def sync(): ...
"""


@pytest.fixture
def make_shop(tmp_path: Path) -> Callable[[str], Shop]:
    def make(broker: str) -> Shop:
        (tmp_path / "shop.py").write_text(APP)
        return Shop(tmp_path, broker)

    return make


def fails(result: subprocess.CompletedProcess[str], says: str) -> None:
    assert result.returncode in (1, 2), result
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert says in result.stderr.splitlines()[-1]


def test_the_life_of_a_schedule(make_shop: Callable[[str], Shop], private_redis: PrivateRedis) -> None:
    """From create to delete and back, in another process each time, with mistakes that people make on the way."""
    shop = make_shop(private_redis.url())
    made = shop.json("create", "morning report", "cron", "30 6 * * mon-fri", "--target", "shop.sync")
    assert (made["store"], made["version"], made["state"]) == ("redis", 1, "active")
    assert shop.json("update", "morning report", 'kwargs={"to": "é"}', "--version", "1")["version"] == 2
    fails(shop.ask("update", "morning report", "jitter=1", "--version", "1"), "no longer at version 1, it is 2 now")
    fails(shop.ask("update", "morning reprt", "jitter=1"), "Did you mean morning report?")
    assert shop.json("pause", "morning report", "--note", "stocktaking", "--by", "ann")["note"] == "ann: stocktaking"
    shown = shop.ask("show", "morning report").stdout
    assert "paused (ann: stocktaking)" in shown
    assert "\x1b" not in shown  # colours are for terminals
    assert shop.json("resume", "morning report")["state"] == "active"
    file = shop.directory / "all.yaml"
    assert shop.ask("export", "--output", str(file)).returncode == 0
    fails(shop.ask("delete", "morning report"), "nobody can be asked here")
    assert shop.json("delete", "morning report", "--yes")["deleted"] is True
    applied = shop.ask("apply", str(file))
    assert applied.stdout.splitlines()[0] == "+ morning report (redis)"
    assert '    kwargs: {"to": "é"}' in applied.stdout
    shop.json("create", "spare", "interval", "90s", "--target", "shop.sync")
    pruned = shop.ask("apply", str(file), "--prune", "--yes")
    assert (pruned.returncode, pruned.stdout.splitlines()[0]) == (0, "- spare (redis)"), pruned
    fails(shop.ask("groups", "release", "gpu", "--yes"), "nobody holds or waits for 'gpu'")
    doctor = shop.ask("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert "warning  workers    No worker answered" in doctor.stdout


def test_nobody_listens(make_shop: Callable[[str], Shop]) -> None:
    """One sentence, no traceback, an exit code; and the doctor says what it found."""
    shop = make_shop(f"redis://127.0.0.1:{free_port()}/0")
    fails(shop.ask("create", "a", "interval", "90s", "--target", "shop.sync"), "cannot be reached")
    doctor = shop.ask("doctor")
    assert doctor.returncode == 1
    assert "error    redis" in doctor.stdout


def test_a_shell_completes_verbs_and_names(make_shop: Callable[[str], Shop], private_redis: PrivateRedis) -> None:
    """By click's own mechanism, under Celery's command; where nothing can be asked there are no names, and no noise."""
    shop = make_shop(private_redis.url())
    shop.json("create", "morning report", "daily", "9:00", "--target", "shop.sync")

    def completed(*words: str) -> list[str]:
        env = {
            **os.environ, "PYTHONPATH": str(shop.directory), "BROKER": shop.broker, "_CELERY_COMPLETE": "zsh_complete",
            "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1),
        }  # fmt: skip
        celery = Path(sys.executable).with_name("celery")
        done = subprocess.run(
            [str(celery)], env=env, cwd=shop.directory, capture_output=True, text=True, check=False, timeout=30
        )
        assert done.stderr == ""
        return done.stdout.splitlines()[1::3]

    assert completed("celery", "parrot", "resu") == ["resume"]
    assert completed("celery", "-A", "shop", "parrot", "show", "mor") == ["morning report"]
    private_redis.stop()
    assert completed("celery", "-A", "nowhere", "parrot", "show", "mor") == []
