"""From how Celery says a task ended to how a fire ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any, Final

from celery import states
from celery.exceptions import Reject, Retry, WorkerShutdown, WorkerTerminate

from celery_parrot.errors import TargetMissing
from celery_parrot.model.fire import Status
from celery_parrot.protocols import Lease, Outcome
from celery_parrot.runtime.results import LIMIT, format_error, format_result, format_traceback

REVOKED: Final = "revoked"
CANCELLED: Final = "cancelled"
REJECTED: Final = "rejected"
_TRACER: Final = "trace_task"


def of(
    state: str | None,
    retval: Any,
    raised: BaseException | None,
    *,
    lease: Lease,
    acks_late: bool,
    now: datetime,
    limit: int = LIMIT,
    in_pool_process: bool = False,
) -> Outcome | None:
    """The outcome of a delivery, or None where it has none here: its message comes again, or another process judges.

    :param state: as ``task_postrun`` gives it; None where no state was reached.
    :param retval: the return value, or the exception.
    :param raised: what is being raised through the task at this moment, where there is no state.
    :param in_pool_process: whether a main process sees how this process ends.
    """
    if state == states.SUCCESS:
        return Outcome(lease=lease, status=Status.SUCCESS, output=format_result(retval, limit))
    if state == states.IGNORED:  # raised by the task: it has taken the result into its own hands
        return Outcome(lease=lease, status=Status.SUCCESS)
    if state == states.RETRY:
        return Outcome(lease=lease, status=Status.SENT, retry_at=_retry_at(retval, now))
    if state == states.REJECTED:
        if acks_late and isinstance(retval, Reject) and getattr(retval, "requeue", False):
            return None  # delivered again, the next attempt once the lease has lapsed
        return _failed(lease, retval, limit, reason=REJECTED)
    if state is None:
        return _interrupted(lease, raised, limit, in_pool_process, now)
    return _failed(lease, retval, limit)


def cancelled(lease: Lease) -> Outcome:
    """Cut off by the end of its worker."""
    error = "WorkerShutDown: the worker was shut down"
    return Outcome(lease=lease, status=Status.ERROR, reason=CANCELLED, error=error)


def _failed(lease: Lease, exc: Any, limit: int, *, reason: str = "") -> Outcome:
    status = Status.TARGET_MISSING if isinstance(exc, TargetMissing) else Status.ERROR
    error = format_error(exc, limit) if isinstance(exc, BaseException) else format_result(exc, limit)
    traceback = format_traceback(exc, limit) if isinstance(exc, BaseException) else None
    return Outcome(lease=lease, status=status, reason=reason, error=error, traceback=traceback)


def _interrupted(
    lease: Lease, raised: BaseException | None, limit: int, in_pool_process: bool, now: datetime
) -> Outcome | None:
    if raised is None:
        return _failed(lease, RuntimeError("ended without a state"), limit)
    if isinstance(raised, Exception):
        # The result backend refused to store how the body ended, and that refusal is what is being raised.
        cause = _of_the_body(raised)
        if isinstance(cause, Retry):  # its message is on its way
            return Outcome(lease=lease, status=Status.SENT, retry_at=_retry_at(cause, now))
        return _failed(lease, cause, limit)
    kind = type(raised)
    if in_pool_process:
        return None  # the process ends with it, and the main process knows why
    if kind.__name__ == "Timeout" and kind.__module__.partition(".")[0] in ("gevent", "eventlet"):
        return None  # a greenlet's hard time limit: the request reports it
    if isinstance(raised, WorkerShutdown | WorkerTerminate | KeyboardInterrupt):
        return cancelled(lease)
    from celery.worker import state as worker_state  # not in clients: it brings the whole worker along

    if kind.__name__ == "GreenletExit":  # killed from outside: by revoke(terminate=True), or by a shutdown
        if worker_state.should_terminate not in (None, False):
            return cancelled(lease)
        error = "TaskRevokedError: terminated"
        return Outcome(lease=lease, status=Status.ERROR, reason=REVOKED, error=error, counted=False)
    return _failed(lease, raised, limit)


def _of_the_body(raised: BaseException) -> BaseException:
    """What the task raised: the first of all that led to ``raised`` that Celery's tracer has caught."""
    from celery.app import trace  # loaded long before, in a worker

    found, body = raised.__context__, None
    while found is not None:
        caught_in = found.__traceback__.tb_frame.f_code if found.__traceback__ is not None else None
        if caught_in is not None and caught_in.co_name == _TRACER and caught_in.co_filename == trace.__file__:
            body = found
        found = found.__context__
    return body or raised.__context__ or raised


def _retry_at(exc: Any, now: datetime) -> datetime:
    when = exc.when if isinstance(exc, Retry) else None
    if isinstance(when, datetime):
        return when.astimezone(UTC)  # a naive one is local time, as Celery reads it
    return now + timedelta(seconds=float(when)) if isinstance(when, Real) else now
