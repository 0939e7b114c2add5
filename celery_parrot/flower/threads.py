"""Threads for work that blocks, which nobody waits for when the process ends."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads:
    """As many as ``most``, made when they are first needed.

    Those of a ``ThreadPoolExecutor`` are joined when the interpreter ends, and do all that is queued before: Flower
    could not be stopped while a server does not answer.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = Lock()
        self._begun = 0
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()

    def submit(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Have it called by the next thread that is free."""
        future: Future[R] = Future()
        self._work.put((future, partial(function, *args, **kwargs)))
        with self._lock:
            if self._begun < self._most:
                self._begun += 1
                Thread(target=self._run, name=f"{self._name}-{self._begun}", daemon=True).start()
        return future

    def close(self) -> None:
        """Cancel what is queued, and end the threads after what they do now; does not wait."""
        while True:
            try:
                waiting = self._work.get_nowait()
            except Empty:
                break
            if waiting is not None:
                waiting[0].cancel()
        for _ in range(self._most):
            self._work.put(None)

    def _run(self) -> None:
        while (given := self._work.get()) is not None:
            _call(*given)
            del given  # an answer is not kept until the next question


def _call(future: Future[Any], function: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:  # it is the caller's
        future.set_exception(error)
    else:
        future.set_result(result)
