"""Which undecided due times of a schedule to fire, and which are missed.

A pure function of definition, mark and now, so that two beats recovering together differ only in their now, and
the commit (which compares the mark) decides between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_parrot.model.fire import Origin, Status
from celery_parrot.model.plan import NotFired, Plan, PlannedFire
from celery_parrot.model.schedule import Missed, Schedule
from celery_parrot.planning.timing import next_sending, sending_at
from celery_parrot.triggers.base import Trigger

BATCH = 10_000
"""Due times looked at in one plan. A longer backlog is decided in several plans, each exact."""

TOO_LATE = "too_late"
COALESCED = "coalesced"
CAPPED = "capped"
SUPERSEDED = "superseded"
PAUSED = "paused"


@dataclass(frozen=True, slots=True)
class _Undecided:
    due_at: datetime
    late: timedelta


_NONE: Sequence[tuple[_Undecided, str]] = ()


def plan(
    schedule: Schedule,
    trigger: Trigger,
    mark: datetime,
    now: datetime,
    *,
    on_time: float,
    batch: int = BATCH,
) -> Plan | None:
    """Decide every due time after ``mark`` whose sending instant is at or before ``now``; None if there is none.

    If the oldest is at most ``on_time`` seconds late, each fires, in order. Beyond, the schedule's policy applies
    to the whole backlog. Boundaries are inclusive: exactly ``misfire_grace`` late still fires.
    """
    batch = max(batch, 2 * schedule.policy.catch_up_limit)
    undecided, more = _undecided(schedule, trigger, mark, now, on_time, batch)
    if not undecided:
        return None
    if undecided[0].late <= timedelta(seconds=on_time):
        chosen, dropped = undecided, _NONE
    else:
        chosen, dropped = _by_policy(schedule, undecided, more)
    new_mark = max([item.due_at for item, _ in dropped] + [item.due_at for item in chosen])
    return Plan(
        schedule_id=schedule.schedule_id,
        name=schedule.name,
        kind=schedule.kind,
        expected_mark=mark,
        new_mark=new_mark,
        expected_version=schedule.version,
        fires=tuple(PlannedFire(item.due_at, _origin(item, on_time)) for item in chosen),
        not_fired=_ranges(dropped),
        max_fires=schedule.policy.max_fires,
        next_at=next_sending(schedule, trigger, new_mark),
        store=schedule.store,
        recover=schedule.policy.recover,
        more=more,
        tells=tuple(sorted(schedule.tells)),
    )


def _undecided(
    schedule: Schedule, trigger: Trigger, mark: datetime, now: datetime, on_time: float, batch: int
) -> tuple[list[_Undecided], bool]:
    """Cut only before one that is late, so that the next plan, too, sees a backlog and not an ordinary tick."""
    found: list[_Undecided] = []
    due_at = trigger.next_after(mark)
    while due_at is not None:
        late = now - sending_at(schedule, trigger, due_at)
        if late < timedelta(0):
            break
        if len(found) >= batch and late > timedelta(seconds=on_time):
            return found, True
        found.append(_Undecided(due_at, late))
        due_at = trigger.next_after(due_at)
    return found, False


def _origin(item: _Undecided, on_time: float) -> Origin:
    return Origin.CATCH_UP if item.late >= timedelta(seconds=on_time) else Origin.SCHEDULE


def _by_policy(
    schedule: Schedule, undecided: Sequence[_Undecided], more: bool
) -> tuple[list[_Undecided], Sequence[tuple[_Undecided, str]]]:
    """``(to fire, [(not to fire, why)])``, both ascending. With ``more`` to come, only what is certain is decided."""
    policy = schedule.policy
    if policy.missed is Missed.SKIP:
        return [], [(item, TOO_LATE) for item in undecided]
    keep, reason = (1, COALESCED) if policy.missed is Missed.COALESCE else (policy.catch_up_limit, CAPPED)
    if more:
        # What is decided here has at least `keep` later ones, whatever comes.
        undecided, keep = undecided[: len(undecided) + 1 - keep], 0
    first_kept = len(undecided) - keep
    chosen: list[_Undecided] = []
    dropped: list[tuple[_Undecided, str]] = []
    for index, item in enumerate(undecided):
        if policy.misfire_grace is not None and item.late > timedelta(seconds=policy.misfire_grace):
            dropped.append((item, TOO_LATE))
        elif index < first_kept:
            dropped.append((item, reason))
        else:
            chosen.append(item)
    return chosen, dropped


def _ranges(dropped: Sequence[tuple[_Undecided, str]]) -> tuple[NotFired, ...]:
    """Runs of one reason, each as one entry."""
    ranges: list[NotFired] = []
    for item, reason in dropped:
        if ranges and ranges[-1].reason == reason:
            last = ranges[-1]
            ranges[-1] = NotFired(last.status, reason, last.first, item.due_at, last.count + 1)
        else:
            ranges.append(NotFired(Status.MISSED, reason, item.due_at, item.due_at, 1))
    return tuple(ranges)
