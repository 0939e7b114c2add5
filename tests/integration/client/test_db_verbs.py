"""``celery -A app parrot db …`` as a subprocess."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from celery_parrot.stores.sql import head
from tests.integration.client.conftest import World
from tests.support.services import free_port

Make = Callable[..., World]


def test_upgrade_current_and_check(make_world: Make) -> None:
    world = make_world(migrated=False, parrot_database_schema="navigator")
    assert world.json("db", "current") == {"current": None, "head": head(), "up_to_date": False}
    before = world.json("db", "check", code=1)
    assert before["ok"] is False
    assert before["problems"][0] == "there is no table navigator.service_scheduler"
    assert "has no tables of celery-parrot" in world.ask("db", "current").stdout
    assert world.ask("db", "check").stdout.splitlines()[-1] == "Mend it: celery -A YOUR_APP parrot db upgrade"

    assert world.json("db", "upgrade") == {"before": None, "after": head(), "head": head()}
    assert world.ask("db", "upgrade").stdout.endswith(f"is at {head()} already.\n")
    assert world.json("db", "current") == {"current": head(), "head": head(), "up_to_date": True}
    assert world.json("db", "check") == {"ok": True, "problems": [], "current": head(), "head": head()}
    with psycopg.connect(world.direct) as connection:
        assert connection.execute("SELECT count(*) FROM navigator.service_scheduler").fetchone() == (0,)


def failure(world: World, *arguments: str) -> str:
    """What a verb says that fails: one sentence, no traceback, no password."""
    result = world.ask(*arguments)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert "s3cret" not in result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    return last


@pytest.mark.parametrize("verb", [("db", "upgrade"), ("db", "current"), ("db", "check"), ("list",)])
def test_a_database_that_is_away_is_one_sentence(make_world: Make, verb: tuple[str, ...]) -> None:
    world = make_world(migrated=False)
    world.database = f"postgresql://user:s3cret@127.0.0.1:{free_port()}/nowhere"
    said = failure(world, *verb)
    assert said.startswith("Error: The database at postgresql://user:**@127.0.0.1:")
    assert "cannot be reached" in said


def test_without_tables_the_list_says_what_to_do(make_world: Make) -> None:
    said = failure(make_world(migrated=False), "list")
    assert "parrot db upgrade" in said
    assert "cannot be reached" not in said  # it answered


def test_no_database_and_a_bad_one_are_named(make_world: Make, tmp_path: Path) -> None:
    world = make_world(migrated=False)
    world.settings["parrot_database_url"] = None
    assert "parrot_database_url = None: names no database" in failure(world, "db", "upgrade")
    world.settings["parrot_database_url"] = "oracle://user:s3cret@h/d"
    assert "oracle is no database" in failure(world, "db", "upgrade")
    world.settings["parrot_database_url"] = f"sqlite:///{tmp_path}/schedules.db"
    assert world.json("db", "upgrade")["after"] == head()
    assert world.json("list", "--store", "db") == []
    said = failure(world, "db", "upgrade", "--revision", "nonsense")
    assert "nonsense" in said
