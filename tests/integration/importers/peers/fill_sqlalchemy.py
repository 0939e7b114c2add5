"""Fill a database with the real sqlalchemy-celery-beat, and print what it says is due: URL SCHEMA NOW."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

from celery import Celery
from chain import ten, text
from sqlalchemy_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    Period,
    PeriodicTask,
    SolarSchedule,
)
from sqlalchemy_celery_beat.schedulers import ModelEntry
from sqlalchemy_celery_beat.session import SessionManager

URL, SCHEMA, NOW = sys.argv[1], sys.argv[2] or None, datetime.fromisoformat(sys.argv[3])
app = Celery("peer", set_as_current=True)
app.conf.timezone = "UTC"
manager = SessionManager()
engine, Session = manager.create_session(URL, schema=SCHEMA)
manager.prepare_models(engine, schema=SCHEMA)
session = Session()
LAST = NOW - timedelta(minutes=3, seconds=41)
HOUR = IntervalSchedule(every=1, period=Period.HOURS)

TASKS = {
    "nine in tokyo": (CrontabSchedule(minute="0", hour="9", timezone="Asia/Tokyo"), {}),
    "both days": (CrontabSchedule(minute="0", hour="0", day_of_month="1-7", day_of_week="mon"), {}),
    "ninety": (IntervalSchedule(every=90, period=Period.SECONDS), {}),
    "hourly": (HOUR, {}),
    "sunrise": (SolarSchedule(event="sunrise", latitude=40.416775, longitude=-3.70379), {}),
    "clocked": (ClockedSchedule(clocked_time=NOW + timedelta(days=2)), {"one_off": True}),
    "starts later": (HOUR, {"start_time": NOW + timedelta(hours=2, minutes=9), "last_run_at": None}),
    "routed": (HOUR, {"queue": "q", "priority": 4, "expire_seconds": 60, "args": "[1]", "kwargs": '{"a": null}'}),
}  # fmt: skip

due = {}
for name, (model, fields) in TASKS.items():
    session.add(model)
    session.flush()
    task = PeriodicTask(name=name, task="t.note", schedule_model=model, **{"last_run_at": LAST, **fields})
    session.add(task)
    session.commit()
    entry = ModelEntry(task, Session=Session, app=app)  # which changes the row
    session.rollback()
    if name == "clocked":
        due[name] = [text(entry.schedule.clocked_time)]
        continue
    last, found = entry.last_run_at, []
    if "start_time" in fields:
        found, last = [text(fields["start_time"])], fields["start_time"]
    found += ten(entry.schedule, last.astimezone(getattr(entry.schedule, "tz", UTC)), max(NOW, last))
    due[name] = found[:10]
session.add(PeriodicTask(name="off", task="t.note", schedule_model=HOUR, enabled=False))
session.commit()
print(json.dumps(due))
