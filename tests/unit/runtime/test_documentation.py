"""The examples of Celery's page on periodic tasks, driven over three days by a fake clock, against Celery itself."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, maybe_schedule, solar

from celery_parrot import Parrot
from celery_parrot.testing import FakeClock, RecordingSender

START = datetime(2026, 5, 9, 11, 59, 30, tzinfo=UTC)
DAYS = timedelta(days=3)

CRONTABS = [
    crontab(minute=0, hour=0),
    crontab(minute=0, hour="*/3"),
    crontab(minute=0, hour="0,3,6,9,12,15,18,21"),
    crontab(minute="*/15"),
    crontab(minute="*/10", hour="3,17,22", day_of_week="thu,fri,mon"),
    crontab(minute=0, hour="*/2,*/3"),
    crontab(minute=0, hour="*/5"),
    crontab(minute=0, hour="*/3,8-17"),
    crontab(0, 0, day_of_month="2"),
    crontab(0, 0, day_of_month="2-30/2"),
    crontab(0, 0, day_of_month="1-7,15-21"),
    crontab(0, 0, day_of_month="11", month_of_year="5"),
    crontab(0, 0, month_of_year="*/3"),
    crontab(minute="*/30", hour="*", day_of_week="sun"),
    crontab(hour=7, minute=30, day_of_week=1),
]


def expected(when: Any, app: Celery) -> list[datetime]:
    """What Celery itself says, its clock standing at each due time in turn."""
    asked = maybe_schedule(when, app=app)
    assert isinstance(asked, BaseSchedule)
    found: list[datetime] = []
    last = START
    while True:
        asked.nowfun = lambda now=last: now  # type: ignore[attr-defined]
        last = last + asked.remaining_estimate(last)
        if last > START + DAYS:
            return found
        found.append(last)


@pytest.mark.parametrize("zone", ["UTC", "Europe/London"])
def test_every_example_is_due_when_celery_says(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    pytest.importorskip("ephem")
    app = Celery("tasks", broker="memory://", set_as_current=False)
    app.conf.update(timezone=zone, result_expires=None)
    examples: dict[str, Any] = {f"crontab {n}": when for n, when in enumerate(CRONTABS)}
    examples |= {"sunset": solar("sunset", -37.81753, 144.96715), "hourly": timedelta(hours=1), "often": 1800.0}
    app.conf.beat_schedule = {
        name: {"task": "tasks.add", "schedule": when, "args": (16, 16)} for name, when in examples.items()
    }

    @app.task(shared=False, name="tasks.test")
    def test(arg: str) -> None: ...

    @app.on_after_configure.connect
    def setup_periodic_tasks(sender: Celery, **_: object) -> None:
        sender.add_periodic_task(crontab(hour=7, minute=30, day_of_week=1), test.s("Happy Mondays!"))

    clock, sent = FakeClock(START), RecordingSender()
    monkeypatch.setattr("celery_parrot.runtime.wiring.CelerySender", lambda *_: sent)
    beat = Parrot(app, clock=clock).beat()
    beat.tick()
    while (following := beat.code.next_due({"task"})) is not None and following <= START + DAYS:
        clock.move_to(following)
        beat.tick()
    dues = defaultdict(list)
    for message in sent.sent:
        dues[message.headers["parrot"]["name"]].append(datetime.fromisoformat(message.headers["parrot"]["due_at"]))
    for name, when in examples.items():
        if isinstance(when, crontab):
            assert dues[name] == expected(when, app), (name, when)
    assert [due.minute for due in dues["hourly"]] == [0] * 72
    assert len(dues["often"]) == 144
    assert len(dues["sunset"]) == 3
    assert len(dues["tasks.test('Happy Mondays!')"]) == 1
    assert beat.code.broken == {}
