"""The bridge with each supported release of Flower, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.peers import fetched

ROOT = Path(__file__).parents[3]
INSTALLED = "installed"
RELEASES = ("2.0.0", "2.0.1", "2.1.0", INSTALLED)
SHORT = ("2.0.0", INSTALLED)


@pytest.mark.parametrize("release", RELEASES)
def test_pages_events_metrics_and_access(release: str, full: bool) -> None:
    """With the oldest and the newest; the long form tries those between as well."""
    if release not in SHORT and not full:
        pytest.skip("the long form tries every release (make long)")
    path = [str(ROOT)]
    if release != INSTALLED:
        path.insert(0, str(fetched("flower", f"flower=={release}")))
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.flower.release"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)}, cwd=ROOT,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-1] == release or release == INSTALLED
