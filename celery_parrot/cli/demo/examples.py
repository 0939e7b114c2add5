"""The demo's schedules: a dozen, of different types, most of them due within seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.triggers import Trigger, build

NAME = "demo"
"""The registered name (``parrot_name``) of the demo's scheduler."""

AGENT = "agent"
"""A declared kind: its schedules say what to ask whom, its task does the asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One schedule, in the words of ``parrot.schedules``.

    :ivar on_purpose: whether some of its fires fail by design; it is then counted apart.
    :ivar native: whether it stands in Celery's own ``beat_schedule``, as a number of seconds.
    """

    name: str
    target: str
    schedule_type: str
    schedule_config: Mapping[str, Any]
    kind: str = "task"
    prompt: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    jitter: float = 0.0
    on_purpose: bool = False
    native: bool = False

    def trigger(self) -> Trigger:
        """When it is due: made from the definition alone, without any beat."""
        return build(self.schedule_type, self.schedule_config, schedule_id=self.name)


def examples(start: datetime) -> tuple[Example, ...]:
    """All of them. The same ``start`` gives the same schedules in every process.

    :param start: when the demo began; what is due once a day or rarer is set a few seconds after it.
    """

    def clock(after: float) -> dict[str, int]:
        at = (start + timedelta(seconds=after)).astimezone(UTC)
        return {"hour": at.hour, "minute": at.minute, "second": at.second}

    day = (start + timedelta(seconds=16)).astimezone(UTC)
    work = "demo.work"
    return (
        Example(name="every-second", target=work, schedule_type="interval", schedule_config={"seconds": 1}),
        Example(
            name="beat_schedule", target=work, schedule_type="interval", schedule_config={"seconds": 3}, native=True
        ),
        Example(
            name="cron-seconds",
            target=work,
            schedule_type="cron",
            schedule_config={"expr": "*/5 * * * * *", "seconds": "first"},
        ),
        Example(name="cron-minute", target=work, schedule_type="cron", schedule_config={"expr": "* * * * *"}),
        Example(name="daily", target=work, schedule_type="daily", schedule_config=clock(10)),
        Example(
            name="weekly",
            target=work,
            schedule_type="weekly",
            schedule_config={"day_of_week": f"{day:%a}".lower(), **clock(16)},
        ),
        Example(
            name="once",
            target=work,
            schedule_type="once",
            schedule_config={"run_date": (start + timedelta(seconds=13)).isoformat()},
        ),
        Example(
            name="random-window",
            target=work,
            schedule_type="random_within_window",
            schedule_config={"start_hour": 0, "end_hour": 24, "fires_per_day": 14400},
        ),
        Example(name="rrule", target=work, schedule_type="rrule", schedule_config=_rrule(start)),
        Example(name="jitter", target=work, schedule_type="interval", schedule_config={"seconds": 4}, jitter=2.0),
        Example(
            name="ask-an-agent",
            target="librarian",
            schedule_type="interval",
            schedule_config={"seconds": 6},
            kind=AGENT,
            prompt="What is new today?",
        ),
        Example(
            name="slow",
            target=work,
            schedule_type="interval",
            schedule_config={"seconds": 7},
            kwargs={"seconds": 1.5},
        ),
        Example(name="retries-once", target="demo.retries", schedule_type="interval", schedule_config={"seconds": 5}),
        Example(
            name="fails-at-times",
            target="demo.fails",
            schedule_type="interval",
            schedule_config={"seconds": 4, "offset": 1},
            on_purpose=True,
        ),
    )


def fails_by_design(due_at: datetime) -> bool:
    """Whether the fire of ``fails-at-times`` with this due time is one that fails: every other one.

    Never twice in a row, so that the schedule is not disabled for failing repeatedly.
    """
    return int(due_at.timestamp()) // 4 % 2 == 0


def _rrule(start: datetime) -> dict[str, Any]:
    midnight = start.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return {"rule": "FREQ=SECONDLY;INTERVAL=8", "dtstart": midnight.isoformat()}
