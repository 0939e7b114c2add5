"""Which due times of a backlog fire, and which are missed and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from celery_parrot.model.fire import Origin, Status
from celery_parrot.model.plan import Plan
from celery_parrot.model.schedule import Missed, Policy, Schedule
from celery_parrot.planning import plan, sending_at
from celery_parrot.triggers import Trigger, build

START = datetime(2026, 3, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def schedule(**policy: Any) -> Schedule:
    config = {"seconds": 10}
    return Schedule(
        schedule_id="s", name="s", target="t", schedule_type="interval", schedule_config=config, policy=Policy(**policy)
    )


def every(seconds: float) -> Trigger:
    return build("interval", {"seconds": seconds})


def planned(
    now: float, *, mark: float = 0, step: float = 10, on_time: float = 10, batch: int = 10_000, **policy: Any
) -> Plan | None:
    return plan(schedule(**policy), every(step), at(mark), at(now), on_time=on_time, batch=batch)


def fired(made: Plan | None) -> list[float]:
    assert made is not None
    return [(fire.due_at - START).total_seconds() for fire in made.fires]


def missed(made: Plan | None) -> list[tuple[str, float, float, int]]:
    assert made is not None
    assert all(gone.status is Status.MISSED for gone in made.not_fired)
    return [
        (gone.reason, (gone.first - START).total_seconds(), (gone.last - START).total_seconds(), gone.count)
        for gone in made.not_fired
    ]


def test_nothing_is_due_before_the_next_due_time() -> None:
    """The mark itself is decided; the next due time is due at its instant, not a microsecond before."""
    assert planned(9.999999) is None
    assert fired(planned(10)) == [10]


def test_a_punctual_due_time_fires() -> None:
    """With the mark planned from and the mark to come, so that the commit can compare."""
    made = planned(10.2)
    assert made is not None
    assert (made.expected_mark, made.new_mark, made.not_fired, made.more) == (at(0), at(10), (), False)
    assert made.fires[0].origin is Origin.SCHEDULE


@pytest.mark.parametrize("policy", list(Missed))
def test_up_to_on_time_late_each_fires_in_order_whatever_the_policy(policy: Missed) -> None:
    """Inclusive: the oldest is exactly ``parrot_on_time`` late."""
    assert fired(planned(12, step=2, missed=policy)) == [2, 4, 6, 8, 10, 12]


def test_beyond_on_time_the_policy_applies_to_the_whole_backlog() -> None:
    """A microsecond more, and even the due time of this very moment is part of the backlog."""
    made = planned(12.000001, step=2)
    assert fired(made) == [12]
    assert missed(made) == [("coalesced", 2, 10, 5)]


def test_coalesce_fires_the_latest_only() -> None:
    """The others are one range, and those beyond the grace another."""
    made = planned(1000, step=100, misfire_grace=300)
    assert fired(made) == [1000]
    assert missed(made) == [("too_late", 100, 600, 6), ("coalesced", 700, 900, 3)]


def test_coalesce_fires_none_if_even_the_latest_is_too_late() -> None:
    """An hourly schedule after 50 minutes: nothing to catch up, one missed."""
    made = planned(3600 + 3000, step=3600)
    assert fired(made) == []
    assert missed(made) == [("too_late", 3600, 3600, 1)]


def test_catch_up_fires_each_in_order() -> None:
    """As origin ``catch_up``, except those that are still punctual."""
    made = planned(45, missed=Missed.CATCH_UP)
    assert made is not None
    assert fired(made) == [10, 20, 30, 40]
    assert [fire.origin for fire in made.fires] == [Origin.CATCH_UP] * 3 + [Origin.SCHEDULE]


def test_catch_up_keeps_the_newest_up_to_its_limit() -> None:
    """Older ones are capped; those beyond the grace are too late, whether capped or not."""
    made = planned(100, missed=Missed.CATCH_UP, catch_up_limit=3, misfire_grace=65)
    assert fired(made) == [80, 90, 100]
    assert missed(made) == [("too_late", 10, 30, 3), ("capped", 40, 70, 4)]


def test_skip_fires_none_of_a_backlog() -> None:
    """All are too late, the one of this moment as well; the next one is ordinary again."""
    made = planned(30, missed=Missed.SKIP)
    assert fired(made) == []
    assert missed(made) == [("too_late", 10, 30, 3)]
    assert fired(planned(40, mark=30, missed=Missed.SKIP)) == [40]


@pytest.mark.parametrize(("late", "fires"), [(30, True), (30.000001, False)])
def test_the_grace_is_inclusive(late: float, fires: bool) -> None:
    """Exactly ``misfire_grace`` late still fires."""
    assert bool(fired(planned(3600 + late, step=3600, misfire_grace=30))) is fires


def test_without_a_grace_nothing_is_ever_too_late() -> None:
    """Weeks later the latest is caught up."""
    made = planned(86_400 * 21, step=86_400, misfire_grace=None)
    assert fired(made) == [86_400 * 21]
    assert [reason for reason, *_ in missed(made)] == ["coalesced"]


def test_origin_is_catch_up_from_on_time_late() -> None:
    """Inclusive, as the design says it; identity does not depend on it."""
    punctual, made = planned(19.999999), planned(20)
    assert punctual is not None
    assert made is not None
    assert [fire.origin for fire in punctual.fires] == [Origin.SCHEDULE]
    assert [fire.origin for fire in made.fires] == [Origin.CATCH_UP, Origin.SCHEDULE]


# --- jitter -----------------------------------------------------------------------------------------------------------


def test_a_jittered_due_time_is_due_at_its_sending_instant() -> None:
    """Lateness and grace count from there; the identity stays with the due time."""
    jittered = schedule(jitter=8.0, misfire_grace=30)
    trigger = every(3600)
    instant = sending_at(jittered, trigger, at(3600))
    assert at(3600) <= instant < at(3608)
    assert instant != at(3600)

    def made(now: datetime) -> Plan | None:
        return plan(jittered, trigger, at(0), now, on_time=10)

    assert made(instant - timedelta(microseconds=1)) is None
    assert fired(made(instant)) == [3600]
    assert fired(made(instant + timedelta(seconds=30))) == [3600]
    assert missed(made(instant + timedelta(seconds=30, microseconds=1))) == [("too_late", 3600, 3600, 1)]


def test_a_later_due_time_never_overtakes_by_jitter() -> None:
    """One whose sending instant has not come holds back those after it: what is planned is a prefix."""
    jittered, trigger = schedule(jitter=9.0), every(10)
    for now in range(200):
        made = plan(jittered, trigger, at(0), at(now), on_time=1000)
        assert made is None or fired(made) == [10.0 * (n + 1) for n in range(len(made.fires))]


# --- what a plan carries ----------------------------------------------------------------------------------------------


def test_a_plan_carries_what_the_commit_compares_and_reserves() -> None:
    """Version, kind, bound on fires, the store and the next sending instant."""
    bounded = Schedule(
        schedule_id="x",
        name="nightly",
        target="t",
        schedule_type="interval",
        schedule_config={},
        kind="agent",
        store="redis",
        version=7,
        policy=Policy(max_fires=3),
    )
    made = plan(bounded, every(10), at(0), at(10), on_time=10)
    assert made is not None
    assert (made.schedule_id, made.name, made.kind, made.store) == ("x", "nightly", "agent", "redis")
    assert (made.expected_version, made.max_fires, made.next_at) == (7, 3, at(20))


def test_an_ended_schedule_plans_its_last_due_time_and_then_nothing() -> None:
    """No next instant any more."""

    @dataclass(frozen=True)
    class Once:
        deterministic: bool = True

        def next_after(self, t: datetime) -> datetime | None:
            return at(10) if t < at(10) else None

        def latest_at(self, t: datetime) -> datetime | None:
            return at(10) if t >= at(10) else None

        def to_config(self) -> tuple[str, dict[str, Any]]:
            return "once", {}

        def describe(self) -> str:
            return "once"

    made = plan(schedule(), Once(), at(0), at(11), on_time=10)
    assert made is not None
    assert (fired(made), made.next_at) == ([10], None)
    assert plan(schedule(), Once(), at(10), at(11), on_time=10) is None
