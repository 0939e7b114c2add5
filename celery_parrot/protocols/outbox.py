"""What beats and the coordinator tell each other: marks, commits, the outbox."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from celery_parrot.model.fire import Fire, FireKey, Status
from celery_parrot.model.plan import PlannedFire, Verdict
from celery_parrot.model.state import Beat
from celery_parrot.protocols.line import Waiting
from celery_parrot.protocols.timing import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A schedule of this process that shares its mark through the coordinator.

    :ivar when: fingerprint of everything that decides due times. A registration with another fingerprint than the
        stored one is an edit of *when*: the mark becomes ``initial`` (the coordinator's now if None), but never
        moves back, unless nothing was decided since it was registered.
    :ivar initial: the mark if there is none yet; None: the coordinator's now. Given for one-shots (just before
        their instant) and by processes that knew the mark before.
    """

    schedule_id: str
    when: str
    initial: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """The shared mark of a schedule. ``held`` is why it must not fire now (``person``, ``failures``) or None."""

    schedule_id: str
    last_due: datetime
    held: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """What became of one plan.

    :ivar fires: the planned fires whose claim is now ours, in order (a due time someone else's claim already
        covers is left out, and the mark moves all the same; so are those over ``max_fires``).
    :ivar mark: the mark as it is now.
    :ivar held: with ``HELD``, why (``person``, ``failures``).
    """

    schedule_id: str
    verdict: Verdict
    mark: datetime | None = None
    held: str | None = None
    fires: tuple[PlannedFire, ...] = ()
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """A claim as its owner knows it: the ticket for renew, confirm, drop. Compared with owner and ``tries``."""

    key: FireKey
    owner: str
    tries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """End a fire of the outbox without sending it."""

    hold: Hold
    status: Status
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepReply:
    """The outbox as it is, and which entries may be taken over.

    :ivar entries: the whole outbox up to the page limit, oldest first: the mirror that survives a memory loss.
    :ivar due: those entries (of any owner, the caller included) that a sweeper may take now: the owner's heartbeat
        is gone, or the claim is older than ``takeover_after``, or it is the caller's own and its retry pause is over,
        or its owner left. None while quiet. Its own a beat may take before ``judge_from``: that judges nobody.
    :ivar beats: every beat that is known, living or not yet forgotten.
    :ivar line: the fires that wait for limits, in order and up to the page limit, with what they wait for: mirrored
        like ``entries``. Empty where the coordinator keeps no limits.
    """

    reading: Reading
    entries: tuple[Fire, ...] = ()
    due: tuple[Hold, ...] = ()
    beats: tuple[Beat, ...] = ()
    line: tuple[Waiting, ...] = ()
