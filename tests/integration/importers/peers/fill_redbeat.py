"""Fill a Redis with the real RedBeat, and print what it says is due: URL NOW."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta, timezone

import redis
from celery import Celery
from celery.schedules import crontab, schedule
from chain import ten
from dateutil.rrule import FR, MO
from redbeat import RedBeatSchedulerEntry
from redbeat.schedules import rrule

URL, NOW = sys.argv[1], datetime.fromisoformat(sys.argv[2])
app = Celery("peer", broker=URL, set_as_current=True)
app.conf.update(redbeat_redis_url=URL, timezone="Europe/Madrid")
LAST = NOW - timedelta(minutes=7, seconds=13, microseconds=250_000)
PLUS_5 = timezone(timedelta(hours=5, minutes=30))

SCHEDULES = {
    "every quarter": crontab(minute="*/15"),
    "weekday mornings": crontab(minute="30", hour="6", day_of_week="1-5"),
    "first and fifteenth": crontab(minute="0", hour="9", day_of_month="1,15"),
    "friday the 13th": crontab(minute="13", hour="13", day_of_month="13", day_of_week="fri"),
    "over midnight": crontab(minute="5", hour="22-2"),
    "sundays by number": crontab(minute="0", hour="12", day_of_week="0"),
    "quarterly": crontab(minute="0", hour="10", day_of_month="1", month_of_year="*/3"),
    "90 seconds": schedule(90),
    "half second": schedule(0.5),
    "a day": schedule(timedelta(days=1)),
    "hours, relative": schedule(timedelta(hours=2), relative=True),
    "ninety minutes, relative": schedule(timedelta(minutes=90), relative=True),
    "daily rule": rrule("DAILY", dtstart=NOW - timedelta(days=3, hours=1)),
    "weekly rule": rrule("WEEKLY", dtstart=NOW - timedelta(days=30), byweekday=(MO, FR), byhour=8, byminute=0),
    "last workday": rrule(
        "MONTHLY", dtstart=datetime(2026, 1, 1, 17, tzinfo=NOW.tzinfo), byweekday=(0, 1, 2, 3, 4), bysetpos=-1
    ),
    "counted": rrule("MINUTELY", dtstart=NOW + timedelta(minutes=5), interval=3, count=4),
    "until": rrule("HOURLY", dtstart=NOW - timedelta(hours=1, minutes=1), interval=2, until=NOW + timedelta(hours=7)),
    "elsewhere": rrule("DAILY", dtstart=datetime(2026, 5, 1, 9, tzinfo=PLUS_5), interval=2),
}

due = {}
for name, when in SCHEDULES.items():
    entry = RedBeatSchedulerEntry(
        name, "t.note", when, args=[name, None], kwargs={"n": 1}, options={"queue": "q", "expires": 30},
        last_run_at=LAST, app=app,
    ).save()  # fmt: skip
    stored = RedBeatSchedulerEntry.from_key(entry.key, app=app)
    due[name] = ten(stored.schedule, stored.last_run_at, NOW)
RedBeatSchedulerEntry("off", "t.note", crontab(minute="0"), enabled=False, last_run_at=LAST, app=app).save()
client = redis.Redis.from_url(URL)
spent = rrule("DAILY", dtstart=NOW - timedelta(days=9), count=2)
RedBeatSchedulerEntry("spent", "t.note", spent, last_run_at=LAST, app=app).save()
client.hset("redbeat:moon", "definition", json.dumps(
    {"name": "moon", "task": "t.note", "schedule": {"__type__": "lunar"}, "enabled": True}
))  # fmt: skip
client.hset("redbeat:cut off", "definition", '{"name": "cut')
moment = {"__type__": "datetime", "year": 2027, "month": 1, "day": 1, "hour": 0, "minute": 0, "timezone": "UTC"}
client.hset("redbeat:moment", "definition", json.dumps(
    {"name": "moment", "task": "t.note", "args": [moment], "schedule": {"__type__": "interval", "every": 5}}
))  # fmt: skip
print(json.dumps(due))
