"""Fill job stores with the real APScheduler 3, and print what it says is due: SQL-URL REDIS-PORT NOW."""

from __future__ import annotations

import json
import sys
from datetime import date, datetime, timedelta
from typing import Any

import jobs
from apscheduler.jobstores.redis import RedisJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger
from chain import text

NOW = datetime.fromisoformat(sys.argv[3])
stores = {"sql": SQLAlchemyJobStore(url=sys.argv[1]), "redis": RedisJobStore(host="127.0.0.1", port=int(sys.argv[2]))}
scheduler = BackgroundScheduler(jobstores=stores, timezone="UTC")
scheduler.start(paused=True)


def cron(zone: str = "UTC", **fields: Any) -> CronTrigger:
    return CronTrigger(timezone=zone, **fields)


TRIGGERS = {
    "mondays by number": CronTrigger.from_crontab("0 9 * * 0", timezone="UTC"),
    "crontab": CronTrigger.from_crontab("*/20 8-18 * * 1-5", timezone="Europe/Madrid"),
    "last day": cron(day="last", hour=23, minute=30),
    "second friday": cron(day="2nd fri", hour=12),
    "last sunday": cron(day="last sun", hour=1, minute=15),
    "fifth or a place": cron(day="5,3rd wed", hour=6),
    "both days": cron(day="1-7", day_of_week="mon", hour=0),
    "steps": cron(minute="7/13"),
    "seconds": cron(second="5,35"),
    "months by name": cron(zone="Asia/Tokyo", month="jan-mar,oct", day=1, hour=9),
    "one year": cron(year="2028", month=2, day=29),
    "weekday steps": cron(day_of_week="*/2", hour=4),
    "bounded": cron(hour=5, start_date=NOW + timedelta(days=3), end_date=NOW + timedelta(days=9)),
    "interval": IntervalTrigger(minutes=17, start_date=NOW - timedelta(hours=3, seconds=11), timezone="UTC"),
    "moved": IntervalTrigger(minutes=17, start_date=NOW - timedelta(hours=3, seconds=11), timezone="UTC"),
    "interval to come": IntervalTrigger(hours=5, start_date=NOW + timedelta(hours=1, seconds=3), timezone="UTC"),
    "date": DateTrigger(NOW + timedelta(days=1, seconds=1), timezone="UTC"),
    "thirty-first": CalendarIntervalTrigger(months=1, hour=8, start_date=date(2027, 1, 31), timezone="UTC"),
    "ten days": CalendarIntervalTrigger(weeks=1, days=3, hour=8, start_date=NOW.date() + timedelta(1), timezone="UTC"),
}  # fmt: skip


def ten(trigger: Any, first: datetime | None) -> list[str]:
    found, at = [], first
    while at is not None and len(found) < 10:
        found.append(text(at))
        at = trigger.get_next_fire_time(at, at)
    return found


def add(name: str, trigger: Any, store: str, **fields: Any) -> None:
    scheduler.add_job(jobs.note, trigger, id=name, jobstore=store, **{"args": [1], "kwargs": {"k": None}, **fields})


due = {}
for name, trigger in TRIGGERS.items():
    first = trigger.get_next_fire_time(None, NOW)
    if name == "moved":
        first = NOW + timedelta(minutes=3, seconds=7)
    due[name] = ten(trigger, first)
    for store in stores:
        add(f"{name}", trigger, store, next_run_time=first, misfire_grace_time=60)
for store in stores:
    add("paused", cron(hour=1), store, next_run_time=None)
    add("week", cron(week=7, hour=1), store)
    add("odd years", cron(year="2027/2"), store)
    add("several", OrTrigger([cron(hour=1), cron(hour=2)]), store)
    add("thing", cron(hour=1), store, args=[jobs.Thing()])
    add("parallel", cron(hour=1, jitter=5), store, max_instances=3, coalesce=False)
    scheduler.add_job(jobs.other, cron(hour=1), id="unknown function", jobstore=store)
scheduler.shutdown()
print(json.dumps(due))
