"""What must be told to somebody: parcels, from the step that records an outcome to the last callback.

1. The step that makes the outcome (finish, reap, a commit that misses due times, disabling) queues a :class:`Parcel` in
   that same step, if the schedule wants one (:attr:`~celery_parrot.model.schedule.Schedule.tells`).
2. Any beat reads the queue, takes what it knows the schedule of, sends the delivery task and says so.
3. The delivery task reports after every try.

At least once throughout. A parcel that is sent twice has one task id, and each of its callbacks one idempotency key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from celery_parrot.model.fire import FireKey, Origin, Status


class About(StrEnum):
    """What a parcel is about, and so which callbacks of its schedule it goes to."""

    SUCCESS = "success"  # callbacks, then the send_result mail
    FAILURE = "failure"  # failure_callbacks
    MISSED = "missed"  # missed_callbacks
    ALERT = "alert"  # the schedule was disabled: parrot_alert_recipients


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """What there is to tell of one fire, or of one range of due times that were missed. Stamps: the coordinator's
    clock, UTC.

    :ivar id: ``{fire_id}:{about}``, its idempotency id: queued again under the same id it is the same parcel. The alert
        has the id of the fire whose failure disabled the schedule, a range that of its first due time.
    :ivar name: of the schedule. ``kind``: its kind.
    :ivar queued_at: when it was queued.
    :ivar status: of the fire. ``output``: its result, formatted and cut. ``error``: ``Type: message``, cut.
    :ivar until: last due time of a range; None for a single fire. ``count``: how many due times it stands for.
    :ivar failures: how many in a row, of a failure or an alert; 0 where the count is a row's and was not asked.
        ``failing_since``: when the first of them ended.
    """

    id: str
    fire_id: str
    key: FireKey
    name: str
    about: About
    queued_at: datetime
    kind: str = "task"
    origin: Origin = Origin.SCHEDULE
    status: Status
    reason: str = ""
    attempt: int = 1
    output: str | None = None
    error: str | None = None
    sent_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    until: datetime | None = None
    count: int = 1
    failures: int = 0
    failing_since: datetime | None = None

    @property
    def schedule_id(self) -> str:
        return self.key.schedule_id

    @property
    def due_at(self) -> datetime:
        return self.key.due_at

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, as :meth:`from_json` takes them; also what callbacks are told."""
        body: dict[str, Any] = {
            "id": self.id,
            "fire_id": self.fire_id,
            "schedule_id": self.key.schedule_id,
            "due_at": self.key.due_at.isoformat(),
            "nonce": self.key.nonce,
        }
        for name in _PLAIN:
            value = getattr(self, name)
            body[name] = value.isoformat() if isinstance(value, datetime) else value
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Parcel:
        """The parcel that :meth:`to_json` wrote; fields of a later release are left out.

        :raises KeyError, ValueError, TypeError: it is none.
        """
        given = {name: body[name] for name in _PLAIN if name in body}
        given.update({name: _instant(body[name]) for name in _STAMPS if body.get(name) is not None})
        given.update(about=About(body["about"]), status=Status(body["status"]))
        given["origin"] = Origin(body.get("origin") or Origin.SCHEDULE)
        key = FireKey(str(body["schedule_id"]), _instant(body["due_at"]), str(body.get("nonce") or ""))
        return cls(id=str(body["id"]), fire_id=str(body["fire_id"]), key=key, **given)


_PLAIN = tuple(field.name for field in fields(Parcel) if field.name not in ("id", "fire_id", "key"))
_STAMPS = ("queued_at", "sent_at", "started_at", "finished_at", "until", "failing_since")


def _instant(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime.fromisoformat(value)


class DeliveryStatus(StrEnum):
    """How far a parcel, or one of its callbacks, has come."""

    DELIVERED = "delivered"
    RETRYING = "retrying"  # something failed and will be tried again
    PARTIAL = "partial"  # of a parcel: given up, but some of it was delivered
    FAILED = "failed"  # given up


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackReport:
    """What became of one callback (or of the result mail, or the alert) so far.

    :ivar callback: what it is, without secrets: its ``name``, else its type and where it goes.
    :ivar error: of the last try, masked and cut; empty if it was delivered.
    :ivar at: when that was, by the worker's clock: for people.
    :ivar tries: how often it was tried.
    """

    callback: str
    status: DeliveryStatus
    error: str = ""
    at: datetime | None = None
    tries: int = 0

    def to_json(self) -> dict[str, Any]:
        """One entry of ``last_callbacks``."""
        return {
            "callback": self.callback,
            "status": str(self.status),
            "error": self.error,
            "at": None if self.at is None else self.at.isoformat(),
            "tries": self.tries,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> CallbackReport:
        """The report that :meth:`to_json` wrote."""
        return cls(
            callback=str(body["callback"]),
            status=DeliveryStatus(body["status"]),
            error=str(body.get("error") or ""),
            at=None if body.get("at") is None else _instant(body["at"]),
            tries=int(body.get("tries") or 0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What became of a parcel so far: the whole of it each time, so the last report is enough.

    :ivar tries: how often the delivery task ran for it. Of two reports of one parcel the one with fewer tries is older.
    """

    parcel_id: str
    fire_id: str
    key: FireKey
    about: About
    status: DeliveryStatus
    callbacks: tuple[CallbackReport, ...] = ()
    tries: int = 1


@runtime_checkable
class Deliveries(Protocol):
    """Capability of a coordinator: the queue of parcels, and what became of them.

    The queue lives with the outcomes: what records an outcome queues its parcel in the same step or not at all.
    An id is good once: it is remembered for as long as a claim, so that what is queued or repeated after it was sent
    is not sent again. Never judged while quiet.
    """

    def queue_parcels(self, parcels: Sequence[Parcel]) -> None:
        """Queue what a database decided, whose rows are not the coordinator's: missed ranges, and the alert for a row
        that was disabled. Asked by whoever brings an outcome into the rows, after the row and before it tells the
        coordinator that this is done, so that a crash in between repeats both. Ids that are known are left out.
        ``queued_at`` becomes the coordinator's now."""
        ...

    def parcels(self, owner: str, limit: int, after: str = "") -> Sequence[Parcel]:
        """The queue, oldest first by (``queued_at``, ``id``), less what :meth:`take_parcels` would refuse ``owner``.

        :param after: the id of a parcel of the last page: what comes behind it. Empty, or no longer known: the start.
        """
        ...

    def take_parcels(self, owner: str, ids: Sequence[str]) -> Sequence[bool]:
        """Which of these are this beat's to send now: they are in the queue and nobody else has taken them, or who has
        is no longer alive, or took them longer than ``takeover_after`` ago. A renewal for those it has already."""
        ...

    def parcels_sent(self, ids: Sequence[str]) -> None:
        """Their delivery task is with the broker, or there is nobody to tell: out of the queue. Idempotent."""
        ...

    def report(self, reports: Sequence[DeliveryReport]) -> None:
        """Record what became of parcels: in the run state ``last_delivery_status``, ``last_delivery_at`` (now, by the
        coordinator's clock) and ``last_callbacks`` (:meth:`CallbackReport.to_json` each), and in the history entry of
        the fire. Changes nothing else of the fire. Never of an unknown schedule: that is ignored. A report about a fire
        whose due time lies before that of the run state's last report leaves the run state as it is; one older than the
        last of its own parcel changes nothing; an alert's is kept in the history entry alone. Of a schedule whose run
        state is a row, what is noted in the entry is carried there; without an entry the report is lost."""
        ...
