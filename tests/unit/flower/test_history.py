"""The history of a schedule, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from celery_parrot.flower.api import schedules
from celery_parrot.flower.api.operations import Ask
from celery_parrot.flower.desk import Desk
from celery_parrot.model.fire import FireKey, FireRecord, Origin, Status

DUE = datetime(2026, 3, 1, tzinfo=UTC)


def record(hour: int) -> FireRecord:
    key = FireKey("n1", DUE + timedelta(hours=hour))
    return FireRecord(
        fire_id=f"f{hour}", key=key, name="nightly", kind="task", origin=Origin.SCHEDULE, status=Status.SUCCESS
    )


class Client:
    """Five fires, an hour apart."""

    def fires(self, name: str, *, limit: int, before: datetime | None) -> Sequence[FireRecord]:
        all_ = [record(hour) for hour in range(4, -1, -1)]
        return [one for one in all_ if before is None or one.due_at < before][:limit]


def test_each_page_goes_on_where_the_last_one_ended() -> None:
    """As the API hands on and takes back; an empty ``before`` ends it."""
    desk = cast(Desk, SimpleNamespace(client=Client()))
    given: dict[str, Any] = {"name": "nightly", "limit": 2}
    pages: list[list[str]] = []
    while not pages or given["before"]:
        body = schedules.fires(Ask(desk=desk, given=given)).body
        pages.append([one["fire_id"] for one in body["items"]])
        given = {**given, "before": body["before"]}
    assert pages == [["f4", "f3"], ["f2", "f1"], ["f0"]]
