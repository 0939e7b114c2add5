"""The data of one registered name, and the few steps that every operation shares."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from celery_parrot.errors import MemoryLost
from celery_parrot.model.fire import Fire, FireKey, FireRecord, Namespace, Status
from celery_parrot.model.state import Beat, RunState
from celery_parrot.protocols import Carried, Limit, Reading, Timing

BEGINNING = datetime.min.replace(tzinfo=UTC)

#: Silence after which a beat is dropped from the list.
FORGET_BEATS = timedelta(hours=1)

#: Claims are looked through for expired ones this often.
_PURGE_EVERY = timedelta(minutes=1)


@dataclass(slots=True)
class Claim:
    """A fire with what only the coordinator needs to know of it.

    :ivar changed: last change; a claim that is not in flight is forgotten ``claim_ttl`` later.
    :ivar free: takeable by any sweeper at once (its owner left, or a release named it).
    :ivar counted: already in ``run_count``.
    :ivar put_back_at: when a delivery was last put back because another one held the lease.
    :ivar renewed: the lease was renewed since then, which proves that its delivery lives.
    :ivar ended_by: token and status of the last outcome taken, to recognise its repeat.
    :ivar passed: the token whose run went on as the next attempt before it had reported.
    :ivar stray: made by a message alone: its schedule may be a row's.
    :ivar uncounted: its failure does not count towards disabling.
    :ivar serial: grows with each change, over a loss of memory, too.
    :ivar limits: what it asked for; ``granted`` once it holds all of them.
    """

    fire: Fire
    changed: datetime
    free: bool = False
    counted: bool = False
    put_back_at: datetime | None = None
    renewed: bool = True
    ended_by: tuple[str, Status] | None = None
    passed: str = ""
    stray: bool = False
    uncounted: bool = False
    serial: int = 0
    limits: tuple[Limit, ...] = ()
    granted: bool = False
    arrival: int = 0


@dataclass(slots=True)
class ScheduleState:
    """Run state and mark of one schedule.

    :ivar when: fingerprint of the definition that the mark belongs to; empty if not known.
    :ivar initial: nothing was decided from the mark since it was registered.
    """

    run: RunState = field(default_factory=RunState)
    when: str = ""
    initial: bool = True
    note: str = ""
    held_at: datetime | None = None


class Space:
    """Everything that one ``parrot_name`` keeps. Used under the server's lock only."""

    def __init__(self, namespace: Namespace, timing: Timing) -> None:
        self.namespace = namespace
        self.timing = timing
        self.now = BEGINNING
        self.run_id = ""
        # the common key
        self.epoch = ""
        self.made_on = ""
        self.touched = BEGINNING
        self.judge_from = BEGINNING
        self.beats_from = BEGINNING  # as judge_from, of beats and the claims they own
        self.quiet_until = BEGINNING
        self.remembered = False
        self.mirror_of: datetime | None = None  # the freshest memory that was put back in this epoch
        self.mirrored: set[FireKey] = set()  # what came from memories
        # data
        self.claims: dict[FireKey, Claim] = {}
        self.outbox: set[FireKey] = set()
        self.running: set[FireKey] = set()
        self.states: dict[str, ScheduleState] = {}
        self.history: dict[str, dict[str, FireRecord]] = {}
        self.uncarried: dict[FireKey, Carried] = {}  # what rows in a database do not know yet, oldest first
        self.beats: dict[str, Beat] = {}
        self.seen: dict[str, datetime] = {}
        self.line: list[FireKey] = []
        self.holders: dict[str, list[FireKey]] = {}
        self.arrivals = 0
        self._purged = BEGINNING

    # --- the common key ---

    def seconds(self, value: float) -> timedelta:
        return timedelta(seconds=value)

    @property
    def lease(self) -> timedelta:
        return timedelta(seconds=self.timing.lease)

    @property
    def judging(self) -> bool:
        return self.now >= self.judge_from

    @property
    def quiet(self) -> bool:
        return self.now < self.quiet_until

    def touch(self) -> None:
        """A call came in. After a silence of everybody nobody is judged for one lease time; after half such a silence
        no beat is for half of it, in which every living one is heard again."""
        silence, untouched = self.now - self.touched, self.seconds(self.timing.untouched)
        if self.touched != BEGINNING and silence >= untouched:
            self.judge_from = max(self.judge_from, self.now + self.lease)
        elif self.touched != BEGINNING and silence >= untouched / 2:
            self.beats_from = max(self.beats_from, self.now + untouched / 2)
        self.touched = self.now

    def check(self, known: str) -> None:
        """:raises MemoryLost: if what the caller knew is not what is here; nothing has been touched then."""
        if known != self.epoch or self.made_on != self.run_id:
            raise MemoryLost(self.epoch if self.made_on == self.run_id else "")

    def new_epoch(self, epoch: str) -> None:
        self.epoch, self.made_on, self.remembered = epoch, self.run_id, False
        self.mirror_of, self.mirrored = None, set()

    def keep_quiet(self) -> None:
        """Grant and judge nothing for one lease time, so that everybody can say what they remember."""
        self.quiet_until = self.now + self.lease
        self.judge_from = max(self.judge_from, self.quiet_until)

    def reading(self) -> Reading:
        return Reading(now=self.now, epoch=self.epoch, judge_from=self.judge_from, quiet_until=self.quiet_until)

    # --- claims ---

    def claim(self, key: FireKey) -> Claim | None:
        """The claim of a fire, unless it has expired."""
        claim = self.claims.get(key)
        if claim is not None and self._expired(claim):
            del self.claims[key]
            return None
        return claim

    def held(self, key: FireKey, owner: str, tries: int) -> Claim | None:
        """The claim, if it is pending exactly as its holder knows it."""
        claim = self.claim(key)
        if claim is None or claim.fire.status is not Status.PENDING:
            return None
        return claim if (claim.fire.owner, claim.fire.tries) == (owner, tries) else None

    def add(self, fire: Fire) -> Claim:
        claim = self.claims[fire.key] = Claim(fire=fire, changed=self.now)
        return claim

    def change(self, claim: Claim, **changes: Any) -> Fire:
        """Replace fields of the fire; the outbox follows the status."""
        claim.fire = replace(claim.fire, **changes)
        claim.changed = self.now
        claim.serial = max(claim.serial + 1, int(self.now.timestamp() * 1000))
        key, status = claim.fire.key, claim.fire.status
        if status is Status.PENDING:
            self.outbox.add(key)
        else:
            self.outbox.discard(key)
            claim.free = False
            if claim.fire.proof is not None:  # what left the outbox has been proven
                claim.fire = replace(claim.fire, proof=None)
        (self.running.add if status is Status.RUNNING else self.running.discard)(key)
        return claim.fire

    def alive(self, owner: str) -> bool:
        seen = self.seen.get(owner)
        return seen is not None and self.now - seen <= self.seconds(self.timing.heartbeat)

    def purge(self) -> None:
        """Forget expired claims and beats; cheap, because it looks once a minute only."""
        if self.now - self._purged < _PURGE_EVERY:
            return
        self._purged = self.now
        for key in [key for key, claim in self.claims.items() if self._expired(claim)]:
            del self.claims[key]
        for owner in [owner for owner, seen in self.seen.items() if self.now - seen > FORGET_BEATS]:
            del self.seen[owner]
            self.beats.pop(owner, None)

    def _expired(self, claim: Claim) -> bool:
        # What is in flight here has no expiry: the outbox, the line and the reaper bring it to an outcome.
        if claim.fire.status in (Status.PENDING, Status.WAITING, Status.RUNNING):
            return False
        ended = claim.fire.status is not Status.SENT
        life = min(self.timing.claim_ttl, self.timing.ended_ttl) if ended else self.timing.claim_ttl
        return self.now - claim.changed >= self.seconds(life)
