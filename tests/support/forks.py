"""Work in a forked child, as a pool process is one."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.support.waiting import wait_until


def fork(work: Callable[[], None]) -> int:
    """Run ``work`` in a forked child, which exits with 0 if nothing was raised; its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return pid


def in_child(work: Callable[[], None]) -> int:
    """As :func:`fork`, and wait for the end of it; the exit code."""
    pid = fork(work)
    done: list[int] = []

    def ended() -> bool:
        waited, status = os.waitpid(pid, os.WNOHANG)
        if waited:
            done.append(os.waitstatus_to_exitcode(status))
        return bool(waited)

    wait_until(ended, "the child to end", 20)
    return done[0]
