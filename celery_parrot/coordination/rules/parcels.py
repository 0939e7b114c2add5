"""What puts a parcel into the queue: outcomes, missed ranges, and failures that disable a schedule.

Each is part of the step that records it. An id is good once, so a step that is repeated queues nothing twice.
"""

from __future__ import annotations

from typing import Any, Final

from celery_parrot.coordination.rules.space import Claim, Queued, ScheduleState, Space
from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import NotFired, Plan
from celery_parrot.protocols import About, CallbackReport, DeliveryStatus, Parcel

MOST: Final = 10_000
"""So many parcels wait at once; there may be no beat that sends any. One more is given up, but for an alert."""

_FULL: Final = f"{MOST} others wait to be sent already"


def about_of(status: Status) -> About | None:
    """What the outcome is to those who want to be told; None: nobody is."""
    if status is Status.SUCCESS:
        return About.SUCCESS
    if status is Status.MISSED:
        return About.MISSED
    return About.FAILURE if status.failure else None


def of_outcome(space: Space, claim: Claim, output: str | None, error: str | None) -> dict[str, Any]:
    """Tell of a fire that has just ended, if somebody wants it told.

    :returns: what to note in its history entry."""
    about = about_of(claim.fire.status)
    if about is None or about not in claim.fire.tells:
        return {}
    parcel = _of_fire(space, claim.fire, about, output, error, space.state(claim.fire.key.schedule_id))
    if space.count_parcels() >= MOST:
        report = CallbackReport(callback="queue", status=DeliveryStatus.FAILED, error=_FULL, at=space.now)
        return {str(about): note(space, DeliveryStatus.FAILED, 0, (report,))}
    space.add_parcel(Queued(parcel))
    return {}


def of_disabling(space: Space, claim: Claim, error: str | None, state: ScheduleState) -> None:
    """Alert of the failure that disabled its schedule."""
    space.add_parcel(Queued(_of_fire(space, claim.fire, About.ALERT, None, error, state)))


def of_range(space: Space, plan: Plan, run: NotFired) -> None:
    """Tell of due times that were missed, once for all of them."""
    if run.status is not Status.MISSED or About.MISSED not in plan.tells or space.count_parcels() >= MOST:
        return
    key = FireKey(plan.schedule_id, run.first)
    fire_id = space.namespace.fire_id(key)
    parcel = Parcel(
        id=f"{fire_id}:{About.MISSED}",
        fire_id=fire_id,
        key=key,
        name=plan.name,
        about=About.MISSED,
        queued_at=space.now,
        kind=plan.kind,
        status=run.status,
        reason=run.reason,
        finished_at=space.now,
        until=run.last if run.count > 1 else None,
        count=run.count,
    )
    space.add_parcel(Queued(parcel))


def note(
    space: Space, status: DeliveryStatus, tries: int, callbacks: tuple[CallbackReport, ...]
) -> dict[str, Any]:  # fmt: skip
    """What a history entry keeps of it."""
    return {
        "status": str(status),
        "at": space.now.isoformat(),
        "tries": tries,
        "callbacks": [one.to_json() for one in callbacks],
    }


def _of_fire(
    space: Space, fire: Fire, about: About, output: str | None, error: str | None, state: ScheduleState | None
) -> Parcel:
    fire_id = space.namespace.fire_id(fire.key)
    failing = state is not None and about in (About.FAILURE, About.ALERT)
    return Parcel(
        id=f"{fire_id}:{about}",
        fire_id=fire_id,
        key=fire.key,
        name=fire.name,
        about=about,
        queued_at=space.now,
        kind=fire.kind,
        origin=fire.origin,
        status=fire.status,
        reason=fire.reason,
        attempt=fire.attempt,
        output=output,
        error=error,
        sent_at=fire.sent_at,
        started_at=fire.started_at,
        finished_at=fire.finished_at,
        failures=state.run.consecutive_failures if failing and state is not None else 0,
        failing_since=state.run.failing_since if failing and state is not None else None,
    )
