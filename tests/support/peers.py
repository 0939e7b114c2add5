"""Packages that a test needs beside those of this environment, in folders of their own."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.services import unavailable, unique


def fetched(what: str, *packages: str) -> Path:
    """A folder with these packages, without what they depend on: outside the repository, kept from run to run.

    :param what: names the folder. :param packages: as pip takes them.
    """
    key = hashlib.sha256(f"{sys.version_info[:2]}{packages}".encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "celery-parrot-tests"
    folder = cache / f"{what}-{key}"
    if folder.is_dir():
        return folder
    making = cache / f"making-{unique()}"
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target"]
    done = subprocess.run(
        [*command, str(making), *packages], capture_output=True, text=True, check=False, timeout=110
    )  # fmt: skip
    if done.returncode:
        shutil.rmtree(making, ignore_errors=True)
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        unavailable(f"The packages {', '.join(packages)}", f"pip must reach a package index; it said: {last}")
    try:
        making.rename(folder)
    except OSError:  # another process was first
        shutil.rmtree(making, ignore_errors=True)
    return folder
