"""What the rules see of the data of one registered name, and the few steps that every operation shares.

:class:`Space` says what the rules need; where it is kept is for a coordinator to say. An operation sees one
consistent state, nobody else changes anything meanwhile, and what it changed is there for the next one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from celery_parrot.coordination.rules.claim import BEGINNING, Claim, Moment, Queued, ScheduleState, moment_of
from celery_parrot.coordination.rules.common import Common
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Status
from celery_parrot.model.state import Beat
from celery_parrot.protocols import Busy, Carried, Limit, Parcel, Timing

__all__ = [
    "BEGINNING",
    "FORGET_BEATS",
    "GUARD",
    "GUARD_OF_STRAYS",
    "Claim",
    "Moment",
    "Queued",
    "ScheduleState",
    "Space",
]

#: Silence after which a beat is dropped from the list.
FORGET_BEATS = timedelta(hours=1)

#: What the names of guards begin with; no limit is called so.
GUARD = "running:"

#: Seconds for which a run-now keeps the guard that is known by its message alone.
GUARD_OF_STRAYS = 3600.0

#: At exactly that moment it is not over yet.
_STILL_IN_TIME = frozenset({Moment.DEADLINE, Moment.UNKNOWN, Moment.WAIT})

#: Claims are looked through for expired ones this often.
_PURGE_EVERY = timedelta(minutes=1)

#: So many of them at a time.
_PURGE_BATCH = 10_000


class Space(Common, ABC):
    """Everything that one ``parrot_name`` keeps, for the length of one operation.

    A :class:`Claim` or :class:`ScheduleState` that was got from here, or given to it, may be changed in place until
    the operation ends; a :class:`Claim` whose ``fire`` changes goes through :meth:`change`. Two askers of one
    operation get the same object.

    :ivar arrivals: how many fires have joined the line so far.
    :ivar capacities: how many may hold a limit, as the latest request said; only where that is not one.
    :ivar purged: when expired claims were last looked for.
    :ivar named: this operation put fires into the outbox that any beat may take at once: the beats are to be woken.
    """

    def __init__(self, namespace: Namespace, timing: Timing) -> None:
        super().__init__(namespace, timing)
        self.arrivals = 0
        self.capacities: dict[str, int] = {}
        self.purged = BEGINNING
        self.named = False

    # --- claims ---

    def claim(self, key: FireKey) -> Claim | None:
        """The claim of a fire, unless it has expired."""
        claim = self.find(key)
        if claim is not None and self.lapsed(claim, Moment.EXPIRES):
            self.forget(key)
            return None
        return claim

    def held(self, key: FireKey, owner: str, tries: int) -> Claim | None:
        """The claim, if it is pending exactly as its holder knows it."""
        claim = self.claim(key)
        if claim is None or claim.fire.status is not Status.PENDING:
            return None
        return claim if (claim.fire.owner, claim.fire.tries) == (owner, tries) else None

    def add(self, fire: Fire) -> Claim:
        """A claim that is new, or that takes the place of an expired one. Follow it by :meth:`change`."""
        claim = Claim(fire=fire, changed=self.now)
        self.put(claim)
        return claim

    def change(self, claim: Claim, **changes: Any) -> Fire:
        """Replace fields of the fire, and note that it changed now."""
        claim.fire = replace(claim.fire, **changes)
        claim.changed = self.now
        claim.serial = max(claim.serial + 1, int(self.now.timestamp() * 1000))
        if claim.fire.status is not Status.PENDING:
            claim.free = False
            if claim.fire.proof is not None:  # what left the outbox has been proven
                claim.fire = replace(claim.fire, proof=None)
        self.changed(claim)
        if claim.fire.guard is not None:
            self._keep_guard(claim)
        return claim.fire

    # --- the run-now guard: a hold ---

    def guard(self, schedule_id: str) -> str:
        """The name of the hold that is the run-now guard of a schedule."""
        return f"{GUARD}{schedule_id}"

    def _keep_guard(self, claim: Claim) -> None:
        """It goes with the outcome. Whoever lost it and finds it free has it again: a fire that goes on after it was
        abandoned, one that a loss of memory left behind."""
        key = claim.fire.key
        name = self.guard(key.schedule_id)
        if claim.fire.status.terminal:
            self.let_go(name, key)
        elif not self.holders(name):
            self.hold(name, key)

    def lapsed(self, claim: Claim, moment: Moment) -> bool:
        """Whether that moment has come for the claim."""
        at = moment_of(claim, moment, self.timing)
        return at is not None and (at < self.now or (at == self.now and moment not in _STILL_IN_TIME))

    def prefetch(self, keys: Iterable[FireKey] = (), schedules: Iterable[str] = ()) -> None:
        """These claims with their history entries, and the states of their and these schedules, are about to be asked
        for."""

    @abstractmethod
    def find(self, key: FireKey) -> Claim | None:
        """As :meth:`claim`, expired ones included."""

    @abstractmethod
    def put(self, claim: Claim) -> None:
        """See :meth:`add`."""

    @abstractmethod
    def changed(self, claim: Claim) -> None:
        """See :meth:`change`."""

    @abstractmethod
    def forget(self, key: FireKey) -> None:
        """As if there had never been a claim of this fire; its place in the line and what it holds are not touched."""

    @abstractmethod
    def soonest(self, moment: Moment, limit: int, *, holding: bool = False) -> Sequence[Claim]:
        """At most ``limit`` claims for which that moment has come, the earliest first. Costs by what is found. With
        ``holding``, only those that have ``limits``."""

    def purge(self) -> None:
        """Forget expired claims and beats; cheap, because it looks once a minute only."""
        if self.now - self.purged < _PURGE_EVERY:
            return
        self.purged = self.now
        self.forget_expired(_PURGE_BATCH)
        self.forget_parcels(self.now - self.seconds(self.timing.claim_ttl))
        self.forget_beats(self.now - FORGET_BEATS)
        self._forget_capacities()

    def forget_expired(self, limit: int) -> None:
        """At most ``limit`` claims."""
        for claim in self.soonest(Moment.EXPIRES, limit):
            self.forget(claim.fire.key)

    # --- the outbox: claims that are pending ---

    @abstractmethod
    def outbox_page(self, offset: int, limit: int) -> Sequence[Claim]:
        """Ordered by ``committed_at``, then the key's text."""

    @abstractmethod
    def owned_by(self, owner: str) -> Sequence[Claim]:
        """Pending claims of this owner."""

    @abstractmethod
    def mirrored(self) -> Sequence[Claim]:
        """Pending and waiting claims that came from a beat's memory in this epoch (``claim.mirrored``), by key."""

    # --- limits ---

    def capacity(self, name: str) -> int:
        """How many may hold a limit: what the latest request said counts for all."""
        return self.capacities.get(name, 1)

    def note_capacity(self, limit: Limit) -> bool:
        """A request says how many may hold it. True if that is more than was known."""
        known = self.capacity(limit.name)
        self.capacities[limit.name] = limit.capacity
        if limit.capacity == 1:
            del self.capacities[limit.name]
        return limit.capacity > known

    def restore_capacities(self, limits: Iterable[Limit]) -> None:
        """As fires that a loss of memory left behind know it, until somebody asks."""
        for limit in limits:
            if limit.name not in self.capacities:
                self.note_capacity(limit)

    def _forget_capacities(self) -> None:
        if self.capacities:
            used = {*self.held_limits(), *(limit.name for limits in self.wanted() for limit in limits)}
            self.capacities = {name: known for name, known in self.capacities.items() if name in used}

    def queue(self, claim: Claim) -> None:
        """Into the line: behind all of its due time."""
        self.arrivals += 1
        claim.arrival = self.arrivals
        self.joined(claim)

    @abstractmethod
    def joined(self, claim: Claim) -> None:
        """See :meth:`queue`."""

    @abstractmethod
    def unqueue(self, claim: Claim) -> bool:
        """Out of the line; false if it was not there."""

    @abstractmethod
    def line(self, names: Collection[str] | None = None) -> Sequence[Claim]:
        """Those that wait, by due time, then arrival. With ``names``, only those whose ``limits`` name one of these."""

    @abstractmethod
    def line_page(self, offset: int, limit: int) -> Sequence[Claim]:
        """At most ``limit`` of :meth:`line`, past the first ``offset``."""

    def wanted(self) -> Collection[tuple[Limit, ...]]:
        """The ``limits`` of those in line, each different ones once."""
        return {claim.limits for claim in self.line()}

    def first(self, limits: tuple[Limit, ...]) -> Claim | None:
        """The first in line of those with exactly these ``limits``."""
        return next((claim for claim in self.line() if claim.limits == limits), None)

    def waiting(self, name: str) -> int:
        """How many of those in line wait for that limit."""
        return sum(
            any(limit.name == name and limit.busy is Busy.WAIT for limit in c.limits) for c in self.line((name,))
        )

    @abstractmethod
    def holders(self, name: str) -> Mapping[FireKey, datetime]:
        """Who holds a limit, and since when: the oldest first."""

    @abstractmethod
    def hold(self, name: str, key: FireKey) -> None:
        """From now on; who holds it already does so since before."""

    @abstractmethod
    def let_go(self, name: str, key: FireKey) -> None:
        """Hold it no more."""

    @abstractmethod
    def held_limits(self) -> Sequence[str]:
        """The limits that somebody holds, by name."""

    # --- schedules ---

    @abstractmethod
    def state(self, schedule_id: str) -> ScheduleState | None: ...

    @abstractmethod
    def put_state(self, schedule_id: str, state: ScheduleState) -> None:
        """Of a schedule that has none yet."""

    # --- history ---

    @abstractmethod
    def entry(self, key: FireKey) -> FireRecord | None: ...

    @abstractmethod
    def asked(self, schedule_id: str, nonce: str) -> FireKey | None:
        """The fire of this schedule in the history that has this nonce."""

    @abstractmethod
    def put_entry(self, record: FireRecord, keep: int) -> None:
        """Write it, or write it anew. The newest ``keep`` of its schedule stay, and a few more until it is tidied."""

    @abstractmethod
    def strike(self, key: FireKey) -> None:
        """As if there had never been this entry."""

    @abstractmethod
    def history(self, schedule_id: str, since: datetime, before: datetime | None, limit: int) -> Sequence[FireRecord]:
        """Newest due time first: those due before ``before``, that last till ``since`` or later."""

    # --- what rows in a database do not know yet ---

    @abstractmethod
    def carry(self, item: Carried) -> None:
        """A later item of the same fire takes the place of the earlier."""

    @abstractmethod
    def carrying(self, key: FireKey) -> Carried | None:
        """The item of this fire that is not carried yet."""

    @abstractmethod
    def carried(self, key: FireKey, serial: int) -> None:
        """Forget the item, if it still has that serial."""

    @abstractmethod
    def uncarried(self, limit: int) -> Sequence[Carried]:
        """Oldest first."""

    @abstractmethod
    def count_uncarried(self) -> int: ...

    # --- parcels ---

    @abstractmethod
    def add_parcel(self, queued: Queued) -> None:
        """Into the queue, unless its id is known."""

    @abstractmethod
    def keep_parcel(self, queued: Queued) -> None:
        """It has changed; one that :meth:`queued_parcels` has given."""

    @abstractmethod
    def queued_parcels(self, ids: Collection[str]) -> Mapping[str, Queued]:
        """Those of them that are in the queue."""

    @abstractmethod
    def parcel_page(self, after: Parcel | None, limit: int) -> Sequence[Queued]:
        """The queue by ``(queued_at, id)``, from behind that one on."""

    @abstractmethod
    def count_parcels(self) -> int:
        """How many are in the queue."""

    @abstractmethod
    def sent_parcels(self, ids: Collection[str]) -> None:
        """Out of the queue; their ids stay known."""

    @abstractmethod
    def forget_parcels(self, before: datetime) -> None:
        """The ids of those that were sent before that."""

    # --- beats ---

    def alive(self, owner: str) -> bool:
        seen = self.seen(owner)
        return seen is not None and self.now - seen <= self.seconds(self.timing.heartbeat)

    @abstractmethod
    def seen(self, owner: str) -> datetime | None:
        """Its last sign of life."""

    @abstractmethod
    def see(self, owner: str, beat: Beat | None = None) -> None:
        """A sign of life, now; ``beat`` says more of it."""

    @abstractmethod
    def forget_beat(self, owner: str) -> None: ...

    @abstractmethod
    def forget_beats(self, before: datetime) -> None:
        """All that were last seen before that."""

    @abstractmethod
    def beats(self) -> Sequence[Beat]:
        """Those that told of themselves, by owner; ``seen`` is their last sign of life."""
