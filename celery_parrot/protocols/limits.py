"""Limits: an opt-in capability of a coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from celery_parrot.protocols.line import Limit
from celery_parrot.protocols.outbox import Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRequest:
    hold: Hold
    limits: tuple[Limit, ...]


class Grant(StrEnum):
    GRANTED = "granted"
    WAITING = "waiting"
    SKIPPED = "skipped"  # recorded as success with the in-flight-skip output
    LOST = "lost"  # not pending under this hold any more, or nothing is granted while quiet: the outbox has it


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitReply:
    grant: Grant
    held_by: str = ""
    limit: str = ""


class Limits(Protocol):
    """Opt-in capability: a coordinator that keeps limits (DESIGN: one mechanism for every "not at the same time")."""

    def request(self, requests: Sequence[LimitRequest]) -> Sequence[LimitReply]:
        """Ask for all limits of each fire, in order. Idempotent by fire.

        First the limits that skip: busy means ``SKIPPED``. Then all others together or none: no capacity, and the
        fire joins the one line (ordered by due time, then arrival), its claim ``waiting`` and out of the outbox,
        still holding what it got in the first step. A newcomer never passes the line. Every terminal outcome
        (finish, reap, drop, expiry at Start) releases, and in the same step puts the waiting fires that now fit back
        into the outbox: as their own owner's, takeable at once. A skipped fire sets ``last_status`` and
        ``last_result`` and no failure count."""
        ...
