"""Which fire an id belongs to. Ids are hashes: they are found by looking at those who may have it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from celery_parrot.client.catalogue import Catalogue
from celery_parrot.client.coordination import Coordination
from celery_parrot.client.why_facts import MICROSECOND, Holder
from celery_parrot.errors import MemoryLost, Unreachable
from celery_parrot.model.fire import Fire, FireRecord
from celery_parrot.model.schedule import Kind
from celery_parrot.protocols import IN_FLIGHT, SLOTS, LimitState, Stored

T = TypeVar("T")

_CANDIDATES: Final = 20
"""Schedules whose histories are looked at for one fire."""

_SEARCHED: Final = 200
"""Schedules of a store that are looked at for members of a group."""

_KIND, _GROUP = "kind:", "group:"


def ask(agreed: Coordination, call: Callable[[], T]) -> T:
    """Once more if the coordinator forgot: what it knew is the beats' to put back."""
    try:
        return call()
    except MemoryLost:
        agreed.coordinator.attach()
        return call()


def held_by(record: FireRecord) -> tuple[str, str]:
    """``(fire id, limit)`` of what a fire waited for, or was skipped because of; empty where nobody was noted."""
    if record.reason == IN_FLIGHT:
        try:
            output = json.loads(record.output or "{}")
        except ValueError:
            return "", ""
        return (str(output.get("held_by") or "") if isinstance(output, dict) else ""), _KIND + record.kind
    return record.held_by, record.waited_for


@dataclass(frozen=True, slots=True)
class Holders:
    """:ivar limits: who holds and waits now, if that was asked."""

    catalogue: Catalogue
    agreed: Coordination
    kinds: Mapping[str, Kind]
    limits: Sequence[LimitState]

    def find(self, fire_id: str, limit: str, record: FireRecord) -> Holder | None:
        """The fire of this id, as far as it can be found; None where none was noted."""
        if not fire_id:
            return None
        for fire in self._in_flight():
            if self.agreed.namespace.fire_id(fire.key) == fire_id:
                return _holder_of(fire_id, fire)
        since = record.waited_from or record.finished_at or record.committed_at
        try:
            return self._in_histories(fire_id, limit, record, since) or Holder(fire_id=fire_id)
        except Unreachable:  # of some store: the story is worth telling without it
            return Holder(fire_id=fire_id)

    def _in_flight(self) -> Iterator[Fire]:
        for state in self.limits:
            yield from (holder.fire for holder in state.holders)
            yield from (waiting.fire for waiting in state.waiting)

    def _in_histories(self, fire_id: str, limit: str, record: FireRecord, since: datetime | None) -> Holder | None:
        before = None if since is None else since + MICROSECOND
        for store, stored in self._candidates(limit, record.key.schedule_id):
            for one in self.catalogue.all[store].fires(stored.schedule_id, limit=_CANDIDATES, before=before):
                if one.fire_id == fire_id:
                    return holder_in(one)
        return None

    def _candidates(self, limit: str, schedule_id: str) -> Iterable[tuple[str, Stored]]:
        """Schedules that may have held it, its own among them: a schedule waits for itself most of all."""
        found: dict[str, tuple[str, Stored]] = {}
        for store, stored in self._members(limit, schedule_id):
            found.setdefault(stored.schedule_id, (store, stored))
            if len(found) >= _CANDIDATES:
                break
        return found.values()

    def _members(self, limit: str, schedule_id: str) -> Iterator[tuple[str, Stored]]:
        for name, store in self.catalogue.all.items():
            (own,) = store.get([schedule_id])
            if own is not None:
                yield name, own
        if limit.startswith(_KIND):
            kinds: Sequence[str | None] = [limit.removeprefix(_KIND)]
        elif limit.startswith(_GROUP):
            group = limit.removeprefix(_GROUP)
            kinds = [kind.name for kind in self.kinds.values() if kind.exclusion_group == group]
            for name, store in self.catalogue.all.items():
                for stored in store.find(limit=_SEARCHED).items:
                    if stored.schedule is not None and stored.schedule.policy.exclusion_group == group:
                        yield name, stored
        else:
            kinds = [None] if limit == SLOTS else []
        for kind in kinds:
            for name, store in self.catalogue.all.items():
                for stored in store.find(kind=kind, limit=_CANDIDATES).items:
                    yield name, stored


def _holder_of(fire_id: str, fire: Fire) -> Holder:
    return Holder(
        fire_id=fire_id,
        name=fire.name,
        due_at=fire.key.due_at,
        status=fire.status,
        worker=fire.worker,
        started_at=fire.started_at,
    )


def holder_in(record: FireRecord) -> Holder:
    """As the history has it."""
    return Holder(
        fire_id=record.fire_id,
        name=record.name,
        due_at=record.due_at,
        status=record.status,
        worker=record.worker,
        started_at=record.started_at,
        finished_at=record.finished_at,
    )
