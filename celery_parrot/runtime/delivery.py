"""The Celery task that delivers parcels, and what it is handed: settings, the broker, the app's own callbacks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, Final

from celery import Celery
from celery.exceptions import Reject

from celery_parrot.clock import Clock
from celery_parrot.delivery import Job, Means, OwnCallback, Retries, deliver
from celery_parrot.delivery.channels import BUILT_IN
from celery_parrot.delivery.failures import NotDelivered, told
from celery_parrot.delivery.mail import resume_command
from celery_parrot.dispatch.deliveries import TASK, shown_as
from celery_parrot.errors import MemoryLost, ParrotError, Unreachable
from celery_parrot.model.allowed import EVERY_TASK, AllowedTasks
from celery_parrot.protocols import (
    About,
    CallbackReport,
    Coordinator,
    Deliveries,
    DeliveryReport,
    DeliveryStatus,
    Parcel,
)
from celery_parrot.runtime.conf_delivery import DeliverySettings

logger = logging.getLogger("celery_parrot.delivery")

RETRIES: Final = Retries()


def callbacks_of(app: Celery) -> dict[str, OwnCallback]:
    """The callbacks that ``@parrot.callback`` registered in this app, by name."""
    found: dict[str, OwnCallback] = vars(app).setdefault("_celery_parrot_callbacks", {})
    return found


def add_callback(app: Celery, name: str, callback: OwnCallback) -> None:
    """Raises ParrotError for a name that is taken, or none."""
    if not name.strip() or name in BUILT_IN:
        raise ParrotError(f"{name!r} cannot be the name of a callback; choose one besides {', '.join(BUILT_IN)}")
    if callbacks_of(app).setdefault(name, callback) is not callback:
        raise ParrotError(f"there is a callback {name!r} already; give this one a name of its own")


def register(
    app: Celery,
    settings: DeliverySettings,
    report: Callable[[DeliveryReport], None],
    clock: Clock,
    *,
    retries: Retries = RETRIES,
    allowed: AllowedTasks = EVERY_TASK,
) -> None:
    """Give ``app`` the task ``celery_parrot.deliver``. Repeating it replaces the settings.

    :param report: takes what became of a parcel so far. Raises Unreachable or MemoryLost.
    :param allowed: what ``task`` callbacks may call; default: every task.
    """
    name = app.main if app.main and app.main != "__main__" else "app"
    means = Means(
        clock=clock,
        mail=settings.mail,
        mail_from=settings.mail_from,
        alert_recipients=settings.alert_recipients,
        resume=f"celery -A {name} parrot resume",
        allow=settings.allow,
        file_root=settings.file_root,
        send_task=partial(_send_task, app, allowed),
        own=callbacks_of(app),
    )
    courier = Courier(means, retries, report)

    def run(task: Any, **payload: Any) -> None:
        courier.run(task, payload)

    registry: Any = app._tasks  # type: ignore[attr-defined]  # Celery's stubs do not know it
    registry.pop(TASK, None)
    make: Any = app.task  # what the stubs know of its options is not all there are
    make(name=TASK, **_OPTIONS)(run)


_OPTIONS: Final[Mapping[str, Any]] = {
    "bind": True,
    "shared": False,
    "lazy": False,
    # The message is acknowledged when the try is over: where a worker dies, another goes on, under the same keys.
    "acks_late": True,
    "reject_on_worker_lost": True,
    "ignore_result": True,
    "max_retries": None,
    "serializer": "json",
    "typing": False,
    # Not those of the app, which may be shorter than a slow server is allowed to be.
    "soft_time_limit": 1500,
    "time_limit": 1800,
}


class Courier:
    """What the task does in one try."""

    def __init__(self, means: Means, retries: Retries, report: Callable[[DeliveryReport], None]) -> None:
        self._means, self._retries, self._report = means, retries, report

    def run(self, task: Any, payload: Mapping[str, Any]) -> None:
        """Deliver, report, and come again if need be. Raises Retry, and Reject where only the broker can keep it."""
        job = _job(payload)
        if job is None:
            return
        if job.parcel.about is About.ALERT and job.tries == 1:
            _log_alert(job.parcel, self._means)
        pause = self._retries.pause(job.tries)
        said = deliver(job, self._means, last=pause is None, died=_is_redelivered(task))
        _log(job.parcel, said)
        known = _report(self._report, said)
        if pause is not None and (said.status is DeliveryStatus.RETRYING or not known):
            _again(task, job, said, pause)


def _is_redelivered(task: Any) -> bool:
    """Whether the broker had handed out this very message before. A further try is a message of its own."""
    return bool((task.request.delivery_info or {}).get("redelivered"))


def _job(payload: Mapping[str, Any]) -> Job | None:
    try:
        return Job(
            parcel=Parcel.from_json(payload["parcel"]),
            callbacks=[dict(one) for one in payload.get("callbacks") or ()],
            send_result=dict(payload.get("send_result") or {}),
            before=[CallbackReport.from_json(one) for one in payload.get("before") or ()],
            tries=int(payload.get("tries") or 1),
        )
    except (KeyError, ValueError, TypeError, AttributeError) as exc:
        # Nothing of it may be quoted: specifications hold secrets.
        logger.error("a delivery cannot be read and is dropped (%s)", type(exc).__name__)
        return None


def _report(report: Callable[[DeliveryReport], None], said: DeliveryReport) -> bool:
    """Whether it is known now what became of the parcel."""
    try:
        report(said)
    except (Unreachable, MemoryLost) as exc:
        logger.warning("delivery %s cannot be reported: %s", said.parcel_id, told(exc))
        return False
    return True


def _again(task: Any, job: Job, said: DeliveryReport, pause: float) -> None:
    """The same task with what is known so far, after a pause. Raises Retry; Reject where the broker cannot take it."""
    try:
        task.retry(
            args=(),
            kwargs={
                "parcel": job.parcel.to_json(),
                "callbacks": list(job.callbacks),
                "send_result": job.send_result,
                "before": [one.to_json() for one in said.callbacks],
                "tries": job.tries + 1,
            },
            countdown=pause,
            **shown_as(job.parcel),
        )
    except Reject as exc:  # the message that is being handled is still the broker's, and comes again
        raise Reject(exc.args[0] if exc.args else None, requeue=True) from None


def _log(parcel: Parcel, said: DeliveryReport) -> None:
    for one in said.callbacks:
        if one.status is DeliveryStatus.FAILED:
            logger.error("%s: %s was not delivered, given up: %s", parcel.name, one.callback, one.error)
        elif one.status is DeliveryStatus.RETRYING:
            logger.warning("%s: %s was not delivered yet: %s", parcel.name, one.callback, one.error)


def _log_alert(parcel: Parcel, means: Means) -> None:
    since = "" if parcel.failing_since is None else f" since {parcel.failing_since.isoformat(timespec='seconds')}"
    logger.error(
        "%s was disabled after %d failures in a row%s; resume it with: %s",
        parcel.name,
        parcel.failures,
        since,
        resume_command(means.resume, parcel.name),
    )


def _send_task(app: Celery, allowed: AllowedTasks, message: Any) -> None:
    """Hand one message to the broker, as ``apply_async`` would, once. Raises NotDelivered for a task that schedules may
    not call."""
    if not allowed.allows(message.task):
        raise NotDelivered(f"the task {message.task!r} is not in parrot_allowed_tasks of this worker", final=True)
    task: Any = app.tasks.get(message.task)
    options = {**message.options, "task_id": message.task_id, "retry": False, "add_to_parent": False}
    if message.headers:
        options["headers"] = dict(message.headers)
    if task is not None:
        task.apply_async(list(message.args), dict(message.kwargs), **options)
    else:
        app.send_task(message.task, list(message.args), dict(message.kwargs), **options)


class Reporter:
    """Reports through a coordinator connection of this process's own, made when first needed.

    :param connect: makes one. One that keeps no deliveries is told nothing.
    """

    def __init__(self, connect: Callable[[], Coordinator]) -> None:
        self._connect = connect
        self._by_process: MutableMapping[int, Coordinator] = {}  # a fork must not share connections

    def __call__(self, said: DeliveryReport) -> None:
        """Raises Unreachable."""
        coordinator = self._coordinator()
        if not isinstance(coordinator, Deliveries):
            logger.debug("delivery %s is %s; this coordinator keeps no reports", said.parcel_id, said.status)
            return
        try:
            coordinator.report([said])
        except MemoryLost:
            coordinator.attach()  # what it forgot it will not miss
            coordinator.report([said])

    def _coordinator(self) -> Coordinator:
        found = self._by_process.get(os.getpid())
        if found is None:
            made = self._connect()
            try:
                made.attach()
            except BaseException:
                made.close()
                raise
            found = self._by_process.setdefault(os.getpid(), made)
            if found is not made:  # another thread was faster
                made.close()
        return found
