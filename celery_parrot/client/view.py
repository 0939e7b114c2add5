"""A schedule as every door shows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from celery_parrot.model.codec import to_fields
from celery_parrot.model.schedule import Policy, Schedule
from celery_parrot.model.state import RunState
from celery_parrot.planning import trigger_of
from celery_parrot.protocols import State, Stored
from celery_parrot.triggers import Trigger


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """One schedule, frozen: its fields, and what happened to it.

    :ivar version: grows with each change of the definition; give it to ``update`` to notice others' changes.
    :ivar state: ``active | paused | disabled | completed | broken``.
    :ivar next_run: when it is sent next, UTC; of a paused one, when it would be. None: nothing more will come.
    :ivar note: why it is paused or disabled, and by whom.
    :ivar broken_reason: of a broken one, why. Where it cannot even be read, its other fields have their defaults.
    """

    schedule_id: str
    name: str
    store: str
    kind: str = ""
    target: str = ""
    method_name: str | None = None
    prompt: str | None = None
    target_id: str | None = None
    tenant: str | None = None
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    schedule_type: str = ""
    schedule_config: Mapping[str, Any] = field(default_factory=dict)
    timezone: str = ""
    enabled: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    missed: str = "coalesce"
    misfire_grace: float | None = None
    catch_up_limit: int = 100
    overlap: str | None = None
    exclusion_group: str | None = None
    jitter: float = 0.0
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_fires: int | None = None
    recover: bool = False
    dst_gap: str | None = None
    dst_fold: str | None = None
    callbacks: Sequence[Mapping[str, Any]] = ()
    failure_callbacks: Sequence[Mapping[str, Any]] = ()
    missed_callbacks: Sequence[Mapping[str, Any]] = ()
    send_result: Mapping[str, Any] = field(default_factory=dict)
    version: int = 0
    state: State = State.ACTIVE
    next_run: datetime | None = None
    run_state: RunState = field(default_factory=RunState)
    note: str | None = None
    broken_reason: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None


class SchedulePage(tuple[ScheduleView, ...]):
    """Schedules by name, and where the next page begins.

    :ivar after: hand it to the next ``find``; empty if this was the last page.
    """

    after: str

    def __new__(cls, items: Iterable[ScheduleView] = (), after: str = "") -> SchedulePage:
        page = super().__new__(cls, items)
        page.after = after
        return page


def trigger_from(view: ScheduleView) -> Trigger:
    """When a stored schedule is due, from what is shown of it. Raises InvalidSchedule for one that is broken."""
    policy = Policy(start_at=view.start_at, end_at=view.end_at, dst_gap=view.dst_gap, dst_fold=view.dst_fold)
    return trigger_of(
        Schedule(
            schedule_id=view.schedule_id,
            name=view.name,
            target=view.target,
            schedule_type=view.schedule_type,
            schedule_config=view.schedule_config,
            timezone=view.timezone,
            policy=policy,
            created_at=view.created_at,
        )
    )


def view_of(stored: Stored, store: str) -> ScheduleView:
    """``stored``, which lives in ``store``, for people."""
    fields: dict[str, Any] = {}
    schedule = stored.schedule
    if schedule is not None:
        fields = to_fields(schedule) | {
            "args": schedule.args,
            "callbacks": schedule.callbacks,
            "failure_callbacks": schedule.failure_callbacks,
            "missed_callbacks": schedule.missed_callbacks,
            "missed": str(schedule.policy.missed),
            "start_at": schedule.policy.start_at,
            "end_at": schedule.policy.end_at,
            "version": schedule.version,
            "created_at": schedule.created_at,
        }
    return ScheduleView(
        **fields
        | {
            "schedule_id": stored.schedule_id,
            "name": stored.name,
            "store": store,
            "state": stored.state,
            "next_run": stored.run_state.next_run,
            "run_state": stored.run_state,
            "note": stored.note,
            "broken_reason": stored.broken_reason,
            "updated_at": stored.updated_at,
        }
    )
