"""The rooms and who may import whom: the contract in pyproject.toml bites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Every room, so that the contract is tried as a whole, also where a room does not exist yet.
ROOMS = (
    *("testing", "cli", "flower", "importers", "runtime", "client"),
    *("dispatch", "delivery", "stores", "coordination", "instrumentation"),
    *("protocols", "planning", "model", "triggers", "clock", "errors"),
)


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A celery_parrot of empty rooms, under the repository's own contract."""
    package = tmp_path / "celery_parrot"
    for room in ROOMS:
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").write_text("")
    for inner in ("coordination/redis", "coordination/sql", "stores/redis", "stores/sql"):
        (package / inner).mkdir()
        (package / inner / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over ``house``."""
    code = "from importlinter.cli import lint_imports_command as c; c(['--no-cache'])"
    env = {**os.environ, "PYTHONPATH": str(house), "NO_COLOR": "1", "COLUMNS": "200"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=house, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def write(house: Path, module: str, code: str) -> None:
    """Put ``code`` into a module of ``house``, e.g. ``dispatch.tick``."""
    (house / "celery_parrot" / (module.replace(".", "/") + ".py")).write_text(code)


def test_the_contract_holds_for_an_empty_house(house: Path) -> None:
    """So what the other tests find is what they put there."""
    result = lint(house)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("module", "code", "what"),
    [
        ("triggers.cron", "from celery_parrot.planning import x", "upwards"),
        ("dispatch.tick", "from celery_parrot.coordination import x", "between siblings"),
        ("dispatch.tick", "def f():\n    from celery_parrot.runtime import x", "upwards, hidden in a function"),
        ("planning.plan", "import celery", "Celery outside runtime"),
        ("dispatch.send", "from kombu import Producer", "kombu outside runtime"),
        ("dispatch.send", "import redis", "Redis outside its two rooms"),
        ("stores.memory", "import redis", "Redis in another store"),
        ("runtime.wiring", "import sqlalchemy", "SQL outside its two rooms"),
        ("client", "import celery_parrot.testing", "the testing kit in production code"),
        ("cli.demo", "import redis.asyncio", "Redis in a face"),
    ],
)
def test_a_forbidden_import_is_refused(house: Path, module: str, code: str, what: str) -> None:
    """Each kind of shortcut that the layout forbids."""
    if module == "client":
        (house / "celery_parrot" / "client" / "__init__.py").write_text(code + "\n")
    else:
        write(house, module, code + "\n")
    result = lint(house)
    assert result.returncode == 1, f"{what} went unnoticed:\n{result.stdout}{result.stderr}"
    assert "BROKEN" in result.stdout


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("runtime.sender", "import celery, kombu"),
        ("runtime.wiring", "import celery_parrot.coordination.redis, celery_parrot.dispatch, celery_parrot.clock"),
        ("coordination.redis.scripts", "import redis"),
        ("stores.sql.tables", "import sqlalchemy"),
        ("testing.suite", "import celery_parrot.dispatch, celery_parrot.coordination, celery_parrot.protocols, celery"),
        ("cli.demo", "def f():\n    import celery"),
    ],
)
def test_an_allowed_import_is_let_through(house: Path, module: str, code: str) -> None:
    """The contract forbids no more than it means to."""
    write(house, module, code + "\n")
    result = lint(house)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_room_that_the_contract_does_not_know_is_refused(house: Path) -> None:
    """A new room must first be given its place."""
    (house / "celery_parrot" / "utils.py").write_text("")
    assert lint(house).returncode == 1
