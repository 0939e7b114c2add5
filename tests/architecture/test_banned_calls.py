"""Time, sleep, chance and ids come from celery_parrot/clock.py alone, and the linter says so."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "celery_parrot"

SNIPPETS = [
    "from datetime import datetime\n\nx = datetime.now()\n",
    "import datetime\n\nx = datetime.datetime.now(datetime.UTC)\n",
    "import datetime as dt\n\nx = dt.datetime.utcnow()\n",
    "from datetime import datetime\n\nx = datetime.today()\n",
    "from datetime import date\n\nx = date.today()\n",
    "import time\n\nx = time.time()\n",
    "from time import time\n\nx = time()\n",
    "import time\n\nx = time.monotonic()\n",
    "import time\n\nx = time.perf_counter()\n",
    "import time\n\ntime.sleep(1)\n",
    "from time import sleep as rest\n\nrest(1)\n",
    "import random\n\nx = random.random()\n",
    "from random import choice\n\nx = choice([1])\n",
    "import uuid\n\nx = uuid.uuid4()\n",
    "from uuid import uuid4\n\nx = uuid4()\n",
    "import secrets\n\nx = secrets.token_hex()\n",
]


def ruff(code: str, path: str) -> subprocess.CompletedProcess[str]:
    """Lint ``code`` as if it were the file ``path`` of this repository."""
    arguments = [
        "check",
        "--no-cache",
        "--select",
        "TID251",
        "--output-format",
        "concise",
        "--stdin-filename",
        path,
        "-",
    ]
    return subprocess.run(
        [sys.executable, "-m", "ruff", *arguments], input=code, cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("code", SNIPPETS, ids=lambda code: code.split("\n")[-2])
@pytest.mark.parametrize("path", ["celery_parrot/dispatch/tick.py", "tests/e2e/test_beats.py"])
def test_the_ban_bites(code: str, path: str) -> None:
    """A second clock cannot slip in, in the package or in a test, under whatever name it is imported."""
    result = ruff(code, path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "TID251" in result.stdout
    assert "celery_parrot/clock.py" in result.stdout


@pytest.mark.parametrize(
    "path", ["celery_parrot/clock.py", "tests/support/waiting.py", "tests/benchmarks/bench_tick.py"]
)
def test_the_ban_spares_the_places_that_are_meant_to(path: str) -> None:
    """The clock itself, the tests' own waiting helper, and benchmarks, which measure."""
    result = ruff("".join(SNIPPETS[5:10:2]), path)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_seeded_generator_is_allowed() -> None:
    """random.Random(seed) gives the same values everywhere: the simulator lives on it."""
    assert ruff("import random\n\nx = random.Random(7).random()\n", "tests/simulation/sim.py").returncode == 0


def test_the_package_imports_random_in_the_clock_only() -> None:
    """Not even a seeded one: what varies between beats is derived from the schedule's id."""
    guilty = [
        str(path.relative_to(ROOT))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / "clock.py" and "random" in imported_modules(path)
    ]
    assert guilty == []


def test_the_only_sleeps_of_the_tests_are_in_the_waiting_helper() -> None:
    """tests/support is outside the ban, so its one exception is held to here."""
    guilty = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests" / "support").rglob("*.py"))
        if path.name != "waiting.py" and calls_sleep(path)
    ]
    assert guilty == []


def imported_modules(path: Path) -> set[str]:
    """Top-level names of all modules that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names


def calls_sleep(path: Path) -> bool:
    """Whether a file calls anything named sleep."""
    return any(
        isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "sleep")
            or (isinstance(node.func, ast.Name) and node.func.id == "sleep")
        )
        for node in ast.walk(ast.parse(path.read_text()))
    )
