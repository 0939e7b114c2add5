"""Fill a SQLite file with the real django-celery-beat, and print what it says is due: PATH NOW."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta

import django
from chain import ten, text
from django.conf import settings

PATH, NOW = sys.argv[1], datetime.fromisoformat(sys.argv[2])
settings.configure(
    INSTALLED_APPS=["django_celery_beat"], USE_TZ=True, TIME_ZONE="UTC",
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    MIGRATION_MODULES={"django_celery_beat": None},  # the same tables, made at once instead of in twenty steps
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": PATH}},
)  # fmt: skip
django.setup()

from celery import Celery  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django_celery_beat.models import (  # noqa: E402
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    SolarSchedule,
)
from django_celery_beat.schedulers import ModelEntry  # noqa: E402

app = Celery("peer", set_as_current=True)
app.conf.timezone = "UTC"
call_command("migrate", run_syncdb=True, verbosity=0)
LAST = NOW - timedelta(minutes=3, seconds=41, microseconds=125_000)
START = NOW + timedelta(hours=5, minutes=7)


def cron(text: str, zone: str = "UTC") -> dict[str, object]:
    fields = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return {"crontab": CrontabSchedule.objects.create(timezone=zone, **dict(zip(fields, text.split(), strict=True)))}


def every(count: int, period: str) -> dict[str, object]:
    return {"interval": IntervalSchedule.objects.create(every=count, period=period)}


def clock(at: datetime) -> dict[str, object]:
    return {"clocked": ClockedSchedule.objects.create(clocked_time=at), "one_off": True}


def sun(event: str) -> dict[str, object]:
    return {"solar": SolarSchedule.objects.create(event=event, latitude=40.416775, longitude=-3.703790)}


TASKS = {
    "nine in tokyo": cron("0 9 * * *", "Asia/Tokyo"),
    "madrid workdays": cron("30 18 * * 1-5", "Europe/Madrid"),
    "both days": cron("0 0 1-7 * mon"),
    "new york month": cron("15 4 1 * *", "America/New_York"),
    "minutely": cron("* * * * *"),
    "ten seconds": every(10, "seconds"),
    "three days": every(3, "days"),
    "half a million": every(500_000, "microseconds"),
    "sunset": sun("sunset"),
    "noon": sun("solar_noon"),
    "clocked": clock(NOW + timedelta(days=2, seconds=1)),
    "once by cron": cron("0 3 * * *") | {"one_off": True},
    "starts later": every(1, "hours") | {"start_time": START, "last_run_at": None},
    "cron starts later": cron("0 * * * *") | {"start_time": START, "last_run_at": None},
    "ends": every(1, "hours") | {"expires": NOW + timedelta(hours=4)},
    "routed": every(7, "minutes") | {
        "queue": "q", "routing_key": "r", "priority": 3, "expire_seconds": 60, "headers": '{"a": "b"}',
        "args": "[null, 1]", "kwargs": '{"k": [2]}', "description": "said so",
    },
}  # fmt: skip


def due_of(task: PeriodicTask) -> list[str]:
    """What the scheduler's own entry answers, by the rules of its ``is_due``."""
    if task.clocked:
        return [text(task.schedule.clocked_time)]
    entry = ModelEntry(task, app=app)
    last, now, found = entry.last_run_at, NOW, []
    zone = getattr(entry.schedule, "tz", UTC)
    if task.start_time is not None and now < task.start_time:
        first = task.due_start_time(UTC) if task.crontab else task.start_time
        found, last, now = [text(first)], first, first
    found += ten(entry.schedule, last.astimezone(zone), now)
    if task.expires is not None:
        found = [each for each in found if datetime.fromisoformat(each) < task.expires]
    return found[:1] if task.one_off else found[:10]


due = {}
for name, fields in TASKS.items():
    task = PeriodicTask.objects.create(name=name, task="t.note", **{"last_run_at": LAST, **fields})
    due[name] = due_of(PeriodicTask.objects.get(pk=task.pk))
PeriodicTask.objects.create(name="off", task="t.note", enabled=False, **cron("0 1 * * *"))
PeriodicTask.objects.create(name="gone by", task="t.note", last_run_at=LAST, **clock(NOW - timedelta(days=1)))
PeriodicTask.objects.create(name="has run", task="t.note", one_off=True, total_run_count=1, **every(1, "days"))
PeriodicTask.objects.create(name="bad args", task="t.note", args="[1,", **every(1, "days"))
broken = cron("0 0 * * *")
CrontabSchedule.objects.filter(pk=broken["crontab"].pk).update(minute="99")
PeriodicTask.objects.create(name="bad cron", task="t.note", **broken)
PeriodicTask.objects.create(name="fifth monday", task="t.note", last_run_at=LAST, **cron("0 0 * * mon#5"))
print(json.dumps(due))
