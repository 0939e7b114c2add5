"""The schedules of a seed: a few, of different intervals, policies and kinds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import datetime

from celery_parrot.model.schedule import TASK_KIND, Missed, Policy, Schedule
from celery_parrot.stores.memory import Definition, fingerprint
from celery_parrot.triggers import build
from celery_parrot.triggers.bounded import Bounded
from tests.simulation.broker import UNSENDABLE


def schedules(chance: random.Random, *, end_at: datetime) -> Sequence[Definition]:
    """Two to four, and now and then one whose messages cannot be sent."""
    made = [
        _definition(chance, f"s{n}", chance.choice((1.0, 2.0, 2.5, 3.0, 5.0, 7.0)), end_at)
        for n in range(chance.choice((2, 3, 3, 4)))
    ]
    if chance.random() < 0.1:
        made.append(_definition(chance, "u", 5.0, end_at, target=UNSENDABLE))
    return made


def _definition(
    chance: random.Random, name: str, every: float, end_at: datetime, target: str = "tasks.work"
) -> Definition:
    config = {"seconds": every, "offset": chance.choice((0.0, 0.25, 0.5))}
    policy = Policy(
        missed=chance.choice((Missed.COALESCE, Missed.CATCH_UP, Missed.CATCH_UP, Missed.SKIP)),
        misfire_grace=chance.choice((None, None, 300.0, 12.0, 4.0)),
        catch_up_limit=chance.choice((2, 3, 100)),
        jitter=chance.choice((0.0, 0.0, 0.7)),
        end_at=end_at,
        max_fires=6 if chance.random() < 0.1 else None,
    )
    schedule = Schedule(
        schedule_id=name,
        name=name,
        target=target,
        schedule_type="interval",
        schedule_config=config,
        kind="agent" if target != UNSENDABLE and chance.random() < 0.3 else TASK_KIND,
        policy=policy,
    )
    trigger = Bounded(build("interval", config), end_at=end_at)
    when = fingerprint("interval", config, timezone="UTC", end_at=end_at)
    return Definition(schedule=schedule, trigger=trigger, when=when)
