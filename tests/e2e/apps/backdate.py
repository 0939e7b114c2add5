"""``python -m tests.e2e.apps.backdate MODULE {"schedule": days, …}``: give the schedules of an app a mark in the past,
as if no beat had run since."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from importlib import import_module

from celery_parrot.runtime import wiring


def main(module: str, days_of: dict[str, float]) -> None:
    """Register each with a mark so many days ago; prints the marks as JSON."""
    beat = wiring.beat(import_module(module).app)
    now = beat.coordinator.attach().now.replace(microsecond=0)
    registrations = [
        replace(one, initial=now - timedelta(days=days_of[one.schedule_id]))
        for one in beat.code.registrations()
        if one.schedule_id in days_of
    ]
    marks = beat.coordinator.register(registrations)
    print(json.dumps({mark.schedule_id: mark.last_due.isoformat() for mark in marks}))
    beat.close(1.0)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
