"""Celery imports our command group on every one of its own calls: that must cost next to nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("redis", "sqlalchemy", "croniter", "rich", "flower", "celery_parrot.runtime")


def imported_by(statement: str) -> set[str]:
    """Names of every module that a fresh interpreter imports for ``statement``."""
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True, check=True, timeout=60
    )
    return {line.rsplit("|", 1)[1].strip() for line in result.stderr.splitlines() if line.startswith("import time:")}


@pytest.mark.parametrize("statement", ["import celery_parrot", "import celery_parrot.cli"])
def test_the_entry_point_pulls_in_nothing_heavy(statement: str) -> None:
    """Neither a database driver nor a Redis client nor the cron grammar is loaded by ``celery --help``."""
    loaded = imported_by(statement)
    assert "celery_parrot" in loaded  # the listing was read rightly
    heavy = sorted(name for name in loaded if any(name == h or name.startswith(h + ".") for h in HEAVY))
    assert heavy == []
