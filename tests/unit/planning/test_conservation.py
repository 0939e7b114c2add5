"""Over any stretch of time every due time is exactly one of fired and not fired, however it is planned."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from celery_parrot.coordination.memory import MemoryCoordinator
from celery_parrot.model.fire import Namespace
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.model.schedule import Missed, Policy, Schedule
from celery_parrot.planning import plan, sending_at
from celery_parrot.protocols import Registration
from celery_parrot.testing import FakeClock
from celery_parrot.triggers import Trigger, build

START = datetime(2026, 3, 1, tzinfo=UTC)

policies = st.builds(
    Policy,
    missed=st.sampled_from(list(Missed)),
    misfire_grace=st.one_of(st.none(), st.integers(0, 400).map(float)),
    catch_up_limit=st.integers(0, 8),
    jitter=st.sampled_from([0.0, 0.0, 0.4, 30.0]),
)
steps = st.sampled_from([0.1, 1, 7, 60, 61, 3600])
delays = st.integers(0, 600_000_000).map(lambda micros: timedelta(microseconds=micros))
on_times = st.sampled_from([0.0, 1.0, 10.0])


def _schedule(policy: Policy) -> Schedule:
    return Schedule(schedule_id="s", name="s", target="t", schedule_type="interval", schedule_config={}, policy=policy)


def _due(schedule: Schedule, trigger: Trigger, mark: datetime, now: datetime) -> list[datetime]:
    found: list[datetime] = []
    due_at = trigger.next_after(mark)
    while due_at is not None and sending_at(schedule, trigger, due_at) <= now:
        found.append(due_at)
        due_at = trigger.next_after(due_at)
    return found


def _fates(made: Plan, trigger: Trigger) -> list[datetime]:
    """Every due time a plan speaks of, ranges counted out."""
    told = [fire.due_at for fire in made.fires]
    for gone in made.not_fired:
        due_at: datetime | None = gone.first
        counted = 0
        while due_at is not None and due_at <= gone.last:
            told.append(due_at)
            counted += 1
            due_at = trigger.next_after(due_at)
        assert counted == gone.count
    return sorted(told)


@given(policies, steps, delays, on_times)
def test_a_plan_decides_each_due_time_once(policy: Policy, step: float, delay: timedelta, on_time: float) -> None:
    """Exactly those between mark and now, each in one place, and the mark becomes the last of them."""
    if step < 1:
        delay /= 20
    schedule, trigger, now = _schedule(policy), build("interval", {"seconds": step}), START + delay
    due = _due(schedule, trigger, START, now)
    made = plan(schedule, trigger, START, now, on_time=on_time)
    if made is None:
        assert due == []
        return
    assert not made.more
    assert _fates(made, trigger) == due
    assert made.new_mark == due[-1]
    assert list(made.fires) == sorted(made.fires, key=lambda fire: fire.due_at)


@given(policies, st.integers(1, 40), st.integers(16, 300), on_times)
def test_a_long_backlog_in_batches_comes_to_the_same(policy: Policy, batch: int, count: int, on_time: float) -> None:
    """Several plans, each exact, fire and miss what one plan would have, for the same reasons."""
    schedule, trigger = _schedule(policy), build("interval", {"seconds": 1})
    now = START + timedelta(seconds=count)
    whole = plan(schedule, trigger, START, now, on_time=on_time)
    parts: list[Plan] = []
    mark = START
    while (made := plan(schedule, trigger, mark, now, on_time=on_time, batch=batch)) is not None:
        assert made.new_mark > mark
        parts.append(made)
        mark = made.new_mark
        assert made.more or plan(schedule, trigger, mark, now, on_time=on_time, batch=batch) is None
    if whole is None:
        assert parts == []
        return
    assert [fire for made in parts for fire in made.fires] == list(whole.fires)
    assert _reasons(parts, trigger) == _reasons([whole], trigger)


def _reasons(plans: Sequence[Plan], trigger: Trigger) -> dict[datetime, str]:
    told: dict[datetime, str] = {}
    for made in plans:
        for gone in made.not_fired:
            due_at: datetime | None = gone.first
            while due_at is not None and due_at <= gone.last:
                assert due_at not in told
                told[due_at] = gone.reason
                due_at = trigger.next_after(due_at)
    return told


@given(policies, steps, delays, delays, on_times)
def test_two_beats_with_different_nows_agree_through_the_commit(
    policy: Policy, step: float, first: timedelta, second: timedelta, on_time: float
) -> None:
    """Both plan from the same mark, the commit takes one; the other plans anew, and nothing is decided twice."""
    if step < 1:
        first, second = first / 20, second / 20
    schedule, trigger = _schedule(policy), build("interval", {"seconds": step})
    coordinator = MemoryCoordinator(Namespace("n"), clock=FakeClock(START))
    coordinator.register([Registration(schedule_id="s", when="w", initial=START)])
    told: list[datetime] = []
    plans = {now: plan(schedule, trigger, START, now, on_time=on_time) for now in (START + first, START + second)}
    for now, made in plans.items():
        mark = START
        while made is not None:
            _, (reply,) = coordinator.commit([made], "beat")
            if reply.verdict is Verdict.COMMITTED:
                assert len(reply.fires) == len(made.fires)
                told += _fates(made, trigger)
            assert reply.mark is not None
            mark = reply.mark
            made = plan(schedule, trigger, mark, now, on_time=on_time)
    assert told == sorted(set(told))
    assert told == _due(schedule, trigger, START, max(plans))
