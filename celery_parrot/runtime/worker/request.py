"""The worker's main process: one :class:`FireRequest` per delivery, from the broker to the acknowledgement.

It gives each delivery its token, and sees the ends that a pool process cannot report because it is gone: a hard time
limit, a lost process, a cold shutdown, an error before the task began.

Celery looks the class up by the task's ``Request`` and derives its own from it, so what is overridden here is called
in every pool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from celery.worker.request import Request

from celery_parrot.clock import new_id
from celery_parrot.dispatch.routing import HEADER
from celery_parrot.runtime.worker.headers import TOKEN, scheduler_of
from celery_parrot.runtime.worker.registry import find

if TYPE_CHECKING:
    from celery_parrot.runtime.worker.parent import Parent


def _of(parent: object) -> Any:
    return parent  # a mixin's super() has what it is mixed into, which no type says


class RequestHooks:
    """Mixed in before a request class; does nothing for messages that are not a fire of ours."""

    # Of the request class that this is mixed into.
    _app: Any
    _request_dict: dict[str, Any]
    acknowledged: bool
    task: Any

    _parrot: Parent | None = None
    _parrot_requeued = False
    _parrot_retried = False
    _parrot_success: Any = None

    def __init__(self, message: Any, *args: Any, **kwargs: Any) -> None:
        _of(super()).__init__(message, *args, **kwargs)
        header = self._request_dict.get(HEADER)
        if header is None:
            return
        installed = find(self._app, scheduler_of(header, self._request_dict.get("id")))
        if installed is not None:
            # In the request's own dict, which also goes to the pool process. A token that came with the message, a
            # retry sent by this class for instance, was another delivery's.
            self._request_dict[HEADER] = {**header, TOKEN: new_id()}
            self._parrot = installed.parent

    def on_accepted(self, pid: Any, time_accepted: Any) -> None:
        if self._parrot is not None:
            self._parrot.accepted(self)
        _of(super()).on_accepted(pid, time_accepted)

    def reject(self, requeue: bool = False) -> None:
        if self._parrot is not None and not self.acknowledged:
            self._parrot_requeued = requeue
        _of(super()).reject(requeue=requeue)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        try:
            _of(super()).on_timeout(soft, timeout)
        finally:
            if self._parrot is not None and not soft and not self._parrot_requeued:
                self._parrot.timed_out(self, timeout)

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> None:
        exc = exc_info.exception  # Celery clears it
        try:
            _of(super()).on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        finally:
            if self._parrot is not None and not return_ok:
                self._parrot.failed(self, exc)

    def cancel(self, pool: Any, *args: Any, **kwargs: Any) -> None:
        # One that is not acknowledged yet is delivered again, and that is its next attempt.
        ends = self._parrot is not None and not (self.task.acks_late and not self.acknowledged)
        try:
            _of(super()).cancel(pool, *args, **kwargs)
        except NotImplementedError:  # a pool that cannot end a body: threads, solo
            ends = False
            raise
        finally:
            if ends and self._parrot is not None:
                self._parrot.cancelled(self)

    # Celery >= 5.6 decides these within on_failure(); only it knows.

    def _retry_worker_lost(self, *args: Any) -> bool:
        self._parrot_retried = bool(_of(super())._retry_worker_lost(*args))
        return self._parrot_retried

    def _success_was_stored(self, *args: Any) -> Any:
        self._parrot_success = _of(super())._success_was_stored(*args)
        return self._parrot_success


class FireRequest(RequestHooks, Request):
    """Celery's own request class with :class:`RequestHooks`."""


@cache
def hooked_request(base: Callable[..., Any]) -> Callable[..., Any]:
    """``base``, a task's own request class, with :class:`RequestHooks`."""
    if isinstance(base, type) and issubclass(base, RequestHooks):
        return base
    return type(getattr(base, "__name__", "Request"), (RequestHooks, base), {})  # type: ignore[arg-type]
