"""What ``show`` prints of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from celery_parrot.cli.commands.show import _history
from celery_parrot.client import ScheduleView
from celery_parrot.model.state import RunState

NOW = datetime(2026, 3, 2, 3, tzinfo=UTC)


def test_the_last_delivery_with_what_was_not_delivered() -> None:
    state = RunState(
        last_delivery_status="partial",
        last_delivery_at=NOW - timedelta(minutes=6),
        last_callbacks=(
            {"callback": "file a.json", "status": "delivered", "error": ""},
            {"callback": "pager", "status": "failed", "error": "nobody answers"},
        ),
    )
    view = ScheduleView(schedule_id="n", name="n", store="code", run_state=state)
    assert dict(_history(view, UTC, NOW))["last delivery"] == "partial (6 min ago), pager: nobody answers"


def test_nothing_is_said_of_deliveries_that_never_were() -> None:
    assert "last delivery" not in dict(_history(ScheduleView(schedule_id="n", name="n", store="code"), UTC, NOW))
