"""Run as a program by :mod:`.children`: reads process ids until its pipe closes, then ends what was not called done.

Standard library only, and nothing of this package: it must be there at once and cost nothing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable


def main(directory: str, lines: Iterable[str]) -> None:
    """Remember each process id; at the end of ``lines``, unless the last word was ``done``, kill the groups and remove
    the directory."""
    groups: list[int] = []
    for line in lines:
        word = line.strip()
        if word == "done":
            return
        if word.isdigit() and int(word) > 1:
            groups.append(int(word))
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    main(sys.argv[1], sys.stdin)
