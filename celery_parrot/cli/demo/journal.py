"""What the tasks themselves say: a line when a body begins and one when it ends, in a file of their own.

The second witness. It knows nothing of coordinators, histories or beats, only of bodies that ran.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

BEGUN, DONE, FAILED, RETRIED = "begun", "done", "failed", "retried"


@dataclass(frozen=True, slots=True)
class Line:
    """:ivar fire_id: the task id less the attempt. :ivar retries: Celery's count of ``retry()`` calls."""

    fire_id: str
    retries: int
    what: str


def write(path: Path, task_id: str, retries: int, what: str) -> None:
    """Add a line. One write to a file opened for appending: lines of parallel processes do not mix."""
    line = json.dumps([task_id.partition(":")[0], retries, what]) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def read(path: Path) -> list[Line]:
    """Every line so far; one that is being written is left for the next time."""
    if not path.exists():
        return []
    text = path.read_text()
    return [Line(*json.loads(line)) for line in text[: text.rfind("\n") + 1].splitlines()]


def executed_twice(lines: Iterable[Line]) -> list[str]:
    """Fires of which a body was run more often than its retries explain, one entry for each time too many."""
    begun = Counter((line.fire_id, line.retries) for line in lines if line.what == BEGUN)
    return [fire_id for (fire_id, _), times in begun.items() for _ in range(times - 1)]


def finished(lines: Iterable[Line]) -> set[str]:
    """Fires whose body ended well."""
    return {line.fire_id for line in lines if line.what == DONE}


def failed(lines: Iterable[Line]) -> set[str]:
    """Fires whose body failed for good."""
    return {line.fire_id for line in lines if line.what == FAILED}
