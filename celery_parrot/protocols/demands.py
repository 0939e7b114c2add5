"""Fires that a person asks for: run-now and backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from celery_parrot.model.fire import FireKey, Origin
from celery_parrot.model.plan import NotFired


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A history entry of due times that were not fired, and what is left of it around one that is fired after all.

    :ivar whole: the entry as it was read. Another one now, and nothing is done.
    :ivar before: what is left before the due time, or None. ``after``: what is left after it, or None.
    """

    whole: NotFired
    before: NotFired | None = None
    after: NotFired | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One fire to be committed although no due time asks for it.

    :ivar key: of a run-now, due at the instant of the request (the coordinator's clock) with a nonce of its own, which
        an idempotency key decides where there is one. Of a backfill, the due time, with a nonce only if forced.
    :ivar store: where the schedule lives.
    :ivar recover: an abandoned fire is sent once more.
    :ivar tells: as :attr:`~celery_parrot.model.plan.Plan.tells`.
    :ivar guard: seconds; the schedule's run-now guard must be free, and is this fire's for so long, renewed with its
        run lease and freed by its outcome. None: no guard (backfill).
    :ivar override: arguments instead of the schedule's (``args``, ``kwargs``; absent: the schedule's own). Plain JSON.
        Never logged.
    :ivar split: of a backfill of a due time inside an entry of several that the coordinator keeps: that entry.
    :ivar attempt: above 1 for a due time whose fire ended without having started: workers drop an id they saw end.
    """

    key: FireKey
    name: str
    kind: str
    origin: Origin
    store: str = "code"
    recover: bool = False
    tells: tuple[str, ...] = ()
    guard: float | None = None
    override: Mapping[str, Any] | None = field(default=None, repr=False)
    split: Split | None = None
    attempt: int = 1


class DemandVerdict(StrEnum):
    ASKED = "asked"  # claimed and in the outbox, takeable at once; or it was so by an earlier asking with this key
    RUNNING = "running"  # another fire has the guard: ``held_by``
    FIRED = "fired"  # the due time has a fire on its way already, or one that has run
    MOVED = "moved"  # the entry to be split is another one now
    QUIET = "quiet"  # the coordinator lost its memory: nothing is committed yet


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReply:
    """:ivar key: with ``ASKED``, the fire's; of a repeat it may be due earlier than what was asked for.
    :ivar again: with ``ASKED``, it was so by an earlier asking.
    :ivar held_by: with ``RUNNING``, the id of the fire that has the guard. ``since``: when that was committed.
    """

    verdict: DemandVerdict
    key: FireKey | None = None
    again: bool = False
    held_by: str = ""
    since: datetime | None = None


@runtime_checkable
class Demands(Protocol):
    """Capability of a coordinator: commit fires that a person asks for."""

    def demand(self, demands: Sequence[Demand]) -> Sequence[DemandReply]:
        """Guard, claim and outbox entry in one step each, in order; then the beats are woken.

        Needs no mark, moves none, counts for no ``max_fires``, and does not mind a schedule that is held or disabled.
        The entry has no owner: whichever beat sweeps first takes it. A range of missed due times that covers a
        backfilled one is split around it, so that the history still has every due time once. (The history of rows is
        in their database: :meth:`~.ledger.RowStore.record` splits there.)

        Asked again with the key of a run-now that is known, or with its nonce: ``ASKED``, whatever became of it, as
        long as its claim or history entry is there. A backfill of a due time whose fire is on its way or has started is
        ``FIRED``; one whose fire ended without having started is asked for anew, as a later attempt.

        A guard whose fire has ended or is unknown is free; one that has lapsed, too, unless its fire still waits to be
        sent."""
        ...
