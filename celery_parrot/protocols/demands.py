"""Fires that a person asks for: run-now and backfill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from celery_parrot.model.fire import FireKey, Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One fire to be committed although no due time asks for it.

    :ivar key: of a run-now, due at the instant of the request (the coordinator's clock) with a nonce of its own, which
        an idempotency key decides where there is one. Of a backfill, the due time, with a nonce only if forced.
    :ivar store: where the schedule lives.
    :ivar recover: an abandoned fire is sent once more.
    :ivar guard: seconds; the schedule's run-now guard must be free, and is this fire's for so long, renewed with its
        run lease and freed by its outcome. None: no guard (backfill).
    :ivar override: arguments instead of the schedule's (``args``, ``kwargs``; absent: the schedule's own). Plain JSON.
        Never logged.
    :ivar by: who asked, for the history.
    """

    key: FireKey
    name: str
    kind: str
    origin: Origin
    store: str = "code"
    recover: bool = False
    guard: float | None = None
    override: Mapping[str, Any] | None = None
    by: str = ""


class DemandVerdict(StrEnum):
    ASKED = "asked"  # claimed and in the outbox, takeable at once; or it was so by an earlier asking with this key
    RUNNING = "running"  # another fire has the guard: ``held_by``
    FIRED = "fired"  # the due time has a claim or a history entry of a fire already
    QUIET = "quiet"  # the coordinator lost its memory: nothing is committed yet


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandReply:
    """:ivar held_by: with ``RUNNING``, the id of the fire that has the guard."""

    verdict: DemandVerdict
    held_by: str = ""


@runtime_checkable
class Demands(Protocol):
    """Capability of a coordinator: commit fires that a person asks for."""

    def demand(self, demands: Sequence[Demand]) -> Sequence[DemandReply]:
        """Guard, claim and outbox entry in one step each, in order; then the beats are woken.

        Needs no mark, moves none, counts for no ``max_fires``, and does not mind a schedule that is held or disabled.
        The entry has no owner: whichever beat sweeps first takes it. A range of missed due times that covers a
        backfilled one is split around it, so that the history still has every due time once. Asked again with the key
        of a demand that was committed, in whatever state its fire is: ``ASKED`` (origin run-now) or ``FIRED``
        (backfill). A guard whose fire has ended or is unknown is free."""
        ...
