"""Who decides a commit: the coordinator alone, or a row in a database together with it.

Schedules whose mark lives with the coordinator (``code``, ``redis``) are committed by
:meth:`~celery_parrot.protocols.coordinator.Coordinator.commit` in one step. Where the mark is a row of a database
(``db`` with coordination ``redis``), the row decides, in two steps that each are atomic and may each be the last:

1. :meth:`Preparing.prepare`: all claims of a plan or none, each outbox entry with a :class:`~..model.fire.Proof`;
2. :meth:`RowStore.advance`: one transaction that moves the row by compare-and-set and inserts the history rows with
   the same token. Then the fires are sent. Plans that lost are taken back by :meth:`Preparing.discard`.

Whoever finds an entry with a proof repeats step 2 for it (:meth:`RowStore.prove`) before sending.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from celery_parrot.model.fire import Fire, FireKey, FireRecord
from celery_parrot.model.plan import Plan, Verdict
from celery_parrot.protocols.deliveries import Parcel
from celery_parrot.protocols.outbox import CommitReply, Hold
from celery_parrot.protocols.timing import Reading


@runtime_checkable
class Preparing(Protocol):
    """Capability of a coordinator: hold claims for a row that decides, and carry what happened back to it."""

    def prepare(self, plans: Sequence[Plan], owner: str, token: str) -> tuple[Reading, Sequence[CommitReply]]:
        """Claim all planned fires of each plan or none of it, with a proof of ``token`` and the plan.

        Touches no mark. ``COMMITTED`` means prepared (a plan without fires always is); ``MOVED`` that some claim
        exists. Nothing while quiet."""
        ...

    def discard(self, holds: Sequence[Hold], token: str) -> Sequence[bool]:
        """Take back prepared fires as if they had never been claimed: only pending ones with this very token."""
        ...

    def uncarried(self, *, limit: int = 500) -> Sequence[Carried]:
        """What happened to fires of ``db`` schedules and is not in their database yet, oldest first."""
        ...

    def carried(self, items: Sequence[Carried]) -> None:
        """These are in the database now; forget each unless it changed since."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """The latest state of one fire, for its history row and its schedule's run state; what became of telling about it
    (:attr:`FireRecord.delivery`) for the latter, too.

    :ivar serial: grows with each change of the fire; :meth:`Preparing.carried` compares it.
    :ivar counted: whether a failure counts towards disabling.
    """

    record: FireRecord
    serial: int
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """One plan as a row decides it. ``fires``: the fires that were prepared for it, with their ids."""

    plan: Plan
    token: str
    fires: tuple[tuple[FireKey, str], ...] = ()


class RowStore(Protocol):
    """A store whose rows decide commits and keep run state and history themselves."""

    name: str

    def advance(self, moves: Sequence[Advance], beat: str) -> Sequence[tuple[Verdict, datetime | None]]:
        """Per move, in one transaction for all: if mark, version and ``enabled`` still are as planned, move the row
        (``last_due``, ``next_run``, ``auto_count``) and insert one history row a fire (``pending``, with the token)
        and a range. Answers with the mark as it is. A repeat of a move that got through answers ``COMMITTED``.
        Fires that ``max_fires`` has no room for any more get no row, and :meth:`prove` false."""
        ...

    def prove(self, fires: Sequence[Fire]) -> Sequence[bool]:
        """For each fire with a proof: repeat its advance; true if it is committed now or was, false if it never can
        be (the claim is then to be discarded)."""
        ...

    def record(self, items: Sequence[Carried]) -> None:
        """Bring history rows and run state up to date. Idempotent by fire id and serial; a row never goes back
        from an outcome; ``run_count`` counts a fire once; ``consecutive_failures`` counts an outcome once.

        The failure with which the count reaches the store's bound holds the row in the same transaction, as
        :meth:`~.editing.DefinitionStore.hold` by ``failures`` does, unless it is held or not enabled; see
        :class:`Owing` for the alert."""
        ...

    def lock_unavailable(self, schedule_ids: Sequence[str]) -> None:
        """Set ``last_status = "lock_unavailable"``: due, but the coordinator cannot be asked."""
        ...

    def prune(self, *, limit: int = 1000) -> int:
        """Delete history over age or count, at most ``limit`` rows; how many were."""
        ...


@runtime_checkable
class Owing(Protocol):
    """Capability of a :class:`RowStore`: parcels that its own decisions call for.

    What misses due times of a schedule that wants it told, or disables one, writes the parcel in the same transaction.
    A beat brings it to :meth:`~.deliveries.Deliveries.queue_parcels` and says so afterwards. So a crash in between
    repeats the parcel, which is known by its id then, and none is lost."""

    def owed(self, *, limit: int = 100) -> Sequence[Parcel]:
        """Parcels that are not queued yet, oldest first."""
        ...

    def settled(self, ids: Sequence[str]) -> None:
        """These are in the coordinator's queue now. Idempotent."""
        ...


class Ledger(Protocol):
    """Commits the plans of one store, and knows whether a fire of it may be sent."""

    def commit(self, plans: Sequence[Plan], owner: str) -> tuple[Reading, Sequence[CommitReply]]:
        """As :meth:`~celery_parrot.protocols.coordinator.Coordinator.commit`."""
        ...

    def prove(self, fires: Sequence[Fire]) -> Mapping[FireKey, bool]:
        """Which of these outbox entries may be sent; the others are discarded already."""
        ...
