"""What a beat does for deliveries: parcels out of the coordinator's queue, their task to the broker."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from celery_parrot.clock import Clock
from celery_parrot.dispatch.stores import Stores
from celery_parrot.model import events
from celery_parrot.model.events import Event
from celery_parrot.model.schedule import Schedule
from celery_parrot.protocols import (
    About,
    CallbackReport,
    Deliveries,
    DeliveryReport,
    DeliveryStatus,
    EventSink,
    Message,
    Parcel,
    Sender,
    SendStatus,
)

TASK: Final = "celery_parrot.deliver"
"""The task that delivers a parcel; registered by ``Parrot(app)``."""

_EVERY: Final = 0.5
_BATCH: Final = 100
_PAGES: Final = 5  # looked through at once; many may be for others
_SEND_SECONDS: Final = 1.0
_UNKNOWN_FOR: Final = timedelta(days=1)
_BUSY_PAUSE: Final = 2.0
_SAID: Final = 1000


class DeliveryDesk:
    """Runs between ticks. Any beat may do it: a parcel is one beat's at a time, and one sent twice has one task id.

    :param coordinator: one that keeps no parcels has none to send.
    :param sink: told of schedules that were disabled.
    """

    def __init__(
        self,
        coordinator: object,
        stores: Stores,
        sender: Sender,
        clock: Clock,
        owner: str,
        queue: str | None,
        sink: EventSink | None = None,
    ) -> None:
        self._queue_of = coordinator if isinstance(coordinator, Deliveries) else None
        self._stores, self._sender, self._clock = stores, sender, clock
        self._owner, self._queue, self._events = owner, queue, sink
        self._said: deque[str] = deque(maxlen=_SAID)  # alerts
        self._next = clock.monotonic()
        self._after = ""  # where to go on, with those behind what is for others

    def run(self, now: datetime) -> None:
        """Send what is there, if it is time. Raises Unreachable or MemoryLost where the coordinator does.

        :param now: the coordinator's clock."""
        if self._queue_of is None or self._clock.monotonic() < self._next:
            return
        self._next = self._clock.monotonic() + _EVERY
        until = self._clock.monotonic() + _SEND_SECONDS
        for _ in range(_PAGES):
            page = self._queue_of.parcels(self._owner, _BATCH, self._after)
            self._after = page[-1].id if len(page) == _BATCH else ""
            if page and not self._handle(self._queue_of, page, now, until):
                self._after = ""
                self._next = self._clock.monotonic() + _BUSY_PAUSE  # the broker is away, or slow
            if not self._after:
                return

    def _handle(self, parcels: Deliveries, page: Sequence[Parcel], now: datetime, until: float) -> bool:
        """False: no more now."""
        known = self._stores.definitions({parcel.schedule_id for parcel in page if parcel.about is not About.ALERT})
        done: list[str] = []
        wanted: list[tuple[Parcel, Message]] = []
        for parcel in page:
            due = known.get(parcel.schedule_id)
            if due is None and parcel.about is not About.ALERT:
                if now - parcel.queued_at > _UNKNOWN_FOR:
                    done.append(parcel.id)  # no beat has known its schedule for a day: it was deleted
                continue
            message = message_of(parcel, None if due is None else due.schedule, self._queue)
            if message is None:
                done.append(parcel.id)  # its schedule wants nobody told any more
            else:
                wanted.append((parcel, message))
        complete = self._send(parcels, wanted, done, until)
        if done:
            parcels.parcels_sent(done)
        return complete

    def _send(
        self, parcels: Deliveries, wanted: Sequence[tuple[Parcel, Message]], done: list[str], until: float
    ) -> bool:
        if not wanted:
            return True
        ours = parcels.take_parcels(self._owner, [parcel.id for parcel, _ in wanted])
        taken = [pair for pair, mine in zip(wanted, ours, strict=True) if mine]
        for parcel, _ in taken:
            self._say(parcel)
        results = self._sender.send([message for _, message in taken], until) if taken else ()
        complete = True
        unsendable: list[DeliveryReport] = []
        for (parcel, _), result in zip(taken, results, strict=True):
            if result.status is SendStatus.BROKEN:
                unsendable.append(_unsendable(parcel, result.error))
            if result.status in (SendStatus.SENT, SendStatus.BROKEN):
                done.append(parcel.id)
            else:
                complete = False
        if unsendable:
            parcels.report(unsendable)
        return complete

    def _say(self, parcel: Parcel) -> None:
        """An alert is an event, too, whoever records the failure, and whether or not mail can be sent."""
        if self._events is None or parcel.about is not About.ALERT or parcel.id in self._said:
            return
        self._said.append(parcel.id)
        last = parcel.error or parcel.reason
        text = f"{parcel.name} is disabled after {parcel.failures} failure(s) in a row, last: {last}"
        fields = {
            "schedule": parcel.name,
            "schedule_id": parcel.schedule_id,
            "kind": parcel.kind,
            "failures": parcel.failures,
            "fire_id": parcel.fire_id,
            "due_at": parcel.due_at.isoformat(),
            "error": last,
        }
        self._events.emit(Event(events.SCHEDULE_DISABLED, logging.ERROR, text, fields))


def message_of(parcel: Parcel, schedule: Schedule | None, queue: str | None) -> Message | None:
    """The delivery task of a parcel under its schedule's current definition, or None: nobody is to be told.

    Specifications hold secrets: what Celery shows of the arguments, in events and logs, is a text of ours.
    """
    callbacks, send_result = _whom(parcel, schedule)
    if parcel.about is not About.ALERT and not callbacks and not send_result:
        return None
    return Message(
        task=TASK,
        task_id=str(uuid.uuid5(uuid.NAMESPACE_URL, f"parrot:delivery:{parcel.id}")),
        kwargs={"parcel": parcel.to_json(), "callbacks": [dict(one) for one in callbacks], "send_result": send_result},
        options={**({} if queue is None else {"queue": queue}), **shown_as(parcel)},
    )


def shown_as(parcel: Parcel) -> dict[str, str]:
    """The options that keep arguments out of events and logs."""
    return {"argsrepr": "()", "kwargsrepr": f"{{'parcel': {parcel.id!r}, …}}"}


def _unsendable(parcel: Parcel, error: str) -> DeliveryReport:
    """What can never be sent would be tried for ever: it has failed, and says so."""
    report = CallbackReport(callback=TASK, status=DeliveryStatus.FAILED, error=error, tries=1)
    return DeliveryReport(
        parcel_id=parcel.id,
        fire_id=parcel.fire_id,
        key=parcel.key,
        about=parcel.about,
        status=DeliveryStatus.FAILED,
        callbacks=(report,),
    )


def _whom(parcel: Parcel, schedule: Schedule | None) -> tuple[Sequence[Mapping[str, Any]], dict[str, Any]]:
    if schedule is None:
        return (), {}
    if parcel.about is About.SUCCESS:
        return schedule.callbacks, dict(schedule.send_result)
    if parcel.about is About.FAILURE:
        return schedule.failure_callbacks, {}
    return (schedule.missed_callbacks, {}) if parcel.about is About.MISSED else ((), {})
