"""What is to be told to somebody."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from celery_parrot.coordination.redis import answers, codec
from celery_parrot.coordination.redis.calls import Calls
from celery_parrot.protocols import DeliveryReport, Parcel


class ParcelCalls(Calls):
    """:class:`~celery_parrot.protocols.Deliveries`."""

    def queue_parcels(self, parcels: Sequence[Parcel]) -> None:
        self._batch("queue_parcels", "parcels", parcels, _parcel_out)

    def parcels(self, owner: str, limit: int, after: str = "") -> Sequence[Parcel]:
        found: list[Parcel] = []
        while True:  # what cannot be read makes no page shorter
            wanted = max(limit - len(found), 0)
            _, told = self._call("parcels", {"owner": owner, "limit": wanted, "after": after})
            read = [self._parcel_in(raw) for raw in told]
            found += (parcel for parcel in read if parcel is not None)
            if len(read) < wanted or None not in read:
                return found
            after = codec.load(told[-1])["id"]

    def _parcel_in(self, raw: bytes) -> Parcel | None:
        body = codec.load(codec.text(raw))
        return answers.whole(partial(Parcel.from_json, body), self._faults.report, "parcels", body["id"])

    def take_parcels(self, owner: str, ids: Sequence[str]) -> Sequence[bool]:
        return self._flags("take_parcels", "ids", ids, str, owner=owner)

    def parcels_sent(self, ids: Sequence[str]) -> None:
        self._batch("parcels_sent", "ids", ids, str)

    def report(self, reports: Sequence[DeliveryReport]) -> None:
        self._batch("report", "items", reports, _report_out)


def _parcel_out(parcel: Parcel) -> dict[str, Any]:
    moments = {name: getattr(parcel, name) for name in parcel.__slots__ if isinstance(getattr(parcel, name), datetime)}
    return parcel.to_json() | {name: codec.iso(moment) for name, moment in moments.items()}


def _report_out(report: DeliveryReport) -> dict[str, Any]:
    return {
        "text": report.key.text,
        "id": report.key.schedule_id,
        "moment": report.key.moment,
        "about": report.about.value,
        "status": report.status.value,
        "tries": report.tries,
        # as text: the scripts would change numbers and empty lists
        "callbacks": codec.dump([one.to_json() for one in report.callbacks]).decode(),
    }
