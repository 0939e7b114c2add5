"""Inside the process that runs the task: before the body, is it ours to run; after it, what came of it."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded

from celery_parrot.dispatch.routing import HEADER
from celery_parrot.errors import ParrotError, Unreachable
from celery_parrot.model.fire import Status
from celery_parrot.model.secrets import mask
from celery_parrot.protocols import Delivery, Lease, StartVerdict
from celery_parrot.runtime import current
from celery_parrot.runtime.worker import outcomes
from celery_parrot.runtime.worker.headers import UNREADABLE, expires, outgoing, read_delivery, read_fire

if TYPE_CHECKING:
    from celery_parrot.runtime.worker.installed import Installed
    from celery_parrot.runtime.worker.session import Session

logger = logging.getLogger("celery_parrot.worker")

#: Name of the attribute of a request that says its fire was opened, holding a :class:`Run`.
RUN: Final = "_celery_parrot_run"

#: Seconds for which a fire that can neither be opened nor put back occupies its pool slot, as its message is gone.
HOLD_AT_MOST: Final = 300.0
HOLD_PAUSE: Final = 1.0


class HeldTooLong(ParrotError):
    """Neither the coordinator nor the broker could be reached for :data:`HOLD_AT_MOST` seconds, and the message of
    this fire was acknowledged when it arrived: it cannot run."""


@dataclass(frozen=True, slots=True)
class Run:
    """A fire that runs here.

    :ivar opened: false where it runs although the coordinator could not be asked.
    :ivar expires: its retries have a queue deadline.
    """

    delivery: Delivery
    opened: bool
    expires: bool
    acks_late: bool
    pid: int

    @property
    def lease(self) -> Lease:
        return Lease(self.delivery.key, self.delivery.token if self.opened else "")


class Guard:
    """Opens a fire before its task's body, closes it after."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._cut: dict[str, Run] = {}  # by token: what runs in this process, for its sudden end

    # --- before the body ---

    def admit(self, task: Any, header: Mapping[str, Any]) -> None:
        """Return if the body may run; it is then the current fire.

        :raises Ignore: it must not run now; if it must run later, a copy is on its way.
        :raises Reject: as Ignore, where only the broker could keep it.
        """
        request = task.request
        refusal = self._installed.permits.refusal(task.name, header.get("kind"), request)
        if refusal:
            self._installed.parent.refused(request.__dict__, request.hostname or "", refusal)
            raise Ignore(refusal)
        try:
            delivery = read_delivery(
                header, worker=request.hostname or "", retries=request.retries or 0, eta=request.eta
            )
        except UNREADABLE as exc:
            logger.error("a message's parrot header cannot be read, its task runs as any other: %r", exc)
            return
        delivery = replace(delivery, silent_after=self._installed.thresholds.silent_after(delivery.kind))
        give_up: float | None = None
        clock = self._installed.clock
        while True:
            pause = self._ask(task, header, delivery)
            if pause is None:
                return
            error = self._send_again(task, header, pause)
            if error is None:
                raise Ignore("put back")
            if task.acks_late:  # the message is still the broker's
                raise Reject(error, requeue=True)
            if give_up is None:
                give_up = clock.monotonic() + HOLD_AT_MOST
            elif clock.monotonic() > give_up:
                told = f"neither coordinator nor broker for {HOLD_AT_MOST:g} s: {mask(repr(error))}"
                logger.critical("fire %s is lost to this worker: %s", header.get("fire_id"), told)
                raise HeldTooLong(told)
            clock.sleep(HOLD_PAUSE)

    def _ask(self, task: Any, header: Mapping[str, Any], delivery: Delivery) -> _Pause | None:
        """None: run it. Otherwise the copy to send. Raises Ignore where there is nothing more to do."""
        try:
            reply = self._installed.sessions.get().lifecycle.open(delivery)
        except (Unreachable, SoftTimeLimitExceeded):
            if self._installed.unreachable == "run":
                self._enter(task, header, delivery, delivery.attempt, opened=False)
                return None
            return _Pause(self._installed.lease, delivery.put_back)
        if reply.verdict is StartVerdict.RUN:
            self._enter(task, header, delivery, reply.attempt, opened=True)
            return None
        if reply.verdict in (StartVerdict.DUPLICATE, StartVerdict.ASKS_AGAIN, StartVerdict.EXPIRED):
            raise Ignore(str(reply.verdict))
        # Only a copy that met somebody who runs the fire is marked: see Lifecycle.open().
        met = delivery.put_back or reply.verdict is StartVerdict.PUT_BACK
        return _Pause(reply.retry_after or self._installed.lease, met)

    def _enter(self, task: Any, header: Mapping[str, Any], delivery: Delivery, attempt: int, *, opened: bool) -> None:
        request = task.request
        run = Run(delivery, opened, expires(header), bool(task.acks_late), os.getpid())
        setattr(request, RUN, run)
        self._cut[delivery.token] = run
        # What retry() and replace() copy: a further message is a delivery of its own, and no copy that was put back.
        request.headers = {**(request.headers or {}), HEADER: outgoing(header, put_back=False)}
        lifecycle = self._installed.sessions.get().lifecycle
        lost = partial(lifecycle.lost, run.lease) if opened else None
        progress = partial(lifecycle.progress, run.lease) if opened else None
        fire_id = str(header.get("fire_id") or self._installed.namespace.fire_id(delivery.key))
        current.enter(read_fire(header, delivery, fire_id, attempt, lost, progress))

    def _send_again(self, task: Any, header: Mapping[str, Any], pause: _Pause) -> Exception | None:
        """Publish a copy of the message being handled: same task id, same retries, later. As ``Task.retry()`` does it,
        so that routing, time limits, links and stamps are kept."""
        request = task.request
        headers = {**(request.headers or {}), HEADER: outgoing(header, put_back=pause.mark)}
        try:
            task.signature_from_request(
                request, countdown=pause.seconds, retries=request.retries, headers=headers
            ).apply_async()
        except Exception as exc:
            logger.warning("fire %s cannot be put back yet: %s", header.get("fire_id"), mask(repr(exc)))
            return exc
        return None

    # --- after it ---

    def settle(self, task: Any, run: Run, state: str | None, retval: Any) -> None:
        """The body is over, or the process is about to be. Never raises."""
        current.leave()
        self._cut.pop(run.delivery.token, None)
        lifecycle = self._installed.sessions.get().lifecycle
        outcome = outcomes.of(
            state,
            retval,
            sys.exc_info()[1],
            lease=run.lease,
            acks_late=run.acks_late,
            now=lifecycle.now(run.lease),
            limit=self._installed.result_max_chars,
            in_pool_process=self._installed.in_pool_process,
        )
        if outcome is not None and outcome.retry_at is not None and run.expires:
            deadline = self._installed.thresholds.deadline(run.delivery.kind, outcome.retry_at)
            outcome = replace(outcome, deadline=deadline)
        if outcome is None:
            lifecycle.forget(run.lease)
        elif run.opened or outcome.status is not Status.SENT:
            lifecycle.close(outcome)

    def cut_off(self, session: Session) -> None:
        """This process ends while these run in its threads."""
        for run in list(self._cut.values()):
            if run.pid == os.getpid() and run.opened:
                if run.acks_late:
                    session.lifecycle.forget(run.lease)
                else:
                    session.lifecycle.close_soon(outcomes.cancelled(run.lease))


@dataclass(frozen=True, slots=True)
class _Pause:
    """:ivar mark: whether the copy is one that was put back, in the sense of Start."""

    seconds: float
    mark: bool


def run_of(request: Any) -> Run | None:
    """The fire that a request runs, or None."""
    return request.__dict__.get(RUN) if request is not None else None
