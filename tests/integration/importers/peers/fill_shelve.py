"""Fill the file of Celery's own beat, and print what it says is due: PATH NOW."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta

from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab, schedule, solar
from chain import ten

NOW = datetime.fromisoformat(sys.argv[2])


class Lunar(schedule):
    """A schedule of somebody's own code."""


app = Celery("peer", set_as_current=True)
app.conf.update(timezone="Europe/Madrid", result_expires=None)
app.conf.beat_schedule = {
    name: {"task": "t.note", "schedule": when, "args": (1, "a"), "kwargs": {"k": 2}, "options": {"queue": "q"}}
    for name, when in {
        "workdays": crontab(minute="30", hour="6", day_of_week="1-5"),
        "quarters": crontab(minute="*/15"),
        "a minute": 60.0,
        "a day": timedelta(days=1),
        "sunset": solar("sunset", 40.4, -3.7),
        "lunar": Lunar(100),
    }.items()
}
scheduler = PersistentScheduler(app, schedule_filename=sys.argv[1])
due = {}
for name, entry in scheduler.schedule.items():
    entry.last_run_at = NOW - timedelta(seconds=41)
    due[name] = ten(entry.schedule, entry.last_run_at, NOW)
scheduler.close()
print(json.dumps(due))
