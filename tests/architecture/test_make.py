"""The Makefile on a machine that is not ready: a sentence, not a traceback."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the Makefile and no environment."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def make(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make there, as from a plain shell (not from within another make)."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=clone, env=env, capture_output=True, text=True, check=False, timeout=60
    )


def test_make_alone_lists_the_targets(clone: Path) -> None:
    """Nothing is built before somebody asks for it."""
    result = make(clone)
    assert result.returncode == 0
    for target in ("demo", "test", "check", "bench", "long", "chaos", "simulate", "full", "clean"):
        assert f"make {target} " in result.stdout
    assert not (clone / ".venv").exists()


def test_an_old_python_is_refused_with_its_version(clone: Path) -> None:
    """The person learns what is needed and what was found."""
    old = clone / "python3.9"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c "import sys; sys.version_info = (3, 9); exec(sys.argv[1])" "$2"\n'
    )
    old.chmod(0o755)
    result = make(clone, "test", f"PYTHON={old}")
    assert result.returncode != 0
    assert f"celery-parrot needs Python 3.11 or newer; {old} is 3.9" in result.stderr
    assert not (clone / ".venv").exists()


def test_no_python_at_all_says_how_to_name_one(clone: Path) -> None:
    """The fix is a command to copy."""
    result = make(clone, "demo", "PYTHON=")
    assert result.returncode != 0
    assert "make demo PYTHON=/path/to/python3.11" in result.stderr
