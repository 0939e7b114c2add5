"""A space in this process's memory: dicts, and a heap for each moment."""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from celery_parrot.coordination.rules.claim import moment_of, moments_of
from celery_parrot.coordination.rules.space import Claim, Moment, Queued, ScheduleState, Space
from celery_parrot.model.fire import FireKey, FireRecord, Namespace, Status
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Busy, Carried, Limit, Parcel, Timing

_Place = tuple[datetime, int, FireKey]


class MemorySpace(Space):
    """Used under the server's lock only."""

    def __init__(self, namespace: Namespace, timing: Timing) -> None:
        super().__init__(namespace, timing)
        self.claims: dict[FireKey, Claim] = {}
        self.outbox: set[FireKey] = set()
        self.in_line: dict[tuple[Limit, ...], list[_Place]] = {}
        self.holds: dict[str, dict[FireKey, datetime]] = {}
        self.states: dict[str, ScheduleState] = {}
        self.entries: dict[str, dict[str, FireRecord]] = {}
        self.to_carry: dict[FireKey, Carried] = {}
        self.parcels: dict[str, Queued] = {}
        self.sent_ids: dict[str, datetime] = {}
        self.last_seen: dict[str, datetime] = {}
        self.told: dict[str, Beat] = {}
        # A heap has at least one item for each claim that has the moment, at or before it.
        self._heaps: dict[Moment, list[tuple[datetime, FireKey]]] = {moment: [] for moment in Moment}
        self._noted: dict[tuple[Moment, FireKey], datetime] = {}

    # --- claims ---

    def find(self, key: FireKey) -> Claim | None:
        return self.claims.get(key)

    def put(self, claim: Claim) -> None:
        before = self.claims.get(claim.fire.key)
        if before is not None:
            self.unqueue(before)
        self.claims[claim.fire.key] = claim

    def changed(self, claim: Claim) -> None:
        key = claim.fire.key
        (self.outbox.add if claim.fire.status is Status.PENDING else self.outbox.discard)(key)
        for moment, at in moments_of(claim, self.timing).items():
            self._note(moment, key, at)

    def forget(self, key: FireKey) -> None:
        self.claims.pop(key, None)
        self.outbox.discard(key)

    def _note(self, moment: Moment, key: FireKey, at: datetime) -> None:
        noted = self._noted.get((moment, key))
        if noted is None or at < noted:
            self._noted[moment, key] = at
            heapq.heappush(self._heaps[moment], (at, key))

    def soonest(self, moment: Moment, limit: int, *, holding: bool = False) -> Sequence[Claim]:
        heap = self._heaps[moment]
        found: dict[FireKey, tuple[datetime, Claim]] = {}
        passed: list[tuple[datetime, FireKey]] = []
        while heap and heap[0][0] <= self.now and len(found) < limit:
            at, key = heapq.heappop(heap)
            if self._noted.get((moment, key)) != at:
                continue  # an earlier item of it was looked at
            del self._noted[moment, key]
            claim = self.claims.get(key)
            current = moment_of(claim, moment, self.timing) if claim is not None else None
            if claim is None or current is None:
                continue
            if holding and not claim.limits:
                passed.append((current, key))
            elif current <= self.now:
                found[key] = (current, claim)
            else:
                self._note(moment, key, current)
        for at, key in [*passed, *((at, key) for key, (at, _) in found.items())]:
            self._note(moment, key, at)
        return [claim for _, claim in sorted(found.values(), key=lambda item: (item[0], item[1].fire.key))]

    # --- the outbox ---

    def outbox_page(self, offset: int, limit: int) -> Sequence[Claim]:
        pending = (self.claims[key] for key in self.outbox)
        ordered = sorted(pending, key=lambda claim: (claim.fire.committed_at, claim.fire.key.text))
        return ordered[offset : offset + limit]

    def owned_by(self, owner: str) -> Sequence[Claim]:
        return [claim for claim in map(self.claims.__getitem__, self.outbox) if claim.fire.owner == owner]

    def mirrored(self) -> Sequence[Claim]:
        keys = sorted({*self.outbox, *(claim.fire.key for claim in self.line())})
        return [claim for claim in map(self.claims.__getitem__, keys) if claim.mirrored == self.epoch]

    # --- limits ---

    def joined(self, claim: Claim) -> None:
        insort(self.in_line.setdefault(claim.limits, []), _place(claim))

    def unqueue(self, claim: Claim) -> bool:
        if not claim.arrival:
            return False
        places = self.in_line[claim.limits]
        del places[bisect_left(places, _place(claim))]
        if not places:
            del self.in_line[claim.limits]
        claim.arrival = 0
        return True

    def line(self, names: Collection[str] | None = None) -> Sequence[Claim]:
        asked = [
            places
            for limits, places in self.in_line.items()
            if names is None or any(limit.name in names for limit in limits)
        ]
        return [self.claims[key] for _, _, key in heapq.merge(*asked)]

    def line_page(self, offset: int, limit: int) -> Sequence[Claim]:
        places = islice(heapq.merge(*self.in_line.values()), offset, offset + limit)
        return [self.claims[key] for _, _, key in places]

    def wanted(self) -> Collection[tuple[Limit, ...]]:
        return list(self.in_line)

    def first(self, limits: tuple[Limit, ...]) -> Claim | None:
        places = self.in_line.get(limits)
        return self.claims[places[0][2]] if places else None

    def waiting(self, name: str) -> int:
        return sum(
            len(places)
            for limits, places in self.in_line.items()
            if any(limit.name == name and limit.busy is Busy.WAIT for limit in limits)
        )

    def holders(self, name: str) -> Mapping[FireKey, datetime]:
        return self.holds.get(name, {})

    def hold(self, name: str, key: FireKey) -> None:
        self.holds.setdefault(name, {}).setdefault(key, self.now)

    def let_go(self, name: str, key: FireKey) -> None:
        holders = self.holds.get(name, {})
        holders.pop(key, None)
        if not holders:
            self.holds.pop(name, None)

    def held_limits(self) -> Sequence[str]:
        return sorted(self.holds)

    # --- schedules ---

    def state(self, schedule_id: str) -> ScheduleState | None:
        return self.states.get(schedule_id)

    def put_state(self, schedule_id: str, state: ScheduleState) -> None:
        self.states[schedule_id] = state

    # --- history ---

    def entry(self, key: FireKey) -> FireRecord | None:
        return self.entries.get(key.schedule_id, {}).get(key.moment)

    def asked(self, schedule_id: str, nonce: str) -> FireKey | None:
        return next((one.key for one in self.entries.get(schedule_id, {}).values() if one.key.nonce == nonce), None)

    def put_entry(self, record: FireRecord, keep: int) -> None:
        entries = self.entries.setdefault(record.key.schedule_id, {})
        entries[record.key.moment] = record
        if len(entries) > keep + max(keep // 10, 1):  # a batch at a time, so that most calls cost nothing
            for moment in sorted(entries, key=lambda m: entries[m].key)[: len(entries) - keep]:
                del entries[moment]

    def strike(self, key: FireKey) -> None:
        self.entries.get(key.schedule_id, {}).pop(key.moment, None)

    def history(self, schedule_id: str, since: datetime, before: datetime | None, limit: int) -> Sequence[FireRecord]:
        entries = self.entries.get(schedule_id, {}).values()
        wanted = [r for r in entries if (before is None or r.due_at < before) and (r.until or r.due_at) >= since]
        return sorted(wanted, key=lambda r: r.key, reverse=True)[: max(limit, 0)]

    # --- what rows in a database do not know yet ---

    def carry(self, item: Carried) -> None:
        self.to_carry[item.record.key] = item

    def carrying(self, key: FireKey) -> Carried | None:
        return self.to_carry.get(key)

    def carried(self, key: FireKey, serial: int) -> None:
        waiting = self.to_carry.get(key)
        if waiting is not None and waiting.serial == serial:
            del self.to_carry[key]

    def uncarried(self, limit: int) -> Sequence[Carried]:
        return list(self.to_carry.values())[: max(limit, 0)]

    def count_uncarried(self) -> int:
        return len(self.to_carry)

    # --- parcels ---

    def add_parcel(self, queued: Queued) -> None:
        id_ = queued.parcel.id
        if id_ not in self.parcels and id_ not in self.sent_ids:
            self.parcels[id_] = queued

    def keep_parcel(self, queued: Queued) -> None:
        self.parcels[queued.parcel.id] = queued

    def queued_parcels(self, ids: Collection[str]) -> Mapping[str, Queued]:
        return {id_: self.parcels[id_] for id_ in ids if id_ in self.parcels}

    def parcel_page(self, after: Parcel | None, limit: int) -> Sequence[Queued]:
        ordered = sorted(self.parcels.values(), key=lambda queued: _rank(queued.parcel))
        return [one for one in ordered if after is None or _rank(one.parcel) > _rank(after)][: max(limit, 0)]

    def count_parcels(self) -> int:
        return len(self.parcels)

    def sent_parcels(self, ids: Collection[str]) -> None:
        for id_ in ids:
            if self.parcels.pop(id_, None) is not None:
                self.sent_ids[id_] = self.now

    def forget_parcels(self, before: datetime) -> None:
        self.sent_ids = {id_: at for id_, at in self.sent_ids.items() if at >= before}

    # --- beats ---

    def seen(self, owner: str) -> datetime | None:
        return self.last_seen.get(owner)

    def see(self, owner: str, beat: Beat | None = None) -> None:
        self.last_seen[owner] = self.now
        if beat is not None:
            self.told[owner] = beat

    def forget_beat(self, owner: str) -> None:
        self.last_seen.pop(owner, None)
        self.told.pop(owner, None)

    def forget_beats(self, before: datetime) -> None:
        for owner in [owner for owner, seen in self.last_seen.items() if seen < before]:
            self.forget_beat(owner)

    def beats(self) -> Sequence[Beat]:
        return [replace(beat, seen=self.last_seen[owner]) for owner, beat in sorted(self.told.items())]


def _place(claim: Claim) -> _Place:
    """In the line; arrivals differ, so keys are never compared."""
    return claim.fire.key.due_at, claim.arrival, claim.fire.key


def _rank(parcel: Parcel) -> tuple[datetime, str]:
    return parcel.queued_at, parcel.id
