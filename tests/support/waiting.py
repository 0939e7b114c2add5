"""The one place where tests let real time pass.

Most tests need none of it: they drive a fake clock. Where real processes and servers are involved, a test waits *for
something*, with a limit, and says what it waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def monotonic() -> float:
    """Seconds that never jump."""
    return time.monotonic()


def wall_clock() -> float:
    """Seconds since 1970 by this machine's clock."""
    return time.time()


def pause(seconds: float) -> None:
    """Let ``seconds`` pass. For the body of a task that is meant to take that long, or for an outage of that length."""
    time.sleep(seconds)


def wait_until(
    predicate: Callable[[], T],
    what: str,
    timeout: float = 10.0,
    *,
    interval: float = 0.02,
    explain: Callable[[], object] | None = None,
) -> T:
    """Poll ``predicate`` until it is truthy and return its value.

    :param what: what is waited for, as it should read after "waited 10 s for".
    :param explain: called only on failure; its value is added to the message.
    :raises AssertionError: after ``timeout`` seconds, naming ``what``, the last value and the last exception. An
        exception of the predicate counts as "not yet", because servers that are starting refuse connections.
    """
    start = time.monotonic()
    last: object = None
    error: Exception | None = None
    while True:
        try:
            value = predicate()
            if value:
                return value
            last, error = value, None
        except Exception as exc:
            error = exc
        if time.monotonic() - start >= timeout:
            break
        time.sleep(interval)
    message = f"waited {timeout:g} s for {what}; last answer: {last!r}"
    if error is not None:
        message = f"waited {timeout:g} s for {what}; last error: {type(error).__name__}: {error}"
    if explain is not None:
        message += f"\n{explain()}"
    raise AssertionError(message) from error


def stays(predicate: Callable[[], object], what: str, seconds: float, *, interval: float = 0.05) -> None:
    """Assert that ``predicate`` stays truthy for ``seconds``: for "nothing happens" claims.

    :raises AssertionError: at the first falsy value, naming ``what`` and how long it held.
    """
    start = time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        assert predicate(), f"{what} held for {passed:.2f} s only, not {seconds:g} s"
        time.sleep(interval)
