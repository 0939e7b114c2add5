"""Every example of Celery's documentation page on periodic tasks, as it stands there.

What is not from that page is the broker's address and the one line that chooses the scheduler.
"""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.schedules import crontab, solar

app = Celery("tasks", broker=os.environ["DOCS_BROKER"])
app.conf.beat_scheduler = "parrot"
app.conf.broker_connection_retry_on_startup = True


# --- Entries ----------------------------------------------------------------------------------------------------------


@app.on_after_configure.connect
def setup_periodic_tasks(sender: Celery, **kwargs: Any) -> None:
    """As in the section "Entries"."""
    # Calls test('hello') every 10 seconds.
    sender.add_periodic_task(10.0, test.s("hello"), name="add every 10")

    # Calls test('hello') every 30 seconds. It uses the same signature of previous task, an explicit name is
    # defined to avoid this task replacing the previous one defined.
    sender.add_periodic_task(30.0, test.s("hello"), name="add every 30")

    # Calls test('world') every 30 seconds
    sender.add_periodic_task(30.0, test.s("world"), expires=10)

    # Executes every Monday morning at 7:30 a.m.
    sender.add_periodic_task(
        crontab(hour=7, minute=30, day_of_week=1),
        test.s("Happy Mondays!"),
    )


@app.task
def test(arg: str) -> None:
    """Say it."""
    print(arg)


@app.task(name="tasks.add")
def add(x: int, y: int) -> None:
    """Say the sum."""
    z = x + y
    print(z)


app.conf.beat_schedule = {
    "add-every-30-seconds": {
        "task": "tasks.add",
        "schedule": 30.0,
        "args": (16, 16),
    },
    # --- Crontab schedules
    # Executes every Monday morning at 7:30 a.m.
    "add-every-monday-morning": {
        "task": "tasks.add",
        "schedule": crontab(hour=7, minute=30, day_of_week=1),
        "args": (16, 16),
    },
    # --- Solar schedules
    # Executes at sunset in Melbourne
    "add-at-melbourne-sunset": {
        "task": "tasks.add",
        "schedule": solar("sunset", -37.81753, 144.96715),
        "args": (16, 16),
    },
}
app.conf.timezone = "UTC"  # type: ignore[misc, assignment]  # as documented; the stubs know better

#: The table "The syntax of these Crontab expressions are very flexible", in its order.
CRONTABS = {
    "every minute": crontab(),
    "daily at midnight": crontab(minute=0, hour=0),
    "every three hours": crontab(minute=0, hour="*/3"),
    "same as previous": crontab(minute=0, hour="0,3,6,9,12,15,18,21"),
    "every 15 minutes": crontab(minute="*/15"),
    "every minute at sundays": crontab(day_of_week="sunday"),
    "same as previous, spelled out": crontab(minute="*", hour="*", day_of_week="sun"),
    "every ten minutes, certain hours": crontab(minute="*/10", hour="3,17,22", day_of_week="thu,fri"),
    "every even hour, and every hour divisible by three": crontab(minute=0, hour="*/2,*/3"),
    "every hour divisible by 5": crontab(minute=0, hour="*/5"),
    "every hour divisible by 3, and office hours": crontab(minute=0, hour="*/3,8-17"),
    "second day of every month": crontab(minute=0, hour=0, day_of_month="2"),
    "every even numbered day": crontab(minute=0, hour=0, day_of_month="2-30/2"),
    "first and third weeks of the month": crontab(minute=0, hour=0, day_of_month="1-7,15-21"),
    "eleventh of May": crontab(minute=0, hour=0, day_of_month="11", month_of_year="5"),
    "every day on the first month of every quarter": crontab(minute=0, hour=0, month_of_year="*/3"),
}
app.conf.beat_schedule |= {
    name: {"task": "tasks.add", "schedule": when, "args": (16, 16)} for name, when in CRONTABS.items()
}

#: All names under which the examples above are scheduled.
NAMES = {
    "add every 10",
    "add every 30",
    "add-every-30-seconds",
    "add-every-monday-morning",
    "add-at-melbourne-sunset",
    *CRONTABS,
}
