"""What only the worker's main process sees: messages in hand, and ends: revoked, expired, timed out, lost, cancelled.

All of it is handed to the keeper thread: the event loop of a worker never waits for the coordinator.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from celery.exceptions import TaskRevokedError, Terminated, TimeLimitExceeded, WorkerLostError

from celery_parrot.dispatch.routing import HEADER
from celery_parrot.model.allowed import REASON
from celery_parrot.model.fire import Status
from celery_parrot.protocols import WORKER_LOST, Delivery, Lease, Outcome
from celery_parrot.runtime.results import format_error, format_result, unwrapped
from celery_parrot.runtime.worker.headers import TOKEN, UNREADABLE, expires, read_delivery

if TYPE_CHECKING:
    from celery_parrot.runtime.worker.installed import Installed

logger = logging.getLogger("celery_parrot.worker")

REVOKED: Final = "revoked"
CANCELLED: Final = "cancelled"
TIME_LIMIT: Final = "time limit"
EXPIRES: Final = "expires"
UNREGISTERED: Final = "task not registered"
INVALID: Final = "invalid message"


class Parent:
    """Turns what happens to requests into outcomes. Never raises: Celery's own handling comes first."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed

    # --- of a request that waits for the pool ---

    def received(self, request: Any) -> None:
        """It is in hand: from now on this process's life vouches for it, if its fire may hold limits."""
        if expires(request.request_dict[HEADER]):
            delivery = self._delivery(request.request_dict, request.hostname)
            if delivery is not None:
                # Celery lets go of a request that it will not start: given back to the broker, revoked, thrown away.
                there = weakref.ref(request)
                self._installed.sessions.get().lifecycle.received(delivery, lambda: there() is not None)

    def accepted(self, request: Any) -> None:
        """The pool has it: its Start is next."""
        session = self._installed.sessions.existing()
        if session is not None:
            session.lifecycle.accepted(str(request.request_dict[HEADER].get(TOKEN)))

    # --- of a request that went to the pool ---

    def timed_out(self, request: Any, timeout: float) -> None:
        """Its hard time limit passed and its process was killed."""
        self._end_request(request, Status.ERROR, TIME_LIMIT, exc=TimeLimitExceeded(timeout))

    def cancelled(self, request: Any) -> None:
        """The worker shuts down without waiting for it."""
        self._end_request(request, Status.ERROR, CANCELLED, exc=WorkerShutDown("the worker was shut down"))

    def failed(self, request: Any, exc: Any) -> None:
        """Its process ended without a report, or the report could not be made."""
        exc = unwrapped(exc)
        if request._already_cancelled or request._already_revoked or isinstance(exc, Terminated):
            return  # said already, by cancelled() or revoked()
        if request._parrot_requeued:
            return  # delivered again, which is the next attempt once the lease has lapsed
        if request._parrot_retried:
            wait = timedelta(seconds=float(request.task.default_retry_delay or 0))
            self._end_request(request, Status.SENT, WORKER_LOST, retry_in=wait)
        elif isinstance(exc, WorkerLostError | SystemExit | KeyboardInterrupt):
            if request._parrot_success:  # its result was stored, its report was not
                self._end_request(request, Status.SUCCESS, "", result=request._parrot_success.get("result"))
            else:
                self._end_request(request, Status.ABANDONED, WORKER_LOST, exc=exc)
        elif not isinstance(exc, TimeLimitExceeded):  # that is timed_out()
            self._end_request(request, Status.ERROR, "", exc=exc)

    def _end_request(
        self,
        request: Any,
        status: Status,
        reason: str,
        *,
        exc: BaseException | None = None,
        result: object = None,
        retry_in: timedelta | None = None,
    ) -> None:
        delivery = self._delivery(request.request_dict, request.hostname)
        if delivery is None:
            return
        limit = self._installed.result_max_chars
        retry_at = self._installed.clock.now() + retry_in if retry_in is not None else None
        outcome = Outcome(
            lease=Lease(delivery.key, delivery.token),
            status=status,
            reason=reason,
            output=format_result(result, limit),
            error=format_error(exc, limit) if exc is not None else None,
            retry_at=retry_at,
        )
        if retry_at is not None and expires(request.request_dict[HEADER]):
            outcome = replace(outcome, deadline=self._installed.thresholds.deadline(delivery.kind, retry_at))
        self._installed.sessions.get().lifecycle.close_soon(outcome, delivery=delivery)

    # --- of a message ---

    def revoked(self, headers: Mapping[str, Any], hostname: str, *, terminated: bool, expired: bool) -> None:
        """Revoked in the queue, expired there, or terminated while it ran."""
        delivery = self._delivery(headers, hostname)
        if delivery is None:
            return
        what = "expired" if expired else "terminated" if terminated else "revoked"
        outcome = Outcome(
            lease=Lease(delivery.key, delivery.token if terminated else ""),
            status=Status.EXPIRED if expired else Status.ERROR,
            reason=EXPIRES if expired else REVOKED,
            error=format_error(TaskRevokedError(what)),
            counted=False,
            attempt=delivery.attempt,
        )
        lifecycle = self._installed.sessions.get().lifecycle
        lifecycle.close_soon(outcome, delivery=delivery if terminated else None, of=delivery)

    def unknown(self, headers: Mapping[str, Any], hostname: str, name: str) -> None:
        """No task of this name is registered here."""
        self._end_message(headers, hostname, Status.TARGET_MISSING, UNREGISTERED, f"NotRegistered: {name}")

    def refused(self, headers: Mapping[str, Any], hostname: str, why: str) -> None:
        """It calls what schedules may not call; its body does not run."""
        logger.error("a fire is refused: %s", why)
        self._end_message(headers, hostname, Status.ERROR, REASON, f"NotAllowed: {why}")

    def invalid(self, headers: Mapping[str, Any], hostname: str, exc: BaseException | None) -> None:
        """Celery cannot read the message and has thrown it away."""
        limit = self._installed.result_max_chars
        error = format_error(exc, limit) if exc is not None else None
        self._end_message(headers, hostname, Status.ERROR, INVALID, error)

    def _end_message(
        self, headers: Mapping[str, Any], hostname: str, status: Status, reason: str, error: str | None
    ) -> None:
        delivery = self._delivery(headers, hostname)
        if delivery is not None:
            outcome = Outcome(
                lease=Lease(delivery.key, ""), status=status, reason=reason, error=error, attempt=delivery.attempt
            )
            self._installed.sessions.get().lifecycle.close_soon(outcome, of=delivery)

    def _delivery(self, headers: Mapping[str, Any], hostname: str) -> Delivery | None:
        header = headers[HEADER]
        try:
            return read_delivery(
                header,
                worker=hostname,
                retries=int(headers.get("retries") or 0),
                eta=headers.get("eta"),
                token=str(header.get(TOKEN) or ""),
            )
        except UNREADABLE as exc:
            logger.warning("a message's parrot header cannot be read, its outcome is not recorded: %r", exc)
            return None


class WorkerShutDown(Exception):
    """Names, in a fire's history, what ended it."""
