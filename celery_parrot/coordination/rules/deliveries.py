"""The queue of parcels: whose one is to send, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from celery_parrot.coordination.rules import parcels, records
from celery_parrot.coordination.rules.space import Queued, Space
from celery_parrot.protocols import About, DeliveryReport, Parcel


def queue(space: Space, parcel: Parcel) -> None:
    space.add_parcel(Queued(replace(parcel, queued_at=space.now)))


def page(space: Space, owner: str, limit: int, after: str) -> Sequence[Parcel]:
    """Those that ``owner`` may take, behind that one. None while quiet."""
    last = space.queued_parcels([after]).get(after) if after else None
    found: list[Parcel] = []
    while len(found) < limit and not space.quiet:
        queued = space.parcel_page(last.parcel if last is not None else None, limit)
        for one in queued:
            if len(found) < limit and _takeable(space, one, owner):
                found.append(one.parcel)
        if len(queued) < limit:
            break
        last = queued[-1]
    return found


def take(space: Space, owner: str, ids: Sequence[str]) -> Sequence[bool]:
    space.see(owner)
    there = space.queued_parcels(ids)
    taken: list[bool] = []
    for id_ in ids:
        queued = there.get(id_)
        mine = queued is not None and not space.quiet and _takeable(space, queued, owner)
        if mine and queued is not None:
            queued.owner, queued.taken_at = owner, space.now
            space.keep_parcel(queued)
        taken.append(mine)
    return taken


def _takeable(space: Space, queued: Queued, who: str) -> bool:
    if not queued.owner or queued.owner == who or queued.taken_at is None:
        return True
    if not space.judging or space.now < space.beats_from:
        return False
    age = space.now - queued.taken_at
    return not space.alive(queued.owner) or age >= space.seconds(space.timing.takeover_after)


def report(space: Space, told: DeliveryReport) -> None:
    entry = space.entry(told.key)
    about = str(told.about)
    if entry is not None and _tries(entry.delivery.get(about)) > told.tries:
        return  # overtaken on its way
    said = parcels.note(space, told.status, told.tries, told.callbacks)
    if entry is not None:
        records.keep_note(space, replace(entry, delivery={**entry.delivery, about: said}))
    state = space.state(told.key.schedule_id)
    if state is None or told.about is About.ALERT or _before(told.key.due_at, state.told_due):
        return
    state.told_due = told.key.due_at
    state.run = replace(
        state.run,
        last_delivery_status=said["status"],
        last_delivery_at=space.now,
        last_callbacks=tuple(said["callbacks"]),
    )


def _tries(note: object) -> int:
    return int(note.get("tries") or 0) if isinstance(note, dict) else 0


def _before(due_at: datetime, told: datetime | None) -> bool:
    return told is not None and due_at < told
